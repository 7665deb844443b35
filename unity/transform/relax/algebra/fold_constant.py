"""Operators on constants are computed at compile time through their numpy meaning.

Only operators with a lowering are folded (the others ask about run time), only where all operands are constants,
and only results up to ``max_bytes`` or the size of the operands: a module must not grow by megabytes because of a
broadcast. An operator that creates a tensor (`R.zeros`, `R.arange`) stays, but what is computed from a small one is folded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ffi.discard import is_discarded
from ....ir.expr import Call, Constant, FloatImm, IntImm, Op, ShapeExpr, Tuple, Var
from ....ir.function import Function
from ....ir.op import OPS
from ....ir.types import Expr, TensorType, TupleType, Type
from ....op.common.type_rules import python_value
from ...infra.constant_lifetime import drop_use, take_ownership
from ...infra.constant_provenance import peeked, recipe, tracked
from ...infra.passes import function_pass
from ..analysis.mutable_vars import changed_vars
from ..rewriting.graph_rewriter import GraphRewriter

VIEW_BYTES = 1 << 16
"""Results of this size that are views of their operand stay views (`compact_constants` ends that)."""

CREATED_BYTES = 1 << 16
"""Tensors an operator creates count as constants up to this size."""


def _operand(value: Expr, known: dict[Var, Expr]) -> Any:
    """The tensors of a constant operand, or its number; None if it is not a constant or was discarded."""
    if isinstance(value, Var):
        value = known.get(value, value)
    if type(value) is Constant:
        return None if is_discarded(value.data) else value.data
    if type(value) is Tuple:
        fields = [_operand(f, known) for f in value.fields]
        return None if any([f is None for f in fields]) else tuple(fields)
    if isinstance(value, (IntImm, FloatImm)):
        return value.value
    if type(value) is ShapeExpr and all([type(v) is IntImm for v in value.values]):
        return python_value(value)
    return None


def _is_symbolic(value: Any) -> bool:
    """True if an attribute has an expression known only at run time."""
    if isinstance(value, (tuple, list)):
        return any([_is_symbolic(v) for v in value])
    return isinstance(value, Expr)


def _size(value: Any) -> int:
    if isinstance(value, tuple):
        return sum([_size(v) for v in value])
    return int(getattr(value, "nbytes", 0))


def _bytes(ty: Type) -> int:
    """Bytes of a tensor of this type, 0 where its size is not known."""
    shape = python_value(ty.shape) if isinstance(ty, TensorType) and ty.shape is not None else None
    if not isinstance(shape, tuple) or _is_symbolic(shape):
        return 0
    assert isinstance(ty, TensorType)
    return 0 if ty.dtype is None else math.prod(shape) * ((ty.dtype.bits + 7) // 8)


@recipe("fold")
def _field(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], path: tuple[int, ...]) -> np.ndarray:
    """A field of an operator's result."""
    ref = OPS[name].ref
    assert callable(ref)
    made = ref(*operands, **attrs)
    for index in path:
        made = made[index]
    return _array(made)


def _array(value: Any) -> np.ndarray:
    """A computed value as an array in row-major order; a larger view may stay as it is."""
    array = np.asarray(value)
    return array if array.base is not None and array.nbytes >= VIEW_BYTES else np.asarray(array, order="C")


def _constant(value: Any, ty: Type, origin: tuple[Any, ...], path: tuple[int, ...] = ()) -> Expr | None:
    """Constant of a computed value where it has the promised type; ``origin`` says how to compute it again."""
    if isinstance(ty, TupleType) and isinstance(value, tuple) and len(value) == len(ty.fields):
        fields = [_constant(v, t, origin, (*path, k)) for k, (v, t) in enumerate(zip(value, ty.fields))]
        return None if any([f is None for f in fields]) else Tuple(tuple([f for f in fields if f is not None]))
    if not isinstance(ty, TensorType) or ty.dtype is None:
        return None
    array = _array(value)
    shape = python_value(ty.shape) if ty.shape is not None else None
    if array.dtype != ty.dtype.numpy or shape != array.shape:
        return None
    data = tracked(array, "fold", *origin, path)
    take_ownership(data)
    return Constant(data, ty)


@function_pass()
def fold_constant(fn: Function, *, max_bytes: int = 1 << 20) -> Function:
    """Evaluate operators on constants whose results have up to ``max_bytes`` bytes.

    Requires a lowering and a numpy meaning of the operator.
    ``max_bytes``: results above this size are folded only when not larger than their operands.
    """
    known: dict[Var, Expr] = {}
    written = changed_vars(fn)

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if rewriter.var in written:  # memory of its own, which a later call writes into
            return value
        if isinstance(value, (Constant, Tuple)):
            known[rewriter.var] = value
        if type(value) is not Call or type(value.op) is not Op:
            return value
        info = OPS.get(value.op.name)
        if info is None or info.pure is not True or not callable(info.ref) or not callable(info.lower):
            return value
        operands = [_operand(a, known) for a in value.args]
        if not operands or any([o is None for o in operands]):
            return value
        attrs = {k: python_value(v) for k, v in value.attrs.items()}
        if any([_is_symbolic(v) for v in attrs.values()]):
            return value
        arrays = peeked(tuple(operands))
        creates = not _size(arrays)
        if creates and not 0 < _bytes(value.ty) <= CREATED_BYTES:
            return value
        made = info.ref(*arrays, **attrs)
        if _size(made) > max(max_bytes, _size(arrays)):
            return value
        found = _constant(made, value.ty, (info.name, tuple(operands), attrs))
        if found is None:
            return value
        known[rewriter.var] = found
        if creates:
            return value
        for read in value.args:
            if type(read) is Constant:
                drop_use(read.data)
        return found

    return GraphRewriter(rule).function(fn)
