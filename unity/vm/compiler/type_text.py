"""Expressions of sizes as formulas, and annotations as short text for messages and disassembly, without the script room."""

from __future__ import annotations

from collections.abc import Callable

from ...arith.formula import NoFormula, to_formula
from ...ffi.abi import Dim
from ...ir.expr import Var
from ...ir.relation import dims
from ...ir.types import Expr, FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from ...support.errors import VMError
from ..executable.bytecode import dim_text


def to_dim(expr: Expr, slot_of: Callable[[Var], int]) -> Dim:
    """The formula of an integer expression. Raises VMError E620 where there is none, and what ``slot_of`` raises."""
    try:
        return to_formula(expr, slot_of)
    except NoFormula as problem:
        span = getattr(problem.expr, "span", None) or getattr(expr, "span", None)
        raise VMError("E620", f"the shape expression {expr} cannot be computed by the VM", span) from None


def expr_text(expr: Expr) -> str:
    """An integer expression as text."""
    names: list[str] = []

    def number(var: Var) -> int:
        names.append(var.name)
        return len(names) - 1

    return dim_text(to_dim(expr, number), tuple(names))


def _shape_text(values: tuple[Expr, ...]) -> str:
    texts = [expr_text(v) for v in values]
    inside = ", ".join([t[1:-1] if t.startswith("(") else t for t in texts])
    return f"({inside},)" if len(values) == 1 else f"({inside})"


def type_text(ty: Type) -> str:
    """A type as script writes it, e.g. ``R.Tensor((n, 4), "float32")``."""
    if isinstance(ty, TensorType):
        shape = dims(ty)
        parts = [_shape_text(shape)] if shape is not None else []
        if ty.dtype is not None:
            parts.append(f'"{ty.dtype.name}"' if parts else f'dtype="{ty.dtype.name}"')
        if shape is None and ty.ndim >= 0:
            parts.append(f"ndim={ty.ndim}")
        return f"R.Tensor({', '.join(parts)})"
    if isinstance(ty, ShapeType):
        if ty.values is not None:
            return f"R.Shape([{', '.join([expr_text(v) for v in ty.values])}])"
        return f"R.Shape(ndim={ty.ndim})" if ty.ndim >= 0 else "R.Shape"
    if isinstance(ty, PrimType):
        return f'R.Prim("{ty.dtype.name}")'
    if isinstance(ty, TupleType):
        return f"R.Tuple({', '.join([type_text(f) for f in ty.fields])})"
    return "R.Callable" if isinstance(ty, FuncType) else "R.Object"
