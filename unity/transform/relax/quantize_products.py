"""Products and convolutions of 8-bit integers: data quantised with ranges that calibration found, weights per column, int32 sums.

Rewrite: ``y = R.matmul(x, w)`` with constant ``w`` -> ``q = round(x / sx) + zx`` (uint8), then with int8 weights
``s = R.matmul(q, wq, out_dtype="int32")``, ``y = (s - zx * colsum(wq)) * (sx * sw)``; a convolution the same with a scale for each
output channel, its border filled with ``zx``. Written in operators, so that layouts and fusion see them; the contraction rule finds
``vpdpbusd`` for the sums where the processor has it, for which channels are filled up to groups of four. First ``observed(mod)`` is
run on calibration inputs: ``main`` with the least and the largest element of the data of each site as further results; then
``quantize_products(mod, ranges)``.

Left in float32: products in branches and other functions, convolutions in groups (they sum over few channels), those of fewer
output channels than a vector holds.

Source of the scheme: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
CVPR 2018 (data affine, weights symmetric and per column).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.tensor import Tensor
from ...ir.builder import make_call
from ...ir.expr import Binding, BindingBlock, Call, Constant, Op, SeqExpr, Tuple, Var, VarBinding, op
from ...ir.function import Function, seq_body
from ...ir.module import IRModule
from ...ir.names import NameSupply
from ...ir.node import replace
from ...ir.types import Expr, TupleType
from ...ir.walk import used_vars
from ...op.attention import pad
from ...op.binary import add, multiply, subtract
from ...op.create import astype
from ...op.elementwise import clip, round_
from ...op.rules import attr, int_attr, ints_attr
from ...op.table import constant
from ...support.errors import PassError
from .liveness import op_called
from .quantize_weights import constants_of, finite_weights, product_of, rounded
from .rewriting import GraphRewriter
from .sharing import Visibility
from .to_non_dataflow import to_non_dataflow

MAX_DEPTH = 1 << 16
"""Terms of a sum that are sure to fit int32."""
GROUP = 4
"""Neighbours along the reduction that one instruction takes."""
FEATURES = 16
"""Output channels from which on a convolution is worth it."""
MAIN = "main"
SPACE = {"R.nn.conv1d": "W", "R.nn.conv2d": "HW", "R.nn.conv3d": "DHW"}
"""Spatial axes of convolutions."""


@dataclass(slots=True, frozen=True)
class Site:
    """A call that can be quantised: its weights as they are, their axes of outputs and of the innermost sum, and the axis of the
    data and of the result that these are."""

    call: Call
    weights: np.ndarray
    columns: int
    rows: int
    data_rows: int
    out_columns: int

    @property
    def data(self) -> Expr:
        """The data, float32."""
        return self.call.args[0]


def _site(value: Expr, known: dict[Var, Constant]) -> Site | None:
    """The product or convolution that a variable is bound to, where it can be quantised."""
    product = product_of(value, known)
    if product is not None:
        assert type(value) is Call
        found: Site | None = Site(value, product.weights, 1, 0, -1, -1)
    else:
        found = _convolution(value, known)
    if found is None or found.weights.size // found.weights.shape[found.columns] > MAX_DEPTH:
        return None
    return found


def _convolution(value: Expr, known: dict[Var, Constant]) -> Site | None:
    if type(value) is not Call or op_called(value) not in SPACE or int_attr(value, "groups", 1) != 1:
        return None
    weights = finite_weights(value, known)
    if weights is None:
        return None
    space = SPACE[op_called(value)]
    data, kernel = attr(value, "data_layout", "NC" + space), attr(value, "kernel_layout", "OI" + space)
    out = attr(value, "out_layout") or data
    columns = kernel.index("O")
    if weights.shape[columns] < FEATURES:
        return None
    return Site(value, weights, columns, kernel.index("I"), data.index("C"), out.index("C"))


def _sites(mod: IRModule) -> list[tuple[Var, Site]]:
    """What can be quantised in ``main``, in order: calls bound outside branches."""
    known = constants_of(mod)
    fn = mod.functions.get(MAIN)
    if type(fn) is not Function:
        return []
    bindings = [b for block in seq_body(fn).blocks for b in block.bindings if isinstance(b, VarBinding)]
    found = [(b.var, _site(b.value, known)) for b in bindings]
    return [(var, site) for var, site in found if site is not None]


def observed(mod: IRModule) -> IRModule:
    """``main`` that returns (what it returned, (least, largest element of the data of the first site, of the second, ...))."""
    mod = to_non_dataflow(mod)
    data = {var: site.data for var, site in _sites(mod)}
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
    """Ranges of the sites from what the observed ``main`` returned for each calibration input. Raises PassError E987."""
    if not results:
        raise PassError("E987", "there are no calibration inputs", help="calibration=[(x1,), (x2,), ...]")
    seen = np.array([[float(v.numpy()) for v in stats] for _, stats in results]).reshape(len(results), -1, 2)
    low, high = seen[:, :, 0].min(axis=0), seen[:, :, 1].max(axis=0)
    if not np.isfinite(seen).all():
        raise PassError("E987", "the data of a product is empty, infinite or NaN on a calibration input")
    return [(min(float(a), 0.0), max(float(b), 0.0)) for a, b in zip(low, high)]


@dataclass(slots=True, frozen=True)
class Grid:
    """An affine map of float32 to 0..255: ``round(x / scale) + zero``."""

    scale: float
    zero: int

    @classmethod
    def of(cls, low: float, high: float) -> Grid:
        """The map of a range that holds zero."""
        scale = max((high - low) / 255.0, float(np.finfo("float32").tiny))
        return cls(scale, int(np.clip(np.rint(-low / scale), 0, 255)))

    def quantized(self, data: Expr, rewriter: GraphRewriter) -> Expr:
        """The data in 8 bits."""
        emit = rewriter.emit
        steps = emit(round_(emit(multiply(data, _number(1.0 / self.scale)))))
        whole = emit(clip(emit(add(steps, _number(self.zero))) if self.zero else steps, min=0.0, max=255.0))
        return emit(astype(emit(astype(whole, dtype="int32")), dtype="uint8"))


def _number(value: float) -> Expr:
    return constant(Tensor(np.array(value, "float32")))


def _widths(rank: int, pairs: dict[int, tuple[int, int]]) -> tuple[int, ...]:
    return tuple([n for axis in range(rank) for n in pairs.get(axis, (0, 0))])


def _bordered(site: Site, data: Expr, zero: int, rewriter: GraphRewriter) -> tuple[Expr, dict[str, Any]]:
    """The data with whole groups of channels and with the border that is not zero, and the attributes of the call on it."""
    rank = data.ty.ndim  # type: ignore[attr-defined]
    lacking = -site.weights.shape[site.rows] % GROUP
    pairs: dict[int, tuple[int, int]] = {site.data_rows % rank: (0, lacking)} if lacking else {}
    attrs = dict(site.call.attrs)
    if rank > 2 and op_called(site.call) in SPACE and zero:
        space = SPACE[op_called(site.call)]
        border = ints_attr(site.call, "padding", None)
        border = border * len(space) if len(border) == 1 else border
        before, after = border[: len(space)], border[-len(space) :]
        layout = attrs.get("data_layout") or "NC" + space
        pairs.update({layout.index(a): (b, e) for a, b, e in zip(space, before, after) if b or e})
        attrs["padding"] = (0,) * len(space)
    if pairs:
        data = rewriter.emit(pad(data, pad_width=_widths(rank, pairs), pad_value=float(zero)))
    return data, attrs


def _reduced(site: Site, grid: Grid, data: Expr, rewriter: GraphRewriter) -> Expr:
    """The call on integers, and its sums as float32."""
    last = np.moveaxis(site.weights, site.columns, -1)
    whole, steps = rounded(last.reshape(-1, last.shape[-1]), 127)
    shift = (grid.zero * whole.astype("int64").sum(axis=0)).astype("int32")
    weights = np.moveaxis(whole.reshape(last.shape), -1, site.columns)
    lacking = -weights.shape[site.rows] % GROUP
    weights = np.pad(weights, [(0, lacking if axis == site.rows else 0) for axis in range(weights.ndim)])
    data, attrs = _bordered(site, data, grid.zero, rewriter)
    args = (data, constant(Tensor(np.ascontiguousarray(weights))))
    assert type(site.call.op) is Op
    total: Expr = make_call(site.call.op, args, {**attrs, "out_dtype": "int32"}, (), site.call.span)
    rank = total.ty.ndim  # type: ignore[attr-defined]

    def along(values: np.ndarray) -> Expr:
        """Numbers of the columns, as they broadcast to the result."""
        return constant(Tensor(values.reshape([-1 if axis == site.out_columns % rank else 1 for axis in range(rank)])))

    if grid.zero:
        total = subtract(rewriter.emit(total), along(shift))
    wide = rewriter.emit(astype(rewriter.emit(total), dtype="float32"))
    return multiply(wide, along((steps * np.float32(grid.scale)).astype("float32")))


def quantize_products(mod: IRModule, ranges: Sequence[tuple[float, float]]) -> IRModule:
    """The module with the sites of ``main`` in 8 bits; ``ranges`` of their data in order, as ``ranges_of`` gives them."""
    sites = _sites(mod)
    if len(sites) != len(ranges):
        raise PassError("E987", f"{len(ranges)} ranges for {len(sites)} products")
    wanted = {var: (site, Grid.of(*span)) for (var, site), span in zip(sites, ranges)}
    quantized: dict[tuple[Any, ...], Expr] = {}

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if rewriter.var not in wanted:
            return value
        site, grid = wanted[rewriter.var]
        data = value.args[0]  # type: ignore[attr-defined]
        key = (data, grid, home.get(rewriter.var))
        if key not in quantized:
            quantized[key] = grid.quantized(data, rewriter)
        return _reduced(site, grid, quantized[key], rewriter)

    fn = mod.functions.get(MAIN)
    if type(fn) is not Function or not sites:
        return mod
    home = Visibility(fn).home
    return mod.with_functions({MAIN: GraphRewriter(rule).function(fn)})


__all__ = ["observed", "quantize_products", "ranges_of"]
