"""``unity.tir``: the names with which programs handle tensor programs in Python, as TVM's ``tvm.tir`` has them.

``tir.Schedule(mod)``, ``tir.TensorIntrin.register(...)``, ``tir.Var("n", "int64")``. Programs themselves are written in script or
with tensor expressions; nothing is defined here but what wraps a constructor. Functions of scalars (``tir.Select``, ``tir.all``,
``tir.exp``, ...) take what stands in a te.compute, and IR expressions, and give the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..arith.index_map import IndexMap
from ..ffi.dtype import DataType
from ..ir import build, expr as _expr
from ..ir.buffer import Buffer, BufferRegion
from ..ir.build import ceildiv
from ..ir.expr import FloatImm, IntImm, StringImm
from ..ir.function import PrimFunc
from ..ir.scalar import BufferLoad, IterVar
from ..ir.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from ..ir.tensor_intrin import TensorIntrin
from ..ir.types import Expr, prim_type
from ..support.errors import ScheduleError
from . import schedule
from .schedule import Schedule, Trace


def Var(name: str, dtype: str | DataType = "int32") -> _expr.Var:
    """A scalar variable; integers are 32 bits wide unless ``dtype`` says otherwise, as in TVM."""
    return _expr.Var(name, prim_type(dtype))


def SizeVar(name: str, dtype: str | DataType = "int64") -> _expr.Var:
    """A variable that stands for a size."""
    return _expr.Var(name, prim_type(dtype))


def const(value: Any, dtype: str | DataType = "int32") -> Expr:
    """A literal."""
    return build.const(value, dtype)


def _scalar(function: Callable[..., te.Value]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        made = function(*args)
        return made if any([isinstance(a, te.value.Operand) for a in args]) else te.unwrap(made)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


Select, if_then_else = _scalar(te.select), _scalar(te.if_then_else)
div, floordiv, floormod, truncdiv, truncmod, indexdiv, indexmod = [
    _scalar(f) for f in (te.div, te.floordiv, te.floormod, te.truncdiv, te.truncmod, te.indexdiv, te.indexmod)
]
_FUNCTIONS = {
    "all": te.all, "any": te.any, "max": te.maximum, "min": te.minimum,
    **{name: found for name, found in vars(te.math).items() if name in te.__all__},
}  # fmt: skip
"""Functions of scalars whose names are Python's own, or many."""


def call_packed(name: str, *args: Any) -> Expr:
    """A call of a registered function from a tensor program, with buffers and scalars: the statement of a ``te.extern``."""
    given = [a.data if isinstance(a, Buffer) else te.to_scalar(a) for a in args]
    return build.intrinsic("call_packed", StringImm(name), *given, dtype="int32")


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise AttributeError(f"unity.tir has no {name!r}")
    return _scalar(_FUNCTIONS[name])


__all__ = [
    "Block",
    "BlockRealize",
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "BufferStore",
    "FloatImm",
    "For",
    "IndexMap",
    "IntImm",
    "IterVar",
    "PrimFunc",
    "Schedule",
    "ScheduleError",
    "Select",
    "SeqStmt",
    "SizeVar",
    "Stmt",
    "TensorIntrin",
    "Trace",
    "Var",
    "call_packed",
    "ceildiv",
    "const",
    "div",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "schedule",
    "truncdiv",
    "truncmod",
]  # fmt: skip
