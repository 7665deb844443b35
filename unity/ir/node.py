"""``@node``: slotted dataclasses with identity equality, and the field markers that say what a field means.

From the markers the generic walks are derived once (those of one node here, those of trees in `walk.py`), and comparisons
(`structural.py`). Invariant: children are nodes, tuples of nodes, or dicts whose values may be nodes; never lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from functools import update_wrapper
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform, overload

import numpy as np

from ..support.arguments import guarded
from ..support.errors import UnityError
from ..support.lazy import load
from ..support.options import bool_option

_T = TypeVar("_T")
_N = TypeVar("_N", bound="Node")
_C = TypeVar("_C", bound=type)
Visit = Callable[[Any], Any]

Def = Annotated[_T, "def"]
"""The field binds the variables or buffers it holds (and the symbols its types show first)."""
Own = Annotated[_T, "own"]
"""The field binds the variables or buffers it holds alone: the symbols of their types and shapes come from outside."""
Aside = Annotated[_T, "aside"]
"""The field is not part of the meaning: spans, hints. Neither walked nor compared."""
Derived = Annotated[_T, "derived"]
"""The field follows from the others: rewritten with them, not compared."""

DEF, OWN, PLAIN, DERIVED, LEAF, ASIDE = "def", "own", "plain", "derived", "leaf", "aside"
BINDING = (DEF, OWN)
_LEAF_TYPES = {
    "str",
    "int",
    "bool",
    "float",
    "DataType",
    "PrimType",
    "str | None",
    "int | None",
    "DataType | None",
    "Tensor",
}

CHECKED = bool_option("UNITY_CHECKED")


class Node:
    """Base of every IR node. Equality and hash are identity; use ``structural_equal`` for meaning."""

    __slots__ = ()
    plan: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(field name, role) in printing order."""
    walked: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The part of the plan that may hold nodes."""
    binds: ClassVar[bool] = False
    """Some fields bind what they hold."""
    _push_children: ClassVar[Any] = None
    """``_push_children(node, stack)`` appends what the fields hold, last first; None for nodes that hold none."""
    _push_statements: ClassVar[Any] = None
    """The same, first first, for the fields that may hold statements; None for nodes without such a field."""
    _map_children: ClassVar[Any] = lambda node, visit, define: node
    """``_map_children(node, visit, define)``: the node with ``visit`` of its children (``define`` in binding fields), itself if all
    are the same."""
    _map_statements: ClassVar[Any] = lambda node, visit: node
    """``_map_statements(node, visit)``: the same for children in fields that may hold statements; the others stay."""
    field_places: ClassVar[dict[str, int]] = {}
    """The place of each field in the plan."""
    field_values: ClassVar[Callable[[Any], tuple[Any, ...]]]
    """The values of the fields of a node, in the order of the plan."""
    is_reference: ClassVar[bool] = False
    """True for nodes that stand for themselves wherever they are used (variables, buffers)."""

    def same_as(self, other: object) -> bool:
        """True if ``other`` is the same object: TVM's spelling of ``is``."""
        return self is other

    @guarded
    def script(self, dialect: str = "unity", **options: Any) -> str:
        """Return the node as script; ``dialect="tvm"`` prints what TVM 0.27 reads. ``options``: as in ``unity.script.script``."""
        return script_hook("script")(self, dialect=dialect, **options)

    def show(self, **options: Any) -> None:
        """Print the node as script, highlighted in a terminal. ``options``: as in ``script``."""
        script_hook("show")(self, **options)

    def __repr__(self) -> str:
        return printed(self)


def short_repr(value: Node) -> str:
    """Class and name of a node."""
    name = getattr(value, "name", None)
    return f"<{type(value).__name__} {name}>" if isinstance(name, str) else f"<{type(value).__name__}>"


SCRIPT_HOOKS: dict[str, Callable[..., Any]] = {}
"""``print``, ``script``, ``show``, ``html`` and ``parse``: filled by the script room when one is first asked for."""


def printed(value: Node) -> str:
    """A node as text; a plain one while the script room is being loaded."""
    if "print" not in SCRIPT_HOOKS:
        SCRIPT_HOOKS["print"] = short_repr
        load("script")
    try:
        text: str = SCRIPT_HOOKS["print"](value)
    except (AttributeError, TypeError, ValueError, LookupError):
        return f"{short_repr(value)} whose fields are not what they should be"
    return text


@overload
def script_hook(name: Literal["script", "html"]) -> Callable[..., str]: ...
@overload
def script_hook(name: Literal["show", "parse"]) -> Callable[..., Any]: ...
def script_hook(name: str) -> Callable[..., Any]:
    """A function of the script room, which is loaded now if it was not. Raises UnityError E302 where it cannot be."""
    if name not in SCRIPT_HOOKS:
        load("script")
    hook = SCRIPT_HOOKS.get(name)
    if hook is None:
        raise UnityError("E302", "printing needs the script room", help="import unity.script first")
    return hook


def _role(annotation: str) -> str:
    marked = {"Def": DEF, "Own": OWN, "Aside": ASIDE, "Derived": DERIVED}.get(annotation.partition("[")[0])
    return marked or (LEAF if annotation in _LEAF_TYPES else PLAIN)


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from a node to the values of its fields: in C where there are several."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda target: tuple([getattr(target, name) for name in names])


@dataclass_transform(eq_default=False, field_specifiers=())
def node(cls: _C) -> _C:
    """Make a node class: a slotted dataclass with identity equality, frozen when ``UNITY_CHECKED=1``."""
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    if CHECKED:
        _freeze(made)
    plan = tuple((f.name, _role(str(f.type))) for f in fields(made) if f.init)
    made.plan = plan
    made.field_places = {name: place for place, (name, _) in enumerate(plan)}
    made.field_values = staticmethod(_values_of(list(made.field_places)))
    walked = [(name, role) for name, role in plan if role not in (LEAF, ASIDE)]
    made.walked = tuple(
        sorted(walked, key=lambda item: item[1] not in BINDING)
    )  # what a node binds comes before its uses
    derive_walks(made, {f.name: str(f.type) for f in fields(made)})
    return made  # type: ignore[no-any-return]


def _freeze(made: Any) -> None:
    """Let the fields of a class be filled by its ``__init__`` alone: by the setters of their slots, which take half as long as
    those of a frozen dataclass."""
    scope: dict[str, Any] = {"MISSING": MISSING}
    given, filled = ["self"], []
    for field in fields(made):
        name = field.name
        scope |= {
            f"set_{name}": getattr(made, name).__set__,
            f"first_{name}": field.default,
            f"new_{name}": field.default_factory,
        }
        default = field.default is not MISSING or field.default_factory is not MISSING
        given.append(f"{name}=first_{name}" if default else name)
        fresh = f" if {name} is not MISSING else new_{name}()" if field.default_factory is not MISSING else ""
        filled.append(f"    set_{name}(self, {name}{fresh})")
    filled += ["    self.__post_init__()"] * hasattr(made, "__post_init__")
    exec("\n".join([f"def __init__({', '.join(given)}):", *filled, "    return None"]), scope)
    made.__init__ = update_wrapper(scope["__init__"], made.__init__)
    made.__setattr__, made.__delattr__, made.__setstate__ = _refuse_field, _refuse_field, _restore


def _refuse_field(target: Node, name: str, value: object = None) -> None:
    """Refuse to set or delete a field of a frozen node."""
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _restore(target: Node, state: tuple[None, dict[str, object]]) -> None:
    """Fill a copy, which is made without ``__init__``."""
    for name, value in state[1].items():
        set_field(target, name, value)


def set_field(target: Node, name: str, value: object) -> None:
    """Fill a field after construction (only for builders tying a knot, e.g. a recursive type)."""
    object.__setattr__(target, name, value)


def replace(target: _N, /, **changes: object) -> _N:
    """Return a copy of ``target`` with the fields ``changes``; ``target`` itself where they are the same, or tuples of the same."""
    kind = type(target)
    values, places, same = list(kind.field_values(target)), kind.field_places, True
    try:
        for name, value in changes.items():
            place = places[name]
            same = same and same_items(values[place], value)
            values[place] = value
    except KeyError as error:
        raise TypeError(f"{kind.__name__} has no field {error}") from None
    return target if same and changes else kind(*values)


def frozen(value: Any) -> Any:
    """A value of an attribute as a reader of script gives it: tuples for lists and arrays, Python's numbers for numpy's.

    Attributes are compared by value and never change.
    """
    if isinstance(value, (list, tuple)):
        return tuple([frozen(item) for item in value])
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return frozen(value.tolist()) if isinstance(value, np.ndarray) else value


def same_items(old: object, new: object) -> bool:
    """True for one object, and for tuples of the same objects."""
    if old is new:
        return True
    return (
        type(old) is tuple and type(new) is tuple and len(old) == len(new) and all([a is b for a, b in zip(old, new)])
    )


# ---- walks of the fields of one node
#
# They are where most of the time of passes goes: a function that names the fields of its class takes about half as long as
# a loop over them. Each class gets its own when a node of it is first walked.


def collect_held(value: Any, found: list[Any]) -> None:
    """Append the nodes in the value of a field, in order."""
    if isinstance(value, Node):
        found.append(value)
    elif type(value) is tuple:
        for item in value:
            collect_held(item, found)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, Node):
                found.append(key)
            collect_held(item, found)


def push_held(value: Any, stack: list[Any]) -> None:
    """The same, last first."""
    found: list[Any] = []
    collect_held(value, found)
    found.reverse()
    stack += found


def map_held(value: Any, visit: Visit) -> Any:
    """The value of a field with ``visit`` of the nodes in it; the same object if none changed."""
    if isinstance(value, Node):
        return visit(value)
    if type(value) is tuple:
        if len(value) < 2:
            if not value:
                return value
            item = value[0]
            new = visit(item) if isinstance(item, Node) else map_held(item, visit)
            return value if new is item else (new,)
        mapped = [visit(item) if isinstance(item, Node) else map_held(item, visit) for item in value]
        for old, new in zip(value, mapped):
            if old is not new:
                return tuple(mapped)
        return value
    if isinstance(value, dict):
        changed = False
        result = {}
        for key, item in value.items():
            new_key = visit(key) if isinstance(key, Node) else key
            new_item = map_held(item, visit)
            changed = changed or new_key is not key or new_item is not item
            result[new_key] = new_item
        return result if changed else value
    return value


def derive_walks(cls: Any, types: dict[str, str]) -> None:
    """Give a class its ``_push_children``, ``_map_children`` and ``_map_statements``, which write themselves at their first call.

    ``types``: annotations of the fields.
    """
    if not cls.walked:
        return

    def write() -> None:
        scope: dict[str, Any] = {
            "cls": cls, "Node": Node, "push_held": push_held, "collect_held": collect_held, "map_held": map_held,
            "__name__": cls.__module__,
        }  # fmt: skip
        exec(_source(cls, types), scope)
        cls._push_children = staticmethod(scope["_push_children"])
        cls._push_statements = staticmethod(scope["_push_statements"]) if "_push_statements" in scope else None
        cls._map_children, cls._map_statements = scope["_map_children"], scope["_map_statements"]

    def push_children(node: Any, stack: list[Any]) -> None:
        write()
        cls._push_children(node, stack)

    def push_statements(node: Any, stack: list[Any]) -> None:
        write()
        if cls._push_statements is not None:
            cls._push_statements(node, stack)

    def map_children(node: Any, visit: Visit, define: Visit) -> Any:
        write()
        return cls._map_children(node, visit, define)

    def map_statements(node: Any, visit: Visit) -> Any:
        write()
        return cls._map_statements(node, visit)

    cls.binds = any([role in BINDING for _, role in cls.walked])
    cls._push_children, cls._push_statements = staticmethod(push_children), staticmethod(push_statements)
    cls._map_children, cls._map_statements = map_children, map_statements


def _source(cls: Any, types: dict[str, str]) -> str:
    lines = ["def _push_children(node, stack):"]
    for name, _ in reversed(cls.walked):
        kind, optional = _kind(types[name])
        if optional or kind == "any":
            lines += [f"    value = node.{name}", "    if value is not None:"]
        held = {"node": f"stack.append(node.{name})", "tuple": f"stack += node.{name}[::-1]"}
        lines.append("    " * (1 + (optional or kind == "any")) + held.get(kind, "push_held(value, stack)"))
    ways = {name: "define" if role in BINDING else "visit" for name, role in cls.walked}
    holding_statements = {
        name: "visit" for name in ways if _kind(types[name])[0] == "any" or re.search(r"\b(Stmt|Block)\b", types[name])
    }
    lines += ["def _push_statements(node, stack):"] * bool(holding_statements)
    for name in holding_statements:
        how = {"node": f"stack.append(node.{name})", "tuple": f"stack += node.{name}"}
        lines.append(
            f"    if node.{name} is not None: " + how.get(_kind(types[name])[0], f"collect_held(node.{name}, stack)")
        )
    lines += _rebuilding(cls, "_map_children(node, visit, define)", ways, types)
    lines += _rebuilding(cls, "_map_statements(node, visit)", holding_statements, types)
    return "\n".join(lines)


def _rebuilding(cls: Any, head: str, ways: dict[str, str], types: dict[str, str]) -> list[str]:
    """A function that visits the fields of ``ways``."""
    lines = [f"def {head}:"]
    for name, way in ways.items():
        lines.append(f"    old_{name} = new_{name} = node.{name}")
        if _kind(types[name])[0] == "node":
            lines += [f"    if isinstance(old_{name}, Node):", f"        new_{name} = {way}(old_{name})"]
        else:
            lines += [f"    if old_{name} is not None:", f"        new_{name} = map_held(old_{name}, {way})"]
    same = " and ".join([f"new_{name} is old_{name}" for name in ways]) or "True"
    values = ", ".join([f"new_{name}" if name in ways else f"node.{name}" for name, _ in cls.plan])
    return [*lines, f"    return node if {same} else cls({values})"]


def _kind(annotation: str) -> tuple[str, bool]:
    """The kind of a field by what it holds, a "node", a "tuple" of them or "any" of these, and whether it may be None."""
    bare = re.sub(r"^(Def|Own|Derived)\[(.*)\]$", r"\2", annotation)
    plain, optional = bare.removesuffix(" | None"), bare.endswith(" | None")
    if re.fullmatch(r"tuple\[(?!Any)[A-Z]\w+, \.\.\.\]", plain):  # others hold numbers or strings
        return "tuple", optional
    return ("node" if re.fullmatch(r"[A-Z]\w+", plain) and plain != "Any" else "any"), optional
