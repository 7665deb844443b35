"""Products in several schedules: float32 by register tiles of ``Schedule``, bfloat16 by matrix instructions, written by hand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import indent as indented
from typing import Any

from unity.ir import PrimFunc
from unity.script import parse
from unity.transform.schedule import Schedule

PLAIN = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "float32"), B: T.Buffer(({n}, {n}), "float32"), C: T.Buffer(({n}, {n}), "float32")):
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@dataclass(slots=True, frozen=True)
class Tile:
    """A block of ``threads`` squared threads, each with ``virtual`` squared patches of ``inner`` squared elements; ``depth`` of the
    reduction at a time, ``stages`` of them under way."""

    threads: int
    inner: int
    virtual: int
    depth: int
    stages: int

    @property
    def edge(self) -> int:
        """Rows and columns of a block."""
        return self.threads * self.inner * self.virtual


TILES = tuple([
    Tile(threads, inner, virtual, depth, stages)
    for threads, inner, virtual in ((16, 4, 2), (16, 8, 1), (8, 8, 1), (8, 4, 2), (16, 4, 1))
    for depth in (8, 16)
    for stages in (1, 3)
])  # fmt: skip
TINY_TILES = (Tile(4, 2, 2, 8, 1), Tile(4, 4, 1, 8, 3))


def by_tiles(n: int, tile: Tile) -> PrimFunc:
    """A float32 product of square matrices, whose edge is a multiple of the tile's."""
    sch = Schedule(parse(PLAIN.format(n=n)))
    block = sch.get_block("C")
    local = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, vy, i1, i2 = sch.split(i, [None, tile.virtual, tile.threads, tile.inner])
    j0, vx, j1, j2 = sch.split(j, [None, tile.virtual, tile.threads, tile.inner])
    k0, k1 = sch.split(k, [None, tile.depth])
    sch.reorder(i0, j0, vy, vx, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(local, j1)
    for loop, axis in zip((i0, j0, i1, j1), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")):
        sch.bind(loop, axis)
    if tile.virtual > 1:
        sch.bind(vy, "vthread.y")
        sch.bind(vx, "vthread.x")
    vector = min(4, tile.edge * tile.depth // tile.threads**2)
    for operand in (0, 1):
        shared = sch.cache_read(block, operand, "shared")
        sch.compute_at(shared, k0)
        parts = sch.split(sch.fuse(*sch.get_loops(shared)[-2:]), [None, tile.threads, tile.threads, vector])
        sch.bind(parts[1], "threadIdx.y")
        sch.bind(parts[2], "threadIdx.x")
        if vector > 1:
            sch.vectorize(parts[3])
    for loop in (k1, i2, j2):
        sch.unroll(loop)
    sch.decompose_reduction(block, k0)
    if tile.stages > 1:
        sch.annotate(k0, "software_pipeline_stage", [0, 0, tile.stages - 1])
        sch.annotate(k0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k0, "software_pipeline_async_stages", [0])
    (made,) = sch.mod.prim_funcs().values()
    return made


MATRIX = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "bfloat16"), B: T.Buffer(({n}, {n}), "bfloat16"), C: T.Buffer(({n}, {n}), "bfloat16")):
    for by in T.thread_binding({n} // {rows}, "blockIdx.y"):
        for bx in T.thread_binding({n} // {columns}, "blockIdx.x"):
            for tx in T.thread_binding({threads}, "threadIdx.x"):
                SA = T.alloc_buffer(({stages} * {rows} * {wide_a},), "bfloat16", scope="shared.dyn")
                SB = T.alloc_buffer(({stages} * {depth} * {wide_b},), "bfloat16", scope="shared.dyn")
                a = T.alloc_buffer(({down} * 8,), "bfloat16", scope="local")
                b = T.alloc_buffer(({across} * 4,), "bfloat16", scope="local")
                c = T.alloc_buffer(({down} * {across} * 4,), "float32", scope="local")
                for e in T.unroll({down} * {across} * 4):
                    c[e] = T.float32(0)
                for s in T.unroll({stages} - 1):
                    if s < {n} // {depth}:
{first}
                    T.ptx_commit_group()
                for k in range({n} // {depth}):
                    T.ptx_wait_group({stages} - 2)
                    T.tvm_storage_sync("shared.dyn")
                    if k + {stages} - 1 < {n} // {depth}:
{next}
                    T.ptx_commit_group()
                    for kk in T.unroll({depth} // 16):
                        for m in T.unroll({down}):
                            T.ptx_ldmatrix("bfloat16", T.bool(False), 4, ".b16", a.data, m * 8, SA.data,
                                k % {stages} * {rows} * {wide_a} + ({warp_row} + m * 16 + tx % 16) * {wide_a}
                                + kk * 16 + tx % 32 // 16 * 8)
                        for p in T.unroll({across} // 2):
                            T.ptx_ldmatrix("bfloat16", T.bool(True), 4, ".b16", b.data, p * 8, SB.data,
                                k % {stages} * {depth} * {wide_b} + (kk * 16 + tx % 16) * {wide_b}
                                + {warp_column} + p * 16 + tx % 32 // 16 * 8)
                        for m in T.unroll({down}):
                            for p in T.unroll({across}):
                                T.ptx_mma("float32", "m16n8k16", "row", "col", "bf16", "bf16", "fp32",
                                    a.data, m * 8, b.data, p * 4, c.data, (m * {across} + p) * 4, T.bool(False))
                for m in T.unroll({down}):
                    for p in T.unroll({across}):
                        for e in T.unroll(4):
                            C[by * {rows} + {warp_row} + m * 16 + tx % 32 // 4 + e // 2 * 8,
                              bx * {columns} + {warp_column} + p * 8 + tx % 4 * 2 + e % 2] = T.Cast(
                                  "bfloat16", c[(m * {across} + p) * 4 + e])
"""
COPY = """\
for e in T.unroll({lines} * {width} // 8 // {threads}):
    T.ptx_cp_async("bfloat16", S{name}.data,
        {slot} * {lines} * {wide} + (e * {threads} + tx) // ({width} // 8) * {wide} + (e * {threads} + tx) % ({width} // 8) * 8,
        {name}.data, ({line} + (e * {threads} + tx) // ({width} // 8)) * {n} + {column}
        + (e * {threads} + tx) % ({width} // 8) * 8, 16)
"""
PAD = 8
"""Elements behind each row in shared memory, so that the eight rows of a matrix lie in different banks."""


@dataclass(slots=True, frozen=True)
class MatrixTile:
    """A block of ``rows`` by ``columns``, by ``warps_down`` times ``warps_across`` warps; ``depth`` of the reduction at a time,
    ``stages`` of them under way."""

    rows: int
    columns: int
    depth: int
    warps_down: int
    warps_across: int
    stages: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_down * self.warps_across


_SHAPES = (
    (128, 128, 32, 2, 2), (128, 128, 64, 2, 2), (128, 256, 32, 2, 4),
    (256, 128, 32, 4, 2), (128, 128, 32, 2, 4), (64, 128, 32, 2, 2),
)  # fmt: skip
MATRIX_TILES = tuple([MatrixTile(*shape, stages) for shape in _SHAPES for stages in (3, 4)])
TINY_MATRIX_TILES = (MatrixTile(32, 32, 16, 1, 2, 3), MatrixTile(32, 64, 32, 2, 1, 4))


def by_matrix_instructions(n: int, tile: MatrixTile) -> PrimFunc:
    """A bfloat16 product of square matrices, whose edge is a multiple of the tile's."""
    fields: dict[str, Any] = {
        **asdict(tile), "n": n, "threads": tile.threads, "wide_a": tile.depth + PAD, "wide_b": tile.columns + PAD,
        "down": tile.rows // tile.warps_down // 16, "across": tile.columns // tile.warps_across // 8,
        "warp_row": f"tx // 32 // {tile.warps_across} * {tile.rows // tile.warps_down}",
        "warp_column": f"tx // 32 % {tile.warps_across} * {tile.columns // tile.warps_across}",
    }  # fmt: skip
    last = tile.stages - 1
    made = parse(MATRIX.format(**fields, first=_copies(fields, "s", "s", 24),
                               next=_copies(fields, f"((k + {last}) % {tile.stages})", f"(k + {last})", 24)))  # fmt: skip
    assert isinstance(made, PrimFunc)
    return made


def _copies(fields: dict[str, Any], slot: str, step: str, indent: int) -> str:
    """Copies of both operands' tiles of a step into a slot of shared memory, ``lines`` of ``width`` elements each."""
    rows, columns, depth = [fields[name] for name in ("rows", "columns", "depth")]
    left = COPY.format(**fields, name="A", lines=rows, width=depth, wide=fields["wide_a"], slot=slot,
                       line=f"by * {rows}", column=f"{step} * {depth}")  # fmt: skip
    right = COPY.format(**fields, name="B", lines=depth, width=columns, wide=fields["wide_b"], slot=slot,
                        line=f"{step} * {depth}", column=f"bx * {columns}")  # fmt: skip
    return indented(left + right, " " * indent).rstrip()
