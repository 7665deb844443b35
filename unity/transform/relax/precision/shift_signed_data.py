"""Products and convolutions of int8 by int8 as those of unsigned by signed bytes, where the processor multiplies these alone.

Rewrite: ``y = R.matmul(x, w, out_dtype="int32")`` -> ``u = x + 128`` (uint8: the sign bit turned over),
``y = R.matmul(u, w, out_dtype="int32") - 128 * colsum(w)``. Exact: int32 wraps around the same way. Weights that are not constants
are summed at each call, which the rows of the data must pay for.
"""

from __future__ import annotations

import math
from typing import Any

from ....ir.build import int_value
from ....ir.expr import Call, Constant, Var
from ....ir.function import Function
from ....ir.relation import dims, tensor_dtype
from ....ir.types import Expr
from ....op.elementwise.binary import bitwise_xor
from ....op.manipulate.create import astype
from ...infra.backend import machine_in_use
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, each_binding
from .integer_sums import FEATURES, Site, number, site_of, summed

UNSIGNED, SIGNED = "dot_16x4_vnni_local", "amx_s8s8s32"
"""Tensor intrinsics of unsigned by signed bytes, and of signed ones."""
ROWS = 32
"""Rows of data that pay for summing weights that are not constants."""


def _rows(site: Site) -> int:
    """Results that each weight takes part in, symbols not counted."""
    extents = [extent for axis, extent in enumerate(dims(site.call.ty) or ()) if axis != site.out_columns]
    return math.prod([int_value(extent, 1) for extent in extents])


def _signed(value: Expr) -> Site | None:
    """A product or convolution of signed bytes with int32 sums."""
    if type(value) is not Call or tensor_dtype(value.ty) != "int32":
        return None
    if [tensor_dtype(a.ty) for a in value.args] != ["int8", "int8"]:
        return None
    return site_of(value)


@function_pass()
def shift_signed_data(fn: Function) -> Function:
    """Compute products of signed bytes by instructions for unsigned ones. Results are exact."""
    sites = [site for _, b in each_binding(fn) if (site := _signed(b.value)) is not None]
    intrinsics = machine_in_use().intrinsics if sites else ()
    if UNSIGNED not in intrinsics or SIGNED in intrinsics:
        return fn
    source = Definitions(fn)

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        site = _signed(value)
        if site is None or site.sizes[site.columns] < FEATURES:
            return value
        data, weights = site.call.args
        weights = source.value.get(weights, weights) if isinstance(weights, Var) else weights
        weights = weights if type(weights) is Constant else site.call.args[1]
        if type(weights) is not Constant and _rows(site) < ROWS:
            return value
        return summed(site, astype(bitwise_xor(data, number(-128, "int8")), dtype="uint8"), weights, 128)

    return GraphRewriter(rule).function(fn)
