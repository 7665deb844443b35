"""``@node``: slotted dataclasses with identity equality, and the field markers that say what a field means.

From the markers the generic walks (`field_walks.py`, `walk.py`) and comparisons (`structural.py`) are derived once. Invariant:
children are nodes, tuples of nodes, or dicts whose values may be nodes; never lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform, overload

from ..support.arguments import guarded
from ..support.errors import UnityError
from ..support.lazy import load
from ..support.options import bool_option
from .field_walks import BINDING, DEF, OWN, Walked, derive_walks

_T = TypeVar("_T")
_N = TypeVar("_N", bound="Node")
_C = TypeVar("_C", bound=type)

Def = Annotated[_T, "def"]
"""The field binds the variables or buffers it holds (and the symbols its types show first)."""
Own = Annotated[_T, "own"]
"""The field binds the variables or buffers it holds alone: the symbols of their types and shapes come from outside."""
Aside = Annotated[_T, "aside"]
"""The field is no part of the meaning: spans, hints. Neither walked nor compared."""
Derived = Annotated[_T, "derived"]
"""The field follows from the others: rewritten with them, not compared."""

PLAIN, DERIVED, LEAF, ASIDE = "plain", "derived", "leaf", "aside"
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


class Node(Walked):
    """Base of every IR node. Equality and hash are identity; use ``structural_equal`` for meaning."""

    __slots__ = ()
    plan: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(field name, role) in printing order."""
    walked: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The part of the plan that may hold nodes."""
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
    if annotation.startswith("Def["):
        return DEF
    if annotation.startswith("Own["):
        return OWN
    if annotation.startswith("Aside["):
        return ASIDE
    if annotation.startswith("Derived["):
        return DERIVED
    return LEAF if annotation in _LEAF_TYPES else PLAIN


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from a node to the values of its fields: in C where there are several."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda target: tuple([getattr(target, name) for name in names])


@dataclass_transform(eq_default=False, field_specifiers=())
def node(cls: _C) -> _C:
    """Make a node class: a slotted dataclass with identity equality, frozen when ``UNITY_CHECKED=1``."""
    made: Any = dataclass(slots=True, eq=False, repr=False, frozen=CHECKED)(cls)
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


def same_items(old: object, new: object) -> bool:
    """True for one object, and for tuples of the same objects."""
    if old is new:
        return True
    return (
        type(old) is tuple and type(new) is tuple and len(old) == len(new) and all([a is b for a, b in zip(old, new)])
    )
