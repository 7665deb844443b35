"""``unity.tir``: the names with which programs handle tensor programs in Python, as TVM's ``tvm.tir`` has them.

``tir.Schedule(mod)``, ``tir.TensorIntrin.register(...)``, ``tir.Var("n", "int64")``. Programs themselves are written in script or
with tensor expressions; nothing is defined here but what wraps a constructor.
"""

from __future__ import annotations

from typing import Any

from ..arith.index_map import IndexMap
from ..ffi.dtype import DataType
from ..ir import build, expr as _expr
from ..ir.buffer import Buffer, BufferRegion
from ..ir.build import ceildiv, div, floordiv, floormod, if_then_else, truncdiv, truncmod
from ..ir.expr import FloatImm, IntImm
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


__all__ = [
    "Block", "BlockRealize", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "FloatImm", "For", "IndexMap", "IntImm",
    "IterVar", "PrimFunc", "Schedule", "ScheduleError", "SeqStmt", "SizeVar", "Stmt", "TensorIntrin", "Trace", "Var", "ceildiv",
    "const", "div", "floordiv", "floormod", "if_then_else", "schedule", "truncdiv", "truncmod",
]  # fmt: skip
