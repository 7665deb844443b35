"""Notes that the lowering acts on, at random places of random schedules, where other statements read what the noted ones write: the
lowered program computes what the program says, or the pass refuses the note (E532)."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
from lowering import LOOPS
from schedule_hostile import HOSTILE
from schedule_programs import module
from test_schedule_hostile import MODULES, arguments, compare, reference
from test_schedule_property import PROGRAMS, TIMES, blocks_of, random_step

import unity
from unity.ir import IRModule
from unity.ir.interpret import run
from unity.support.errors import PassError, ScheduleError
from unity.transform.schedule import Schedule

NAMES = [
    *PROGRAMS,
    *[n for n in HOSTILE if n in ("chain", "stencil", "twoout", "reducers", "pooled", "rows", "where", "noinit")],
]
LOOP_NOTES = {
    "software_prefetch_panel": (1, 2), "software_prefetch_once": (0, 1), "unroll": (1, 2, 4), "vectorize": (1,),
    "pragma_auto_unroll_max_step": (4, 64), "pragma_unroll_explicit": (0, 1), "pragma_loop_partition_hint": (1,),
    "software_pipeline_stage": ([0, 0, 1],), "software_pipeline_order": ([0, 1, 2],), "pragma_vectorize": (1,), "warp_execution": (1,),
}  # fmt: skip
BLOCK_NOTES = {
    "double_buffer_scope": (0, 0, 1), "buffer_dim_align": ([[0, 0, 32, 8]],), "pragma_auto_unroll_max_step": (16,),
    "auto_tensorize": ("none",), "meta_schedule.inline_rule": ("disable",), "warp_execution": (1,),
}  # fmt: skip


def noted(name: str, seed: int) -> Schedule:
    """A random schedule with random notes."""
    rng = random.Random(f"notes {name} {seed}")
    sch = Schedule(MODULES[name], seed=seed, debug_mask=1, error_render_level="fast")
    for _ in range(rng.randint(0, 5)):
        try:
            random_step(sch, rng)
        except ScheduleError:
            continue
    for _ in range(rng.randint(1, 4)):
        block = rng.choice(blocks_of(sch))
        loops = sch.get_loops(block)
        place, notes = (rng.choice(loops), LOOP_NOTES) if loops and rng.random() < 0.6 else (block, BLOCK_NOTES)
        key = rng.choice([*notes])
        try:
            sch.annotate(place, key, rng.choice(notes[key]))  # type: ignore[arg-type]
        except ScheduleError:
            continue
    return sch


def lowered(mod: IRModule) -> IRModule | None:
    """The module as the code generator gets it, None where the lowering refuses a note."""
    try:
        return LOOPS(mod)  # type: ignore[no-any-return]
    except PassError as error:
        assert error.code in ("E532", "E376"), error
        return None


def after(mod: IRModule, args: list[Any]) -> list[np.ndarray]:
    given = copy.deepcopy(args)
    run(mod, "main", *given)
    return [a for a in given if isinstance(a, np.ndarray)]


@pytest.mark.parametrize("name", NAMES)
def test_notes_keep_results(name: str) -> None:
    cases, kept = reference(name), 0
    for seed in range(3 * TIMES):
        sch = noted(name, seed)
        if any([i.row.name == "bind" for i in sch.trace.insts]) or "thread" in sch.mod.script():
            continue
        made = lowered(sch.mod)
        if made is None:
            continue
        kept += 1
        for args, wanted in cases:
            try:
                compare(wanted, after(made, args))
            except Exception as error:
                raise AssertionError(f"seed {seed}\n{sch.mod.script()}\n---- lowered\n{made.script()}") from error
    assert kept


TILES = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(6):
            for k in range(8):
                with T.block("fill"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vk] = A[vi, vk] * T.float32(2)
            for k in range(8):
                with T.block("use"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    C[vi, vk] = B[7 - vk] + T.float32(1)
        for k in range(8):
            with T.block("behind"):
                vk = T.axis.spatial(8, k)
                D[vk] = {read}[{place}]
"""


@pytest.mark.parametrize("behind", [True, False])
def test_a_reader_behind_the_loop_of_a_double_buffer(behind: bool) -> None:
    mod = module(TILES.format(read="B" if behind else "C", place="vk" if behind else "5, vk"))
    sch = Schedule(mod)
    fill = sch.blockize(sch.get_loops("fill")[1])
    sch.annotate(fill, "double_buffer_scope", 0)
    args = arguments(mod, 4)
    if behind:
        with pytest.raises(PassError, match="B is more than what an iteration"):
            unity.compile(sch.mod)
        return
    given = copy.deepcopy(args)
    unity.VirtualMachine(unity.compile(sch.mod))["main"](*given)
    compare(after(mod, args), given)
