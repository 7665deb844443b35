"""Nesting of arguments and results as plain data and back: containers, objects without their tensors, values of torch.

Reading builds nothing but objects of vouched classes (``classes.py``), from their parts; names of modules and functions in a
file lead nowhere. Invariant: what is read is either a nesting torch can flatten and put together again, or an ArtifactError.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require
from ....support.schema import Misfit
from .classes import PLAIN, SEEN, AllowedClasses, class_name
from .structures import LEAF, Template, register_class

_PLAIN = (bool, int, float, str, type(None))
_TORCH = ("dtype", "layout", "memory_format")


def write_value(value: Any) -> Any:
    """A constant as plain data: a value JSON has, or an object with one key that says what it is. Raises FrontendError E019."""
    torch = require("torch")
    kind = type(value)
    if kind in _PLAIN:
        return value
    if value is LEAF:
        return {"leaf": None}
    if kind is Template:
        keys = None if value.keys is None else [write_value(k) for k in value.keys]
        return {"object": [class_name(value.kind), keys, [write_value(p) for p in value.parts]]}
    if kind in (list, tuple, set, frozenset, torch.Size):
        return {"size" if kind is torch.Size else kind.__name__: [write_value(v) for v in value]}
    if kind is dict:
        return {"dict": [[write_value(k), write_value(v)] for k, v in value.items()]}
    for name in _TORCH:
        if kind is getattr(torch, name):
            return {name: str(value).removeprefix("torch.")}
    if kind is torch.device:
        return {"device": str(value)}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, enum.Enum):
        return {"enum": [class_name(kind), value.name]}
    if isinstance(value, type):
        return {"class": class_name(value)}
    raise FrontendError("E019", f"a {kind.__name__} among the arguments or results cannot be saved")


def read_value(data: Any, vouched: AllowedClasses) -> Any:
    """The value that ``write_value`` wrote. Raises Misfit, ArtifactError E807."""
    if type(data) in _PLAIN:
        return data
    if type(data) is not dict or len(data) != 1:
        raise Misfit("expected a value")
    ((kind, inner),) = data.items()
    if kind == "leaf":
        return LEAF
    if kind in ("enum", "class", *_TORCH, "device"):
        return _read_name(kind, inner, vouched)
    if type(inner) is not list:
        raise Misfit(f"expected the parts of a {kind!r}")
    if kind == "object":
        return _read_object(inner, vouched)
    if kind == "dict":
        pairs = [[read_value(part, vouched) for part in _row(pair, 2)] for pair in inner]
        return dict(_hashable(pairs, [key for key, _ in pairs]))
    parts = [read_value(part, vouched) for part in inner]
    if kind in ("list", "tuple"):
        return parts if kind == "list" else tuple(parts)
    if kind in ("set", "frozenset"):
        return (set if kind == "set" else frozenset)(_hashable(parts, parts))
    if kind == "size" and all([type(p) is int for p in parts]):
        return require("torch").Size(parts)
    if kind == "complex" and len(parts) == 2 and all([type(p) in (int, float) for p in parts]):
        return complex(*parts)
    raise Misfit(f"unknown kind of value {kind!r}")


def _row(data: Any, count: int) -> list[Any]:
    if type(data) is not list or len(data) != count:
        raise Misfit(f"expected a row of {count}")
    return data


def _hashable(found: Any, keys: Any) -> Any:
    """``found``, where keys can be keys and differ."""
    try:
        different = len(set(keys)) == len(keys)
    except TypeError:
        different = False
    if not different:
        raise Misfit("keys that are equal, or no keys")
    return found


def _read_name(kind: str, inner: Any, vouched: AllowedClasses) -> Any:
    torch = require("torch")
    if kind == "enum":
        name, member = _row(inner, 2)
        found = vouched.find(str(name))
        if not issubclass(found, enum.Enum) or member not in found.__members__:
            raise Misfit("no such member of an enumeration")
        return found.__members__[member]
    if type(inner) is not str:
        raise Misfit(f"expected the name of a {kind}")
    if kind == "class":
        return vouched.find(inner)
    if kind == "device":
        try:
            return torch.device(inner)
        except RuntimeError as error:
            raise Misfit(f"no device {inner[:40]!r}") from error
    result = getattr(torch, inner, None) if inner.isidentifier() else None
    if type(result) is not getattr(torch, kind):
        raise Misfit(f"no {kind} {inner[:40]!r}")
    return result


def _read_object(inner: list[Any], vouched: AllowedClasses) -> Template:
    """An object without its tensors: attributes by name, keys of a dict, or places of a list or tuple."""
    name, keys, parts = _row(inner, 3)
    if type(name) is not str or type(parts) is not list or type(keys) not in (list, type(None)):
        raise Misfit("expected an object: class, keys, parts")
    kind = vouched.find(name)
    result = tuple([read_value(part, vouched) for part in parts])
    if keys is None:
        if not issubclass(kind, (list, tuple)) or len(result) != len(getattr(kind, "_fields", result)):
            raise Misfit(f"{name} is not a sequence of {len(result)}")
        return Template(kind, None, result)
    names = tuple(_hashable(found := [read_value(k, vouched) for k in keys], found))
    if len(names) != len(result) or issubclass(kind, (list, tuple, set, frozenset, *_PLAIN[:4])):
        raise Misfit(f"{name} has {len(names)} keys and {len(result)} parts")
    if not issubclass(kind, dict) and not all(
        [type(n) is str and n.isidentifier() and not n.startswith("__") for n in names]
    ):
        raise Misfit(f"attributes of {name} that are not names")
    return Template(kind, names, result)


def leaves_of(template: Any) -> int:
    """Number of the tensors that belong into a template."""
    if template is LEAF:
        return 1
    return sum([leaves_of(part) for part in template.parts]) if type(template) is Template else 0


# ---- torch's description of a nesting


def write_spec(spec: Any) -> Any:
    """A ``TreeSpec`` as plain data: null for a leaf, else class, context, children. Raises FrontendError E019."""
    if spec.is_leaf():
        return None
    tree = require("torch").utils._pytree
    context = spec.context
    if spec.type in (namedtuple, defaultdict):
        kind = context if spec.type is namedtuple else spec.type
        data: Any = None if spec.type is namedtuple else write_value([context[0], context[1]])
    else:
        kind = spec.type
        try:
            data = write_value(context)
        except FrontendError:
            dump = tree.SUPPORTED_SERIALIZED_TYPES[kind].to_dumpable_context
            if dump is None:
                raise
            data = {"dumped": dump(context)}
    return [class_name(kind), data, [write_spec(child) for child in spec.children()]]


def note_classes(spec: Any) -> None:
    """Vouch for the named tuples of a model of this process; torch takes objects apart by classes it knows (``structures.py``)."""
    if spec.type is namedtuple:
        SEEN[class_name(spec.context)] = spec.context
    for child in spec.children():
        note_classes(child)


def read_spec(data: Any, vouched: AllowedClasses) -> Any:
    """The structure that ``write_spec`` wrote, as torch's ``TreeSpec``. Raises Misfit, ArtifactError E807."""
    torch = require("torch")
    tree = torch.utils._pytree
    if data is None:
        return tree.tree_structure(0)
    name, context, parts = _row(data, 3)
    if type(name) is not str or type(parts) is not list:
        raise Misfit("expected a nesting: class, context, children")
    children = [read_spec(part, vouched) for part in parts]
    kind, count = vouched.find(name), len(children)
    if kind in (list, tuple):
        return tree.TreeSpec(kind, _same(read_value(context, vouched), None), children)
    if kind in (dict, OrderedDict):
        return tree.TreeSpec(kind, _keys(read_value(context, vouched), count), children)
    if kind is defaultdict:
        factory, keys = _row(read_value(context, vouched), 2)
        if factory is not None and factory not in PLAIN.values():
            raise Misfit("a defaultdict of what is not a plain class")
        return tree.TreeSpec(kind, [factory, _keys(keys, count)], children)
    if kind is deque:
        most = read_value(context, vouched)
        if most is not None and (type(most) is not int or most < count):
            raise Misfit("a deque of no length")
        return tree.TreeSpec(kind, most, children)
    if kind not in tree.SUPPORTED_NODES and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        _same(len(kind._fields), count)
        return tree.TreeSpec(namedtuple, kind, children)
    if kind in PLAIN.values():
        raise Misfit(f"{name} is not a container")
    if isinstance(context, dict) and set(context) == {"dumped"}:
        node = tree.SUPPORTED_SERIALIZED_TYPES.get(kind)
        if node is None or node.from_dumpable_context is None:
            raise Misfit(f"{name} has no context of its own")
        return tree.TreeSpec(kind, node.from_dumpable_context(context["dumped"]), children)
    found = read_value(context, vouched)
    if type(found) is Template:
        if found.kind is not kind or leaves_of(found) != count:
            raise Misfit(f"an object of {name} with another number of tensors")
        if kind not in tree.SUPPORTED_NODES:
            register_class(kind)
    elif kind not in tree.SUPPORTED_NODES:
        raise Misfit(f"{name} is not an object")
    return tree.TreeSpec(kind, found, children)


def _same(found: Any, wanted: Any) -> Any:
    if found != wanted:
        raise Misfit(f"expected {wanted}")
    return found


def _keys(keys: Any, count: int) -> list[Any]:
    if type(keys) is not list or len(keys) != count:
        raise Misfit(f"expected {count} keys")
    return _hashable(keys, keys)  # type: ignore[no-any-return]
