"""Calls whose kernel is a decision: products, convolutions, and what somebody registered a kernel of a library for; and the
candidates for each. Equal calls are one site.

``Tiles``: a 3x3 convolution by Winograd's algorithm. Its sums are not those of the definition, so it is a candidate only for
``choose="measured+winograd"``; convolutions are then looked at as they will be computed, with channels last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arith.evaluate import evaluate
from ...ffi.dtype import DataType
from ...ffi.library import KERNELS, Anchor, LibraryKernel, packed_name
from ...ir.builder import make_call
from ...ir.expr import Call, Constant, ExternFunc, Tuple, Var
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.relation import dims
from ...ir.types import Expr, TensorType
from ...ir.walk import collect, free_vars
from ...op.common.table import R
from ...transform.default_schedule.winograd import MATRICES
from ...transform.relax.layout.winograd import CONVOLUTION, by_tiles, refused
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls
from ...vm.roofline import machine_roofline
from ..precision.accuracy import as_inputs

ANCHORS = frozenset([R.matmul.name, R.nn.conv1d.name, R.nn.conv2d.name, R.nn.conv3d.name, R.nn.conv2d_transpose.name])
"""Operators that are decided about, beside those somebody registers a kernel for."""
Key = tuple[Any, ...]
"""The common part of equal calls: operator, types, which operands are constants, attributes."""
Sizes = Mapping[Var, int]


@dataclass(slots=True, frozen=True)
class Tiles:
    """Winograd's algorithm with results in tiles of ``tile`` x ``tile``."""

    tile: int

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"unity.winograd_{self.tile}x{self.tile}"


Candidate = LibraryKernel | Tiles | None
"""A kernel of a library, another program of ours, or (None) our schedule."""


@dataclass(slots=True)
class Site:
    """Equal calls, of which ``call`` is one."""

    call: Call
    count: int = 0

    @property
    def symbols(self) -> set[Var]:
        """The symbols of its operands' dimensions."""
        return {v for a in self.call.args for d in dims(a.ty) or () for v in free_vars(d)}

    def anchor(self, sizes: Sizes) -> Anchor | None:
        """The call for these sizes of symbols; None where they, or a type, are not known well enough."""
        found = [_shape(a.ty, sizes) for a in (*self.call.args, self.call)]
        attrs = {k: v.name if isinstance(v, DataType) else v for k, v in self.call.attrs.items()}
        known = [f for f in found if f is not None]
        if len(known) < len(found) or not all([_plain(v) for v in attrs.values()]):
            return None
        *tensors, (shape, dtype) = known
        return Anchor(
            self.call.op_name, tuple([s for s, _ in tensors]), tuple([d for _, d in tensors]), shape, dtype, attrs
        )

    def candidates(self, winograd: bool) -> list[LibraryKernel | Tiles]:
        """All that may compute it but our schedule."""
        found: list[LibraryKernel | Tiles] = [k for k in KERNELS.values() if k.op == self.call.op_name]
        tiled = winograd and self.call.op_name == CONVOLUTION and not self.symbols
        return [*found, *([Tiles(tile) for tile in MATRICES] if tiled else ())]

    def refuses(self, kernel: LibraryKernel | Tiles, anchor: Anchor | None) -> str:
        """The reason why a candidate cannot compute it; "" if it can."""
        if isinstance(kernel, Tiles):
            return refused(self.call)
        if anchor is None:
            return "its sizes are not known: give example_inputs"
        fits = kernel.predicate(anchor)
        return "" if fits is True else fits if isinstance(fits, str) else "it does not take this call"


def _shape(ty: Any, sizes: Sizes) -> tuple[tuple[int, ...], str] | None:
    extents = dims(ty) if isinstance(ty, TensorType) else None
    if extents is None or ty.dtype is None:
        return None
    values = [evaluate(e, sizes) for e in extents]
    known = tuple([v for v in values if v is not None])
    return (known, ty.dtype.name) if len(known) == len(values) else None


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all([_plain(v) for v in value])
    return value is None or isinstance(value, (int, float, str, bool))


def key_of(call: Call) -> Key:
    """The key of a call."""
    constant = tuple([type(a) is Constant for a in call.args])
    return call.op_name, tuple([str(a.ty) for a in call.args]), constant, repr(sorted(call.attrs.items(), key=str))


def sites_of(mod: IRModule) -> dict[Key, Site]:
    """The sites of a module."""
    known = ANCHORS | {kernel.op for kernel in KERNELS.values()}
    found: dict[Key, Site] = {}
    for fn in mod.graph_functions().values():
        for call in collect(fn, Call):
            site = Site(call)
            if call.op_name in known and site.anchor(dict.fromkeys(site.symbols, 1)) is not None:
                found.setdefault(key_of(call), site).count += 1
    return found


def text_of(anchor: Anchor) -> str:
    """A call as the table shows it."""
    return f"{' x '.join([str(list(s)).replace(' ', '') for s in anchor.shapes])} {anchor.dtypes[0]}"


def estimate(anchor: Anchor) -> tuple[float, str]:
    """The seconds that the machine's roofline allows a call, and what bounds it: every result is a sum of products along the
    reduced axes."""
    out = float(np.prod(anchor.out_shape, dtype="float64"))
    depth = anchor.shapes[0][-1] if anchor.op == R.matmul.name else np.prod(anchor.shapes[-1], dtype="float64") / max(
        1, anchor.shapes[-1][0])  # fmt: skip
    tensors = [*zip(anchor.shapes, anchor.dtypes), (anchor.out_shape, anchor.out_dtype)]
    flops = 2.0 * out * float(depth)
    moved = float(sum([np.prod(s, dtype="float64") * DataType(d).itemsize for s, d in tensors]))
    roofline = machine_roofline()
    bound = "arithmetic" if flops / roofline.flops > moved / roofline.bandwidth else "memory"
    return roofline.seconds(flops, moved), bound


def with_kernels(mod: IRModule, chosen: Mapping[Key, Candidate]) -> IRModule:
    """The module with the calls of these keys computed by these candidates."""
    tiles = {key: kernel.tile for key, kernel in chosen.items() if isinstance(kernel, Tiles)}
    if tiles:
        mod = by_tiles(mod, lambda call: tiles.get(key_of(call), 0))
    libraries = {key: kernel for key, kernel in chosen.items() if isinstance(kernel, LibraryKernel)}

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        kernel = libraries.get(key_of(value))
        if kernel is None:
            return None
        attrs = {k: v.name if isinstance(v, DataType) else v for k, v in value.attrs.items()}
        return make_call(R.call_dps.op, [ExternFunc(packed_name(kernel, attrs)), Tuple(value.args)], {}, (value.ty,))

    if not libraries:
        return mod
    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, *{key[0] for key in libraries}))


def example_sizes(mod: IRModule, examples: Any) -> dict[Var, int]:
    """The sizes of the symbols of ``main`` by its leading arguments."""
    main = mod.functions.get("main")
    found: dict[Var, int] = {}
    for param, value in zip(main.params if isinstance(main, Function) else (), as_inputs(examples)):
        extents = dims(param.ty) if isinstance(param.ty, TensorType) else None
        for extent, size in zip(extents or (), getattr(value, "shape", ())):
            if isinstance(extent, Var):
                found.setdefault(extent, int(size))
    return found
