"""Constant right operands of products stored in 8 or 4 bits, widened in registers: ``quantize_weights.with_options(bits=4)``.

Rewrite: ``y = R.matmul(x, w)`` with a float32 constant ``w`` of shape (k, n) -> a tensor program that reads ``w`` as integers in
panels ``[n / 64, k, 64]`` (the last filled with zeros) and multiplies by scales: one for each column with 8 bits, one for each
column of a group of rows with 4 (two rows in one byte). An integer is ``round(w / scale)``. Products of few rows are bound by
reading the weights, and that is a quarter or an eighth now. Results change by rounding: it is the user's choice, never a default.

Left in float32: fewer than 16 columns, weights that are not finite, with 4 bits an odd number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .... import te
from ....ffi.tensor import Tensor
from ....ir.build import const, int_values
from ....ir.expr import Call, Constant, Op, ShapeExpr, Var, VarBinding
from ....ir.function import SCHEDULED
from ....ir.module import IRModule
from ....ir.relation import dims, tensor_dtype, tensor_type
from ....ir.types import Expr
from ....op.building.call_inputs import kernel_call
from ....op.common.table import R, constant
from ....op.manipulate.manipulate import reshape
from ....op.manipulate.slicing import strided_slice
from ....support.errors import PassError
from ....te.kernel_table import KernelTable
from ...infra.passes import module_pass
from ..rewriting.graph_rewriter import GraphRewriter, each_binding, rewrite_calls
from .few_bits import MOST_ROWS, few_bit_product

PANELS = (64, 48, 32, 16)
"""Columns of a panel."""


@dataclass(slots=True, frozen=True)
class Product:
    """A product with constant weights: the data, its dimensions, and the weights as they are (k, n)."""

    data: Expr
    lead: tuple[Expr, ...]
    weights: np.ndarray


def constants_of(mod: IRModule) -> dict[Var, Constant]:
    """Variables that are bound to constants."""
    return {
        b.var: b.value for fn in mod.graph_functions().values() for _, b in each_binding(fn)
        if isinstance(b, VarBinding) and type(b.value) is Constant
    }  # fmt: skip


def finite_weights(value: Call, known: dict[Var, Constant]) -> np.ndarray | None:
    """The second operand of a float32 call of two float32 operands, where it is constant, finite and not empty."""
    data, right = value.args
    weights = known.get(right, right) if isinstance(right, Var) else right
    if type(weights) is not Constant or not dims(data.ty) or value.attrs.get("out_dtype") not in (None, "float32"):
        return None
    array = weights.data.numpy()
    if array.dtype != np.float32 or 0 in array.shape or not np.isfinite(array).all():
        return None
    return array if tensor_dtype(data.ty) == "float32" and tensor_dtype(value.ty) == "float32" else None


def product_of(value: Expr, known: dict[Var, Constant]) -> Product | None:
    """A float32 product with a constant finite matrix on its right; None for anything else."""
    if type(value) is not Call or type(value.op) is not Op or value.op.name != R.matmul.name:
        return None
    weights, extents = finite_weights(value, known), dims(value.args[0].ty)
    if weights is None or weights.ndim != 2 or not extents:
        return None
    return Product(value.args[0], tuple(extents[:-1]), weights)


def rounded(weights: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers in [-limit, limit] along the second last axis, and the scale of each column."""
    scale = np.abs(weights).max(axis=-2) / np.float32(limit)
    scale = np.where(scale > 0, scale, np.float32(1)).astype("float32")
    whole = np.rint(weights / scale[..., None, :])
    return np.clip(whole, -limit, limit).astype("int8"), scale


def rounded_to_nibbles(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers in [-8, 7] along the second last axis, and the scale of each column: the weight furthest from zero stands at -8,
    whatever its sign, so that all sixteen numbers serve (as in llama.cpp's Q4_0)."""
    far = np.take_along_axis(weights, np.abs(weights).argmax(axis=-2, keepdims=True), axis=-2).squeeze(-2)
    scale = np.where(far != 0, far / np.float32(-8), np.float32(1)).astype("float32")
    whole = np.rint(weights / scale[..., None, :])
    return np.clip(whole, -8, 7).astype("int8"), scale


def panel_width(columns: int) -> int:
    """Columns of a panel: the wider the better, where little of the last one is filled up; 0 where they fill no vector."""
    if columns < PANELS[-1]:
        return 0
    return min(PANELS, key=lambda width: (columns + -columns % width) * (1 + 4 / width))


def in_panels(array: np.ndarray, width: int) -> np.ndarray:
    """(rows, columns) -> (panels, rows, width), compact, the last panel filled with zeros."""
    array = np.pad(array, ((0, 0), (0, -array.shape[1] % width)))
    rows, columns = array.shape
    return np.ascontiguousarray(array.reshape(rows, columns // width, width).transpose(1, 0, 2))


def _eight(weights: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    whole, scale = rounded(weights, 127)
    return in_panels(whole, width), in_panels(scale[None], width)


def _four(weights: np.ndarray, width: int, group: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = weights.shape
    whole, scale = rounded_to_nibbles(weights.reshape(rows // group, group, columns))
    codes = whole.reshape(rows, columns).view("uint8") & 15
    return in_panels((codes[0::2] | (codes[1::2] << 4)).view("int8"), width), in_panels(scale, width)


def _few(lead: tuple[Expr, ...]) -> bool:
    """True if there are, or may be, so few rows of data that widening weights for each tile of them costs nothing."""
    known = int_values(lead)
    return len(known) < len(lead) or math.prod(known) <= MOST_ROWS


def _program(lead: tuple[Expr, ...], stored: np.ndarray, scales: np.ndarray, rows: int, bits: int) -> Any:
    """The tensor program and its symbols: data, stored weights, scales -> (.., panels, width)."""
    panels, _, width = stored.shape
    x = te.placeholder((*lead, rows), "float32", "x")
    w = te.placeholder(stored.shape, str(stored.dtype), "w")
    s = te.placeholder(scales.shape, "float32", "scale")
    shape = (*lead, panels, width)

    def eight(*i: te.Value) -> te.Value:
        return te.sum(x[(*i[:-2], k)] * w[i[-2], k, i[-1]].astype("float32"), axis=[k])

    if bits == 4 or (rows % 2 == 0 and _few(lead)):
        result = few_bit_product(x, w, s, bits)
        return te.create_prim_func_with_symbols([x, w, s, result], attrs={"tir.noalias": True, SCHEDULED: True})
    k = te.reduce_axis((0, rows), "k")
    total = te.compute(shape, eight, "product")
    result = te.compute(shape, lambda *i: total[i] * s[i[-2], 0, i[-1]], "scaled")
    return te.create_prim_func_with_symbols([x, w, s, result], attrs={"tir.noalias": True})


@module_pass()
def quantize_weights(mod: IRModule, *, bits: int = 8, group: int = 32) -> IRModule:
    """Store constant weights of products in 8 or 4 bits. Changes rounding.

    Requires float32 constants (k, n) as right operands.
    """
    if bits not in (8, 4) or group < 2 or group % 2:
        raise PassError("E986", f"bits must be 8 or 4 and group even, got bits={bits}, group={group}")
    known, kernels = constants_of(mod), KernelTable(mod)
    made: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        found = product_of(value, known)
        if found is None:
            return None
        rows, columns = found.weights.shape
        width = panel_width(columns)
        if not width or (bits == 4 and rows % 2):
            return None
        together = group if rows % group == 0 else rows
        key = (found.weights.__array_interface__["data"][0], *found.weights.shape, *found.weights.strides)
        if key not in made:
            made[key] = _eight(found.weights, width) if bits == 8 else _four(found.weights, width, together)
        stored, scales = made[key]
        func, symbols = _program(found.lead, stored, scales, rows, bits)
        values = (found.data, constant(Tensor(stored)), constant(Tensor(scales)))
        ty = tensor_type((*found.lead, const(len(stored), "int64"), const(width, "int64")), "float32")
        call = kernel_call(kernels.add(func, f"matmul_int{bits}"), values, symbols, ty)
        whole = reshape(call, ShapeExpr((*found.lead, const(len(stored) * width, "int64"))))
        if columns % width == 0:
            return whole
        return strided_slice(whole, axes=[len(found.lead)], begin=[0], end=[columns])

    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, R.matmul.name), kernels.added)
