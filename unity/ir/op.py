"""The operator table: one row per graph operator, filled by the op room, read by reader, printer, passes and docs."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..support.errors import InternalError
from .expr import Call
from .types import Type

REQUIRED: Any = object()
"""Default of a parameter that must be given."""


@dataclass(slots=True, frozen=True)
class Param:
    """One parameter of an operator.

    ``kind``: "expr" an expression (tensor, shape, scalar, tuple), stored in ``Call.args``; "exprs" any further positional
    expressions; "attr" a compile-time value, stored in ``Call.attrs``. Optional "expr" parameters left out are not stored
    when they are last; a default that is not None is put in by ``bind_arguments``.
    """

    name: str
    kind: str = "expr"
    default: Any = REQUIRED
    doc: str = ""


@dataclass(slots=True, eq=False)
class OpInfo:
    """A row. ``name`` is the script spelling (``R.nn.relu``).

    ``infer``: Call -> Type, raises TypeRuleError. ``pure``: bool or Call -> bool.
    ``lower``: Call -> tensor expression (see op room), or a sentence saying why there is none. ``grad`` likewise.
    ``ref``: the meaning in numpy, called as ``ref(*arrays, **attrs)``; or a sentence. ``doc``: the docstring.
    """

    name: str
    params: tuple[Param, ...]
    infer: Callable[[Call], Type]
    doc: str
    pure: bool | Callable[[Call], bool] = True
    lower: Callable[..., Any] | str = "runs as a VM instruction or builtin"
    grad: Callable[..., Any] | str = "not differentiable"
    ref: Callable[..., Any] | str = "defined by the interpreter"
    family: str = "core"
    variadic: bool = False
    """True when one tuple argument may also be given as separate positional arguments."""
    extra: dict[str, Any] = field(default_factory=dict)


OPS: dict[str, OpInfo] = {}


def register_op(info: OpInfo) -> OpInfo:
    """Add a row; a name may be registered once."""
    if info.name in OPS:
        raise InternalError("E901", f"operator {info.name} is registered twice")
    OPS[info.name] = info
    return info


def similar_ops(name: str, count: int = 3) -> list[str]:
    """Names of the table close to a misspelled one."""
    return difflib.get_close_matches(name, OPS, n=count, cutoff=0.6)


def is_pure_op(call: Call) -> bool:
    """Purity of a call to an Op by its row; an unknown operator counts as impure."""
    info = OPS.get(getattr(call.op, "name", ""))
    if info is None:
        return False
    return info.pure if isinstance(info.pure, bool) else info.pure(call)


def shares_memory(call: Call) -> bool:
    """Is the result of an operator the memory of its first argument (a view, or the argument itself)."""
    info = OPS.get(getattr(call.op, "name", ""))
    return info is not None and bool(info.extra.get("aliases") or info.extra.get("view"))
