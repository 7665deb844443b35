"""``main`` with each product as if quantised, or not, by a switch: what each costs in accuracy, found by running one build.

Rewrite: ``y = R.matmul(x, w)`` -> ``y = R.matmul(x + s[i] * (r(x) - x), w + s[i] * (r(w) - w))``, where ``r`` rounds to what 8 bits
stand for and ``s`` is a further parameter of ``main``, a float32 vector of ones and zeros, one for each site. Everything is
computed in float32. Not here: which sites are then quantised (``frontend/precision/calibration.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ffi.tensor import Tensor
from ....ir.build import const
from ....ir.builder import make_call
from ....ir.expr import Call, Var
from ....ir.function import Function
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.relation import tensor_type
from ....ir.types import Expr
from ....ir.walk import used_vars
from ....op.common.table import constant
from ....op.elementwise.binary import add, multiply, subtract
from ....op.manipulate.create import astype
from ....op.manipulate.manipulate import reshape
from ....op.manipulate.slicing import strided_slice
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls
from .integer_sums import Site, number
from .quantization_ranges import Grid
from .quantize_products import MAIN, quantized, sites, stored_weights


def _rounded(data: Expr, grid: Grid) -> Expr:
    """The values that data stands for once it is quantised."""
    steps = quantized(data, grid)
    return multiply(subtract(steps, number(grid.zero)) if grid.zero else steps, number(grid.scale))


def _rounded_weights(site: Site, weights: np.ndarray) -> Expr:
    stored, scale = stored_weights(site, weights)
    shape = [-1 if axis == site.columns else 1 for axis in range(weights.ndim)]
    return constant(Tensor((stored * scale.reshape(shape)).astype("float32")))


def _half(value: Expr) -> Expr:
    return astype(astype(value, dtype="bfloat16"), dtype="float32")


def probed(mod: IRModule, ranges: Sequence[tuple[float, float]], half: bool = False) -> IRModule:
    """The module with the switches as last parameter of ``main``; ``ranges`` of the data of its sites in order. With ``half`` what
    is not quantised is rounded to bfloat16."""
    found = sites(mod)
    fn = mod.functions[MAIN]
    assert type(fn) is Function
    names = NameSupply([v.name for v in used_vars(fn)])
    switches = Var(names.fresh("switches"), tensor_type((const(len(found), "int64"),), "float32"))
    wanted = {var: (n, site, weights) for n, (var, site, weights) in enumerate(found)}

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        if rewriter.var not in wanted:
            return None
        n, site, weights = wanted[rewriter.var]
        data, right = value.args
        switch = reshape(strided_slice(switches, axes=[0], begin=[n], end=[n + 1]), ())
        args = []
        for plain, reduced in ((data, _rounded(data, Grid.of(*ranges[n]))), (right, _rounded_weights(site, weights))):
            base = _half(plain) if half else plain
            args.append(add(base, multiply(switch, subtract(reduced, base))))
        return make_call(value.op, args, value.attrs, (), value.span)

    made = rewrite_calls(fn, change)
    return mod.with_functions({MAIN: replace(made, params=(*fn.params, switches))})
