"""Results and inputs that are objects: caches, dataclasses, anything that holds tensors in its attributes.

``torch.export`` flattens lists, tuples, dicts and classes somebody registered. The classes met here are registered with torch's
table of tree nodes on first sight: their tensors are the children, everything else about the object is a constant of the
structure. Classes registered already (by their library or the user) are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require
from .classes import SEEN, class_name

_MAX_DEPTH = 32


class _Leaf:
    """Stands for a tensor in a template. There is one, known by identity: copies and pickles of a template keep it."""

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "LEAF"


LEAF = _Leaf()


@dataclass(slots=True, frozen=True)
class Template:
    """An object without its tensors: class, names of attributes or keys, and what they hold."""

    kind: type
    keys: tuple[Any, ...] | None
    parts: tuple[Any, ...]

    def __repr__(self) -> str:
        inner = self.parts if self.keys is None else [f"{k}={p!r}" for k, p in zip(self.keys, self.parts)]
        return f"{self.kind.__name__}({', '.join([str(p) for p in inner])})"


def flatten(value: Any) -> tuple[list[Any], Any]:
    """(tensors and symbolic numbers in order, template) of an object. Raises FrontendError E961."""
    leaves: list[Any] = []
    return leaves, _template(value, leaves, require("torch"), 0)


def unflatten(leaves: Any, template: Any) -> Any:
    """The object ``flatten`` took apart, around other tensors."""
    return _rebuild(template, iter(leaves))


def _template(value: Any, leaves: list[Any], torch: Any, depth: int) -> Any:
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return LEAF
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        known = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None
        if known is not None:
            return known
        leaves.append(value)
        return LEAF
    kind = type(value)
    if depth > _MAX_DEPTH or isinstance(value, (torch.nn.Module, FunctionType, MethodType, ModuleType)):
        raise FrontendError("E961", f"an input or result holds a {kind.__name__}, which is not data")
    if kind.__module__ != "builtins":
        SEEN[class_name(kind)] = kind
    if isinstance(value, type):
        SEEN[class_name(value)] = value
    if isinstance(value, dict):
        return Template(kind, tuple(value), tuple([_template(v, leaves, torch, depth + 1) for v in value.values()]))
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return Template(kind, None, tuple([_template(v, leaves, torch, depth + 1) for v in value]))
    names = _attributes(value)
    if names is None:
        return value
    parts = [_template(getattr(value, n), leaves, torch, depth + 1) for n in names]
    return Template(kind, names, tuple(parts))


def _attributes(value: Any) -> tuple[str, ...] | None:
    """Names of an object's attributes; None for plain values such as numbers, strings, types and enumerations."""
    if isinstance(value, type) or type(value).__module__ in ("builtins", "torch", "enum") or hasattr(value, "_value_"):
        return None
    if not hasattr(value, "__dict__") and not hasattr(type(value), "__slots__"):
        return None
    names = tuple(getattr(value, "__dict__", ()))
    slots = [s for k in type(value).__mro__ for s in getattr(k, "__slots__", ()) if isinstance(s, str)]
    return (*names, *[s for s in slots if not s.startswith("__") and hasattr(value, s)])


def _rebuild(template: Any, leaves: Iterator[Any]) -> Any:
    if template is LEAF:
        return next(leaves)
    if type(template) is not Template:
        return template
    parts = [_rebuild(p, leaves) for p in template.parts]
    kind = template.kind
    if template.keys is None:
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if issubclass(kind, dict):
        return kind(zip(template.keys, parts))
    made = kind.__new__(kind)
    for name, part in zip(template.keys, parts):
        object.__setattr__(made, name, part)
    return made


def constant_difference(given: Any, wanted: Any) -> str | None:
    """Differences of constants in nested data (``TreeSpec``), in words: "steps is 3, not 2"."""
    if given.is_leaf() or wanted.is_leaf():
        return None
    found = [_first_difference(given.context, wanted.context)]
    found += [constant_difference(a, b) for a, b in zip(given.children(), wanted.children())]
    return next((text for text in found if text is not None), None)


def _first_difference(given: Any, wanted: Any) -> str | None:
    shells = type(given) is type(wanted) is Template
    if not shells or given.keys != wanted.keys or len(given.parts) != len(wanted.parts):
        return None
    names = given.keys if given.keys is not None else tuple([f"[{i}]" for i in range(len(given.parts))])
    for name, part, other in zip(names, given.parts, wanted.parts):
        nested = _first_difference(part, other)
        if nested is not None:
            return nested
        if not {type(part), type(other)} & {Template, _Leaf} and part != other:
            return f"{name} is {part!r}, not {other!r}"
    return None


def register_classes(value: Any) -> None:
    """Teach torch the classes of all objects in nested data. Raises FrontendError E961."""
    torch = require("torch")
    tree = torch.utils._pytree
    plain = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    for leaf in tree.tree_leaves(value):
        kind = type(leaf)
        if isinstance(leaf, plain) or kind in tree.SUPPORTED_NODES:
            continue
        if (isinstance(leaf, (dict, list, tuple)) and kind is not torch.Size) or _attributes(leaf) is not None:
            flatten(leaf)
            register_class(kind)


def register_class(kind: type) -> None:
    """Teach torch one class."""
    torch = require("torch")
    torch.utils._pytree.register_pytree_node(
        kind, flatten, unflatten, flatten_with_keys_fn=_with_keys, serialized_type_name=class_name(kind)
    )
    torch.fx._pytree.register_pytree_flatten_spec(kind, lambda found, spec: flatten(found)[0])


def _with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
    leaves, template = flatten(value)
    key = require("torch").utils._pytree.SequenceKey
    return [(key(i), leaf) for i, leaf in enumerate(leaves)], template


@contextmanager
def known_results(model: Any) -> Iterator[None]:
    """While it lasts, results of the model are looked through by ``register_classes`` before torch sees them."""

    def look(module: Any, args: Any, result: Any) -> None:
        register_classes(result)

    handle = model.register_forward_hook(look)
    try:
        yield
    finally:
        handle.remove()
