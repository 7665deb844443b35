"""Products of 8-bit integers: data quantised with ranges that calibration found, weights per column, sums in int32.

Rewrite: ``y = R.matmul(x, w)`` with constant ``w`` -> ``q = round(x / sx) + zx`` (uint8), and one tensor program that sums
``q * wq`` (int8) in int32 and gives ``(sum - zx * colsum(wq)) * sx * sw``. The contraction rule finds ``vpdpbusd`` for it where the
processor has it. First ``observed(mod)`` is run on calibration inputs: ``main`` with the least and the largest element of the data
of each product as further results; then ``quantize_products(mod, ranges)``. Products in branches and in other functions stay in
float32.

Source of the scheme: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
CVPR 2018 (data affine, weights symmetric and per column).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.tensor import Tensor
from ...ir.build import const
from ...ir.builder import make_call
from ...ir.expr import Binding, BindingBlock, Call, GlobalVar, SeqExpr, ShapeExpr, Tuple, Var, VarBinding, op
from ...ir.function import Function, seq_body
from ...ir.module import IRModule
from ...ir.names import NameSupply
from ...ir.node import replace
from ...ir.relation import dims, tensor_type
from ...ir.types import Expr, TupleType
from ...ir.walk import used_vars
from ...op.table import constant
from ...support.errors import PassError
from ...te.sharing import KernelTable
from .quantize_weights import Product, constants_of, product_of, rounded
from .rewriting import GraphRewriter
from .sharing import Visibility
from .to_non_dataflow import to_non_dataflow

MAX_ROWS = 1 << 16
"""Rows of weights whose sums are sure to fit int32."""
MAIN = "main"


def _sites(mod: IRModule) -> list[tuple[Var, Product]]:
    """The products of ``main`` that can be quantised, in order: those bound outside branches."""
    known = constants_of(mod)
    fn = mod.functions.get(MAIN)
    if type(fn) is not Function:
        return []
    bindings = [b for block in seq_body(fn).blocks for b in block.bindings if isinstance(b, VarBinding)]
    found = [(b.var, product_of(b.value, known)) for b in bindings]
    return [(var, product) for var, product in found if product is not None and product.weights.shape[0] <= MAX_ROWS]


def observed(mod: IRModule) -> IRModule:
    """``main`` that returns (what it returned, (least, largest element of the data of the first product, of the second, ...))."""
    mod = to_non_dataflow(mod)
    data = {var: product.data for var, product in _sites(mod)}
    fn = mod.functions[MAIN]
    assert type(fn) is Function
    names, seen = NameSupply([v.name for v in used_vars(fn)]), []
    body = seq_body(fn)
    blocks: list[BindingBlock] = []
    for block in body.blocks:
        bindings: list[Binding] = []
        for binding in block.bindings:
            bindings.append(binding)
            if binding.var in data:
                for name in ("R.min", "R.max"):
                    value = make_call(op(name), [data[binding.var]])
                    seen.append(Var(names.fresh("seen"), value.ty))
                    bindings.append(VarBinding(seen[-1], value))
        blocks.append(BindingBlock(tuple(bindings)))
    result = Tuple((body.body, Tuple(tuple(seen))))
    ty = TupleType((fn.ret_ty, TupleType(tuple([v.ty for v in seen]))))
    return mod.with_functions({MAIN: replace(fn, body=SeqExpr(tuple(blocks), result), ret_ty=ty)})


def ranges_of(results: Sequence[Any]) -> list[tuple[float, float]]:
    """Ranges of the products from what the observed ``main`` returned for each calibration input. Raises PassError E987."""
    if not results:
        raise PassError("E987", "there are no calibration inputs", help="calibration=[(x1,), (x2,), ...]")
    seen = np.array([[float(v.numpy()) for v in stats] for _, stats in results]).reshape(len(results), -1, 2)
    low, high = seen[:, :, 0].min(axis=0), seen[:, :, 1].max(axis=0)
    if not np.isfinite(seen).all():
        raise PassError("E987", "the data of a product is empty, infinite or NaN on a calibration input")
    return [(min(float(a), 0.0), max(float(b), 0.0)) for a, b in zip(low, high)]


def _quantiser(product: Product, scale: float, zero: int, kernels: KernelTable) -> tuple[GlobalVar, list[Any]]:
    extents = dims(product.data.ty)
    assert extents is not None
    x = te.placeholder(extents, "float32", "x")
    inverse, low, high = [te.const(v, "float32") for v in (1.0 / scale, 0.0, 255.0)]

    def body(*i: te.Value) -> te.Value:
        value = te.nearbyint(x[i] * inverse) + te.const(float(zero), "float32")
        return te.maximum(te.minimum(value, high), low).astype("int32").astype("uint8")

    func, symbols = te.create_prim_func_with_symbols(
        [x, te.compute(extents, body, "quantized")], attrs={"tir.noalias": True}
    )
    return kernels.add(func, "quantize_data"), symbols


def _multiplier(product: Product, kernels: KernelTable) -> tuple[GlobalVar, list[Any]]:
    rows, columns = product.weights.shape
    x = te.placeholder((*product.lead, rows), "uint8", "x")
    w = te.placeholder((rows, columns), "int8", "w")
    shift, scale = te.placeholder((columns,), "int32", "shift"), te.placeholder((columns,), "float32", "scale")
    k = te.reduce_axis((0, rows), "k")
    shape = (*product.lead, columns)
    total = te.compute(
        shape, lambda *i: te.sum(x[(*i[:-1], k)].astype("int32") * w[k, i[-1]].astype("int32"), axis=[k]), "total"
    )
    result = te.compute(shape, lambda *i: (total[i] - shift[i[-1]]).astype("float32") * scale[i[-1]], "scaled")
    func, symbols = te.create_prim_func_with_symbols([x, w, shift, scale, result], attrs={"tir.noalias": True})
    return kernels.add(func, "matmul_u8s8"), symbols


def quantize_products(mod: IRModule, ranges: Sequence[tuple[float, float]]) -> IRModule:
    """The module with the products of ``main`` in 8 bits; ``ranges`` of their data in order, as ``ranges_of`` gives them."""
    sites, kernels = _sites(mod), KernelTable(mod)
    if len(sites) != len(ranges):
        raise PassError("E987", f"{len(ranges)} ranges for {len(sites)} products")
    wanted = {var: (product, span) for (var, product), span in zip(sites, ranges)}
    quantised: dict[tuple[Any, ...], Expr] = {}

    def call(target: GlobalVar, symbols: list[Any], args: tuple[Expr, ...], ty: Any) -> Call:
        given: tuple[Expr, ...] = (target, Tuple(args))
        return Call(op("R.call_dps"), (*given, ShapeExpr(tuple(symbols))) if symbols else given, {}, (ty,), ty)

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if rewriter.var not in wanted:
            return value
        product, (low, high) = wanted[rewriter.var]
        scale = max((high - low) / 255.0, float(np.finfo("float32").tiny))
        zero = int(np.clip(np.rint(-low / scale), 0, 255))
        data = value.args[0]  # type: ignore[attr-defined]
        key = (data, scale, zero, home.get(rewriter.var))
        if key not in quantised:
            target, symbols = _quantiser(product, scale, zero, kernels)
            quantised[key] = rewriter.emit(call(target, symbols, (data,), tensor_type(dims(data.ty), "uint8")))
        whole, steps = rounded(product.weights, 127)
        shift = (zero * whole.astype("int64").sum(axis=0)).astype("int32")
        target, symbols = _multiplier(product, kernels)
        constants = [constant(Tensor(a)) for a in (whole, shift, (steps * np.float32(scale)).astype("float32"))]
        ty = tensor_type((*product.lead, const(whole.shape[1], "int64")), "float32")
        return call(target, symbols, (quantised[key], *constants), ty)

    fn = mod.functions.get(MAIN)
    if type(fn) is not Function or not sites:
        return mod
    home = Visibility(fn).home
    made = GraphRewriter(rule).function(fn)
    return mod.with_functions({MAIN: made, **kernels.added})


__all__ = ["observed", "quantize_products", "ranges_of"]
