"""Products and convolutions of 8-bit integers: data quantised with ranges that calibration found, weights per column, int32 sums.

Rewrite: ``y = R.matmul(x, w)`` with constant ``w`` -> ``q = round(x / sx) + zx`` (uint8), then with int8 weights
``s = R.matmul(q, wq, out_dtype="int32")``, ``y = (s - zx * colsum(wq)) * (sx * sw)``; a convolution the same with a scale for each
output channel, its border filled with ``zx``. Written in operators, so that layouts and fusion see them; the contraction rule finds
``vpdpbusd`` for the sums where the processor has it, for which channels are filled up to groups of four. First ``observed(mod)`` is
run on calibration inputs: ``main`` with the least and the largest element of the data of each site as further results; then
``quantize_products(mod, ranges)`` (``quantization_ranges.py`` chooses them).

Left in float32: products in branches and other functions, convolutions in groups (they sum over few channels), those of fewer
output channels than a vector holds.

Source of the scheme: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
CVPR 2018 (data affine, weights symmetric and per column).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ffi.tensor import Tensor
from ....ir.builder import make_call
from ....ir.expr import Binding, BindingBlock, Call, Constant, SeqExpr, Tuple, Var, VarBinding, op
from ....ir.function import Function, seq_body
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.types import Expr, TupleType
from ....ir.walk import used_vars
from ....op.common.table import R, constant
from ....op.elementwise.binary import add, multiply
from ....op.elementwise.unary import clip, round_
from ....op.manipulate.create import astype
from ....support.errors import PassError
from ..analysis.use_def import Definitions
from ..normalize.convert_to_dataflow import to_non_dataflow
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls
from .integer_sums import Site, along_columns, number, site_of, summed
from .quantization_ranges import STEPS, Grid, Seen
from .quantize_weights import constants_of, finite_weights, rounded

MAX_DEPTH = 1 << 16
"""Terms of a sum that are sure to fit int32."""
MAIN = "main"


def _site(value: Expr, known: dict[Var, Constant]) -> tuple[Site, np.ndarray] | None:
    """The product or convolution that a variable is bound to and its weights, where it can be quantised."""
    site = site_of(value)
    weights = finite_weights(site.call, known) if site is not None else None
    return (site, weights) if site is not None and weights is not None and site.depth <= MAX_DEPTH else None


def sites(mod: IRModule) -> list[tuple[Var, Site, np.ndarray]]:
    """The sites in ``main`` that can be quantised, in order: calls bound outside branches."""
    known = constants_of(mod)
    fn = mod.functions.get(MAIN)
    if type(fn) is not Function:
        return []
    bindings = [b for b in seq_body(fn).bindings if isinstance(b, VarBinding)]
    found = [(b.var, _site(b.value, known)) for b in bindings]
    return [(var, *made) for var, made in found if made is not None]


def observed(mod: IRModule, whole: bool = False) -> IRModule:
    """``main`` that returns (what it returned, (least, largest element of the data of the first site, of the second, ...)); with
    ``whole`` the data itself follows the two."""
    mod = to_non_dataflow(mod)
    data = {var: site.call.args[0] for var, site, _ in sites(mod)}
    fn = mod.functions[MAIN]
    assert type(fn) is Function
    names, seen = NameSupply([v.name for v in used_vars(fn)]), list[Expr]()
    body = seq_body(fn)
    blocks: list[BindingBlock] = []
    for block in body.blocks:
        bindings: list[Binding] = []
        for binding in block.bindings:
            bindings.append(binding)
            if binding.var in data:
                for name in (R.min.name, R.max.name):
                    value = make_call(op(name), [data[binding.var]])
                    var = Var(names.fresh("seen"), value.ty)
                    bindings.append(VarBinding(var, value))
                    seen.append(var)
                seen += [data[binding.var]] if whole else []
        blocks.append(BindingBlock(tuple(bindings)))
    result = Tuple((body.body, Tuple(tuple(seen))))
    ty = TupleType((fn.ret_ty, TupleType(tuple([v.ty for v in seen]))))
    return mod.with_functions({MAIN: replace(fn, body=SeqExpr(tuple(blocks), result), ret_ty=ty)})


def seen_on(results: Sequence[Any], seen: Sequence[Seen]) -> None:
    """Add what the observed ``main`` returned after its own result for one calibration input. Raises PassError E987."""
    each = len(results) // max(1, len(seen))
    for n, site in enumerate(seen):
        low, high, *data = [value.numpy() for value in results[n * each : (n + 1) * each]]
        site.add(float(low), float(high), *data)


def quantized(data: Expr, grid: Grid) -> Expr:
    """Data on the steps of a grid, as float32 from 0 to 255."""
    steps = round_(multiply(data, number(1.0 / grid.scale)))
    return clip(add(steps, number(grid.zero)) if grid.zero else steps, min=0.0, max=float(STEPS))


def stored_weights(site: Site, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights in 8 bits, and their scales in a shape that broadcasts to the result."""
    last = np.moveaxis(weights, site.columns, -1)
    whole, steps = rounded(last.reshape(-1, last.shape[-1]), 127)
    stored = np.ascontiguousarray(np.moveaxis(whole.reshape(last.shape), -1, site.columns))
    return stored, steps.reshape(along_columns(site))


def _reduced(site: Site, weights: np.ndarray, grid: Grid, data: Expr) -> Expr:
    """The call on integers, and its sums as float32."""
    stored, steps = stored_weights(site, weights)
    total = summed(site, data, constant(Tensor(stored)), grid.zero)
    scale = (steps * np.float32(grid.scale)).astype("float32")
    return multiply(astype(total, dtype="float32"), constant(Tensor(scale)))


def quantize_products(mod: IRModule, ranges: Sequence[tuple[float, float] | None]) -> IRModule:
    """The module with the sites of ``main`` in 8 bits; ``ranges`` of their data in order, as ``ranges_of`` gives them; None: the
    site stays as it is."""
    found = sites(mod)
    if len(found) != len(ranges):
        raise PassError("E987", f"{len(ranges)} ranges for {len(found)} products")
    wanted = {
        var: (site, weights, Grid.of(*span)) for (var, site, weights), span in zip(found, ranges) if span is not None
    }
    made: dict[tuple[Any, ...], Expr] = {}

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        if rewriter.var not in wanted:
            return None
        site, weights, grid = wanted[rewriter.var]
        data = call.args[0]
        key = (data, grid, home.get(rewriter.var))
        if key not in made:
            made[key] = rewriter.emit(astype(astype(quantized(data, grid), dtype="int32"), dtype="uint8"))
        return _reduced(site, weights, grid, made[key])

    fn = mod.functions.get(MAIN)
    if type(fn) is not Function or not wanted:
        return mod
    home = Definitions(fn).home
    return mod.with_functions({MAIN: rewrite_calls(fn, change)})
