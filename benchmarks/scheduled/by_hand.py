"""Matrix products as schedules of the plain three-loop program: every step is a primitive, none of it is written as loops.

``float32(m, n, k)``: tile 6 x 64, the right operand packed in panels by ``reindex_cache_read``, unrolled, in vectors, parallel.
``bfloat16(m, n, k)``: the same with pairs of the reduction in one ``vdpbf16ps`` by ``tensorize``; the sum is float32.
``bfloat16_tiles(m, n, k)``: blocks of AMX tiles by ``tensorize``.
"""

from __future__ import annotations

from unity.script import parse
from unity.transform.schedule import Schedule

ROWS, COLUMNS, LANES, UNROLL = 6, 64, 16, 4
BLOCK = 32
"""Rows and columns of a block of AMX tiles."""

PLAIN = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer(({m}, {k}), "{dtype}"), B: T.Buffer(({k}, {n}), "{dtype}"), D: T.Buffer(({m}, {n}), "{dtype}")):
        T.func_attr({{"tir.noalias": True}})
        C = T.alloc_buffer(({m}, {n}), "float32")
        for i, j, k in T.grid({m}, {n}, {k}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + {a} * {b}
        for i, j in T.grid({m}, {n}):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = {value}
"""


def plain(m: int, n: int, k: int, dtype: str) -> Schedule:
    """A schedule of the plain program, without a step."""
    load = "{0}" if dtype == "float32" else 'T.Cast("float32", {0})'
    value = "C[vi, vj]" if dtype == "float32" else f'T.Cast("{dtype}", C[vi, vj])'
    a, b = load.format("A[vi, vk]"), load.format("B[vk, vj]")
    return Schedule(parse(PLAIN.format(m=m, n=n, k=k, dtype=dtype, a=a, b=b, value=value)))


def float32(m: int, n: int, k: int) -> Schedule:
    """The float32 product."""
    sch = plain(m, n, k, "float32")
    block, after = sch.get_block("C"), sch.get_block("D")
    sch.set_scope(block, 0, "local")
    packed = sch.reindex_cache_read(block, 1, "global", lambda i, j, k: (j // COLUMNS, k, j % COLUMNS))
    i, j, r = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, ROWS])
    j0, j1 = sch.split(j, [None, COLUMNS])
    r0, r1 = sch.split(r, [None, UNROLL])
    sch.reorder(j0, i0, r0, r1, i1, j1)
    _finish(sch, block, after, [j0, i0, r0], [r1, i1])
    sch.vectorize(j1)
    _pack(sch, packed)
    return sch


def bfloat16(m: int, n: int, k: int) -> Schedule:
    """The bfloat16 product with dot products of pairs."""
    sch = plain(m, n, k, "bfloat16")
    block, after = sch.get_block("C"), sch.get_block("D")
    sch.set_scope(block, 0, "local")
    packed = sch.reindex_cache_read(block, 1, "global", lambda i, j, k: (j // COLUMNS, k // 2, j % COLUMNS, k % 2))
    i, j, r = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, ROWS])
    j0, j1, j2 = sch.split(j, [None, COLUMNS // LANES, LANES])
    r0, r1, r2 = sch.split(r, [None, UNROLL, 2])
    sch.reorder(j0, i0, r0, r1, i1, j1, j2, r2)
    _finish(sch, block, after, [j0, i0, r0], [r1, i1, j1])
    sch.tensorize(j2, "dot_16x2_bf16_avx512_local")
    _pack(sch, packed, 2)
    return sch


def bfloat16_tiles(m: int, n: int, k: int) -> Schedule:
    """The bfloat16 product with AMX: blocks of 32 x 32 that stay in tiles along the whole reduction (a multiple of 32)."""
    sch = plain(m, n, k, "bfloat16")
    block, after = sch.get_block("C"), sch.get_block("D")
    sch.set_scope(block, 0, "local")
    packed = sch.reindex_cache_read(block, 1, "global", lambda i, j, k: (j // BLOCK, k // 2, j % BLOCK, k % 2))
    i, j, r = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, BLOCK])
    j0, j1 = sch.split(j, [None, BLOCK])
    sch.reorder(j0, i0, i1, j1, r)
    sums = sch.cache_write(block, 0, "amx.tile")
    sch.reverse_compute_at(sums, i0)
    sch.reverse_compute_at(after, i0)
    init = sch.decompose_reduction(block, i1)
    *_, lanes = sch.get_loops(after)
    sch.vectorize(lanes)
    for part, name in ((init, "fill"), (sums, "store")):
        sch.tensorize(sch.get_loops(part)[-2], f"amx_{name}_{BLOCK}x{BLOCK}_bf16bf16f32")
    sch.tensorize(i1, f"amx_{BLOCK}x{BLOCK}x{k}_bf16bf16f32_tiles")
    sch.parallel(sch.fuse(j0, i0))
    _pack(sch, packed, 2, BLOCK)
    return sch


def _finish(sch: Schedule, block, after, outer, unrolled) -> None:  # type: ignore[no-untyped-def]
    j0, i0, r0 = outer
    sch.reverse_compute_at(after, i0)
    init = sch.decompose_reduction(block, r0)
    for loop in unrolled:
        sch.unroll(loop)
    *_, rows, lanes = sch.get_loops(after)
    sch.unroll(rows)
    sch.vectorize(lanes)
    inner = sch.get_loops(init)[2:]
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(inner[-1])
    sch.parallel(sch.fuse(j0, i0))


def _pack(sch: Schedule, packed, group: int = 1, width: int = COLUMNS) -> None:  # type: ignore[no-untyped-def]
    """Panels one after the other, each in vectors along its columns (and along a group of the reduction)."""
    columns, depth = sch.get_loops(packed)
    c0, c1 = sch.split(columns, [None, width])
    d0, d1 = sch.split(depth, [None, group])
    sch.reorder(c0, d0, c1, d1)
    sch.vectorize(sch.fuse(c1, d1))
    sch.parallel(c0)
