"""Convolutions of stride 1 with a border of one as schedules of the plain programs: channels last, every step is a primitive.

``conv2d``: tiles of ``pixels`` x ``vectors`` * 16 outputs in registers, the weight packed by ``reindex_cache_read``. ``depthwise``:
16 channels at a time, rows of four pixels.
"""

from __future__ import annotations

from unity.script import parse
from unity.transform.schedule import Schedule

LANES = 16

PLAIN = """
@I.ir_module
class M:
    @T.prim_func
    def main(X: T.Buffer(({h}, {w}, {c}), "float32"), W: T.Buffer(({weight},), "float32"), Y: T.Buffer(({h}, {w}, {f}), "float32")):
        T.func_attr({{"global_symbol": "main", "tir.noalias": True, "tir.is_scheduled": True}})
        P = T.alloc_buffer(({h} + 2, {w} + 2, {c}), "float32")
        for h, w, c in T.grid({h} + 2, {w} + 2, {c}):
            with T.block("pad"):
                vh, vw, vc = T.axis.remap("SSS", [h, w, c])
                P[vh, vw, vc] = T.if_then_else(
                    1 <= vh and vh < {h} + 1 and 1 <= vw and vw < {w} + 1, X[vh - 1, vw - 1, vc], T.float32(0)
                )
        for {loops} in T.grid({extents}):
            with T.block("Y"):
                {iterators} = T.axis.remap("{kinds}", [{loops}])
                with T.init():
                    Y[vh, vw, vf] = T.float32(0)
                Y[vh, vw, vf] = Y[vh, vw, vf] + {product}
"""


def _plain(loops: str, kinds: str, **sizes: object) -> Schedule:
    iterators = ", ".join([f"v{name}" for name in loops.split(", ")])
    return Schedule(parse(PLAIN.format(loops=loops, iterators=iterators, kinds=kinds, **sizes)))


def conv2d(height: int, width: int, channels: int, filters: int, pixels: int, vectors: int) -> Schedule:
    """3x3 convolution of ``X`` (height, width, channels) with ``W`` (3, 3, channels, filters) into ``Y`` (height, width,
    filters)."""
    tile = LANES * vectors
    sch = _plain(
        "h, w, f, r, s, c", "SSSRRR", h=height, w=width, c=channels, f=filters, weight=f"3, 3, {channels}, {filters}",
        extents=f"{height}, {width}, {filters}, 3, 3, {channels}", product="P[vh + vr, vw + vs, vc] * W[vr, vs, vc, vf]",
    )  # fmt: skip
    block = sch.get_block("Y")
    packed = sch.reindex_cache_read(block, "W", "global", lambda h, w, f, r, s, c: (f // tile, r, s, c, f % tile))
    columns, *window = sch.get_loops(packed)
    outer, inner = sch.split(columns, [None, tile])
    sch.reorder(outer, *window, inner)
    sch.vectorize(inner)
    after = sch.cache_write(block, 0, "local")
    h, w, f, r, s, c = sch.get_loops(block)
    w0, w1 = sch.split(w, [None, pixels])
    f0, f1, f2 = sch.split(f, [None, vectors, LANES])
    c0, c1 = sch.split(c, [None, 2])
    sch.reorder(f0, h, w0, r, s, c0, c1, w1, f1, f2)
    return _finish(sch, block, after, w0, r, [c1, w1, f1], f2, h)


def depthwise(height: int, width: int, channels: int, pixels: int = 4) -> Schedule:
    """3x3 depthwise convolution of ``X`` (height, width, channels) with ``W`` (3, 3, channels)."""
    sch = _plain(
        "h, w, f, r, s", "SSSRR", h=height, w=width, c=channels, f=channels, weight=f"3, 3, {channels}",
        extents=f"{height}, {width}, {channels}, 3, 3", product="P[vh + vr, vw + vs, vf] * W[vr, vs, vf]",
    )  # fmt: skip
    block = sch.get_block("Y")
    after = sch.cache_write(block, 0, "local")
    h, w, f, r, s = sch.get_loops(block)
    w0, w1 = sch.split(w, [None, pixels])
    f0, f1 = sch.split(f, [None, LANES])
    sch.reorder(h, f0, w0, r, s, w1, f1)
    return _finish(sch, block, after, w0, r, [w1], f1, h)


def _finish(sch: Schedule, block, after, tile, reduction, unrolled, lanes, rows) -> Schedule:  # type: ignore[no-untyped-def]
    """Outputs leave registers where a tile is done; tiles unrolled in vectors; rows in parallel."""
    sch.reverse_compute_at(after, tile)
    init = sch.decompose_reduction(block, reduction)
    for loop in unrolled:
        sch.unroll(loop)
    sch.vectorize(lanes)
    *outer, last = sch.get_loops(init)
    for loop in outer[3:]:
        sch.unroll(loop)
    sch.vectorize(last)
    *_, pixels, channels = sch.get_loops(after)
    sch.unroll(pixels)
    sch.vectorize(channels)
    sch.vectorize(sch.get_loops("pad")[-1])
    sch.parallel(rows)
    return sch
