"""Random schedules on small programs: whatever is not refused leaves the numbers as they were, and the trace
replays. The verifier runs after every step. ``FUZZ=10`` in the environment tries ten times as many."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
from fuzz import TIMES
from schedule_programs import ELEMENTWISE, MM_RELU, SYMBOLIC, assert_same, module

from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace
from unity.transform.schedule.core.sref import loops_of
from unity.transform.schedule.preconditions.conditions import iter_map, why_not_complete_or_reduction
from unity.transform.schedule.preconditions.coverage import exact_region, relaxed_region, why_not_covered
from unity.transform.schedule.preconditions.dependence import regions, scope_of
from unity.transform.schedule.preconditions.distinct import distinct_cells
from unity.transform.schedule.preconditions.enclosing import why_irregular

CONV = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(X: T.Buffer((2, 7), "float32"), W: T.Buffer((3, 2, 3), "float32"), Y: T.Buffer((3, 5), "float32")):
        T.func_attr({"global_symbol": "main"})
        for o, x, c, r in T.grid(3, 5, 2, 3):
            with T.block("Y"):
                vo, vx, vc, vr = T.axis.remap("SSRR", [o, x, c, r])
                with T.init():
                    Y[vo, vx] = T.float32(0)
                Y[vo, vx] = Y[vo, vx] + X[vc, vx + vr] * W[vo, vc, vr]
"""
SOFTMAX = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(X: T.Buffer((4, 6), "float32"), Y: T.Buffer((4, 6), "float32")):
        T.func_attr({"global_symbol": "main"})
        M = T.alloc_buffer((4,), "float32")
        E = T.alloc_buffer((4, 6), "float32")
        S = T.alloc_buffer((4,), "float32")
        for i, j in T.grid(4, 6):
            with T.block("M"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.float32(-1000)
                M[vi] = T.max(M[vi], X[vi, vj])
        for i, j in T.grid(4, 6):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = X[vi, vj] - M[vi]
        for i, j in T.grid(4, 6):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(1)
                S[vi] = S[vi] + E[vi, vj] * E[vi, vj]
        for i, j in T.grid(4, 6):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = E[vi, vj] / S[vi]
"""
PREDICATED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((11,), "int32"), B: T.Buffer((11,), "int32"), S: T.Buffer((1,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for io, ii in T.grid(3, 4):
            with T.block("B"):
                v = T.axis.spatial(11, io * 4 + ii)
                T.where(io * 4 + ii < 11)
                T.reads(A[10 - v])
                T.writes(B[v])
                B[v] = A[10 - v] * 2
        for r, u in T.grid(11, 1):
            with T.block("S"):
                vr, vu = T.axis.remap("RS", [r, u])
                with T.init():
                    S[vu] = 0
                S[vu] = S[vu] + B[vr]
"""
NESTED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(2):
            with T.block("outer"):
                vi = T.axis.spatial(2, i)
                T.reads(A[vi * 4:vi * 4 + 4, 0:6])
                T.writes(B[0:6, vi * 4:vi * 4 + 4])
                for j, k in T.grid(6, 4):
                    with T.block("inner"):
                        vj, vk = T.axis.remap("SS", [j, k])
                        B[vj, vi * 4 + vk] = A[vi * 4 + vk, vj] + T.float32(1)
"""
PROGRAMS = {
    "mm_relu": MM_RELU, "elementwise": ELEMENTWISE, "symbolic": SYMBOLIC, "conv": CONV, "softmax": SOFTMAX,
    "predicated": PREDICATED, "nested": NESTED,
}  # fmt: skip


LOOPS = [
    "split",
    "split",
    "fuse",
    "reorder",
    "reorder",
    "kind",
    "unit",
    "iters",
    "decompose",
    "bind",
    "note",
    "perfect",
]
BLOCKS = ["cache", "cache", "move", "move", "move", "inline", "location", "reindex", "scope", "partition", "merge"]
KINDS = [*LOOPS, *BLOCKS, "own"]


def blocks_of(sch: Schedule) -> list[Any]:
    found: list[Any] = []
    pending = [sch.get_block("root")]
    while pending:
        inner = sch.get_child_blocks(pending.pop())
        found += inner
        pending += inner
    return found


def random_step(sch: Schedule, rng: random.Random) -> None:
    """One random primitive on random blocks and loops; may be refused."""
    block = rng.choice(blocks_of(sch))
    loops = sch.get_loops(block)
    loop = rng.choice(loops) if loops else block
    match rng.choice(KINDS):
        case "split":
            factors = rng.choice([[None, 2], [None, 3], [2, None], [None, 2, 2], [3, 4], [None, 1]])
            sch.split(loop, factors, preserve_unit_iters=rng.random() < 0.7)
        case "fuse":
            start = rng.randrange(len(loops) or 1)
            sch.fuse(*loops[start : start + rng.choice((1, 2, 3))], preserve_unit_iters=rng.random() < 0.7)
        case "reorder":
            sch.reorder(*rng.sample(loops, rng.randint(0, len(loops))))
        case "kind":
            rng.choice([sch.parallel, sch.vectorize, sch.unroll])(loop)
        case "unit":
            sch.add_unit_loop(rng.choice([block, loop]))
        case "iters":
            count = len(sch.get(block).iter_vars)
            sch.reorder_block_iter_var(block, rng.sample(range(count), count))
        case "decompose":
            sch.decompose_reduction(block, loop)
        case "bind":
            sch.bind(loop, rng.choice(["blockIdx.x", "blockIdx.y"]))
        case "note":
            sch.annotate(rng.choice([block, loop]), "note", rng.randint(0, 3))
        case "cache":
            scope = rng.choice(["local", "shared", "global"])
            rng.choice([sch.cache_read, sch.cache_write])(block, rng.randint(0, 1), scope)
        case "move":
            mover = rng.choice([sch.compute_at, sch.reverse_compute_at])
            other = sch.get_loops(rng.choice(blocks_of(sch)))
            mover(block, rng.choice(other or [loop]), preserve_unit_loops=rng.random() < 0.5)
        case "inline":
            rng.choice([sch.compute_inline, sch.reverse_compute_inline])(block)
        case "location":
            sch.compute_at(block, sch.sample_compute_location(block))
        case "reindex":
            sch.reindex(block, (rng.choice(["read", "write"]), rng.randint(0, 1)))
        case "scope":
            sch.set_scope(block, 0, rng.choice(["local", "shared"]))
        case "partition":
            sch.loop_partition(loop, [rng.randint(1, 3), None])
        case "merge":
            other = sch.get_loops(rng.choice(blocks_of(sch)))
            sch.merge(loop, rng.choice(other or [loop]))
        case "own":
            own_buffers(sch, block, rng)
        case "perfect":
            sch.split(loop, sch.sample_perfect_tile(loop, 2))


def own_buffers(sch: Schedule, block: Any, rng: random.Random) -> None:
    """Make a loop of a block parallel (or one of threads) and move what it reads under it, so that iterations own buffers; then, perhaps,
    the block itself somewhere else."""
    loops = sch.get_loops(block)
    if not loops:
        return
    loop = sch.fuse(*loops[: rng.randint(1, len(loops))]) if rng.random() < 0.6 else loops[0]
    if rng.random() < 0.8:
        sch.parallel(loop)
    else:
        sch.bind(loop, rng.choice(["blockIdx.x", "threadIdx.x"]))
    for producer in sch.get_producers(block):
        if rng.random() < 0.3:
            sch.set_scope(producer, 0, rng.choice(["local", "shared"]))
        sch.compute_at(producer, loop)
    targets = [loop for consumer in sch.get_consumers(block) for loop in sch.get_loops(consumer)]
    if targets and rng.random() < 0.7:
        sch.compute_at(block, rng.choice(targets))


@pytest.mark.parametrize("name", PROGRAMS)
def test_remembered_answers_are_those_of_a_schedule_that_knows_nothing(name: str) -> None:
    """Answers about blocks are kept over steps by what decides them: none is kept too long."""
    for seed in range(2 * TIMES):
        rng = random.Random(f"{name} {seed}")
        sch = Schedule(module(PROGRAMS[name]), seed=0, error_render_level="none")
        for _ in range(8):
            with contextlib.suppress(ScheduleError):
                if rng.random() < 0.2:
                    sch.blockize(rng.choice(sch.get_loops(rng.choice(blocks_of(sch))) or blocks_of(sch)))
                random_step(sch, rng)
            fresh = sch.copy()
            fresh.state.cache.clear()
            assert _answers(sch) == _answers(fresh), f"seed {seed}\n{sch.trace.script()}"


def _answers(sch: Schedule) -> list[str]:
    """All that steps ask about blocks by themselves."""
    state, found = sch.state, []
    for block in [sch.get_sref(rv) for rv in blocks_of(sch)]:
        reads, writes = regions(state, block.block)
        found += [
            why_irregular(state, block),
            why_not_complete_or_reduction(state, block),
            iter_map(state, block).errors,
        ]
        found.append(why_not_covered(state, block))
        for upto in [*loops_of(block), scope_of(block)]:
            found += [relaxed_region(state, block, region, upto) for region in (*reads, *writes)]
            found += [exact_region(state, block, region, upto) for region in writes]
            found += [] if upto.is_block else [bool(iter_map(state, block, upto)), distinct_cells(state, block, upto)]
    return [str(answer) for answer in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_schedules_agree(name: str) -> None:
    mod = module(PROGRAMS[name])
    applied = 0
    for seed in range(6 * TIMES):
        rng = random.Random(f"{name} {seed}")
        sch = Schedule(mod, seed=seed, debug_mask=1, error_render_level="fast")
        for _ in range(rng.randint(1, 12)):
            before, steps = sch.mod, len(sch.trace.insts)
            try:
                random_step(sch, rng)
            except ScheduleError:
                assert sch.mod is before or len(sch.trace.insts) > steps
        applied += len(sch.trace.simplified().insts)
        try:
            assert_same(mod, sch.mod, seeds=1)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{sch.trace.script()}\n{sch.mod.script()}") from error
        again = Schedule(mod)
        Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))).apply_to_schedule(again)
        assert again.mod.script() == sch.mod.script()
    assert applied > 20
