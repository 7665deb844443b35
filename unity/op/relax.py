"""``unity.relax``: the names with which programs build graph functions in Python, as TVM's ``tvm.relax`` has them.

``relax.Var("x", relax.TensorType((n, 4), "float32"))``, ``relax.op.add(x, y)``, ``relax.const(1.0)``, ``relax.BlockBuilder()``.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..ffi.dtype import DataType
from ..ir import expr as _expr, relation as _relation
from ..ir.expr import (
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
)  # fmt: skip
from ..ir.function import Function
from ..ir.module import IRModule
from ..ir.types import Expr, ObjectType, PrimType, ShapeType, TupleType, Type, prim_type
from ..support.errors import TypeRuleError
from ..te.tensor import shape_of
from . import OPERATORS
from .block_builder import BlockBuilder
from .composite import COMPOSITES
from .table import constant as const
from .te_gradients import register_te_gradient


def TensorType(shape: Any = None, dtype: str | DataType | None = "float32", ndim: int = -1) -> Type:
    """Type of a tensor: numbers, te.Values and scalar variables as dimensions; None where the shape is not known."""
    return _relation.tensor_type(None if shape is None else shape_of(shape), dtype, ndim)


tensor_type = TensorStructInfo = TensorType


def ShapeStructInfo(values: Any = None, ndim: int = -1) -> Type:
    """Type of a shape value."""
    return ShapeType(None, ndim) if values is None else _relation.shape_type(shape_of(values))


shape_type = ShapeStructInfo


def Var(name: str, annotation: Any = None, dtype: str | DataType | None = None) -> _expr.Var:
    """A variable of the graph level: ``Var("x", type)``, or ``Var("x", (n, 4), "float32")`` for a tensor.

    Raises TypeRuleError E210 without a type.
    """
    if isinstance(annotation, Type):
        return _expr.Var(name, annotation)
    if annotation is None:
        raise TypeRuleError("E210", f"variable {name} needs a type", help='relax.Var("x", (4, 4), "float32")')
    return _expr.Var(name, TensorType(annotation, dtype or "float32"))


def PrimValue(value: Any) -> Expr:
    """A scalar as a value of the graph."""
    return te.value.to_scalar(value, "int64" if isinstance(value, int) and not isinstance(value, bool) else None)


class _Operators:
    """Operators whose names begin with a prefix: ``relax.op.nn.relu``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = f"{self._prefix}.{name}"
        if full in OPERATORS or full in COMPOSITES:
            return OPERATORS.get(full) or COMPOSITES[full]
        if any([n.startswith(f"{full}.") for n in OPERATORS]):
            return _Operators(full)
        raise AttributeError(f"there is no operator {full}")

    def __dir__(self) -> list[str]:
        return sorted({n[len(self._prefix) + 1 :].partition(".")[0] for n in OPERATORS if n.startswith(self._prefix)})


op = _Operators("R")

__all__ = [
    "BlockBuilder", "Call", "Constant", "DataflowBlock", "DataflowVar", "ExternFunc", "Function", "GlobalVar", "IRModule", "If",
    "ObjectType", "PrimType", "PrimValue", "SeqExpr", "ShapeExpr", "ShapeStructInfo", "TensorStructInfo", "TensorType", "Tuple",
    "TupleGetItem", "TupleType", "Var", "const", "op", "prim_type", "register_te_gradient", "shape_type",
    "tensor_type",
]  # fmt: skip
