"""The scheduler: lanes with the smallest program counter run first, all that stand there, until they part, wait or meet others.

Straight runs of instructions go through without a look at who is where. With a seed, warps take turns in a random order and each
goes as far as it can, so that what only held because warps ran in step shows.
"""

from __future__ import annotations

import numpy as np

from ....ir.interpret.threads.findings import Finding
from ....ir.interpret.threads.lanes import WARP
from ....support.errors import Note
from .access import timed
from .batch import ASLEEP, AT_BARRIER, AT_WARP, MAX_LANES, READY, SHARED_ALIGN, Batch, Index, Launch
from .findings import LAUNCH_FAILED, TIMEOUT, Fault, finding
from .global_races import GlobalRaces
from .link import align
from .undefined import Undefined, before, run_tracked

FAR = 1 << 60
TURNS = 4
"""Groups of warps that run one after the other where a seed is given."""
MOST_SHARED = 1 << 22
"""Bytes of the shared memory of blocks that run side by side: the race memory takes twenty times as much."""
FAIR = 1 << 12
"""Steps after which others get a turn: a thread may wait in a loop for another one."""


def run_launch(launch: Launch) -> None:
    """Run all blocks. Raises Fault where the launch ends badly."""
    program, geometry = launch.program, launch.geometry
    granules = {"shared": 16, "global": 16}
    for row in program.sites:
        launch.log.site(program.name, row.kind, row.scope, row.span, row.atomic, row.collective)
        if row.scope in granules:
            granules[row.scope] = min(granules[row.scope], row.width)
    launch.state["granules"] = granules
    launch.state["races"] = GlobalRaces(granules["global"], program.warp_barriers, program.atomics, timed)
    random = np.random.default_rng(launch.options.seed) if launch.options.seed is not None else None
    shared = align(max(program.shared_bytes + launch.dynamic, 1), SHARED_ALIGN)
    step = max(1, min(MAX_LANES // geometry.padded, MOST_SHARED // shared))
    firsts = np.arange(0, geometry.block_count, step)
    if random is not None:
        random.shuffle(firsts)
    with np.errstate(all="ignore"):
        for k, first in enumerate(firsts.tolist()):
            batch = Batch(launch, first, min(step, geometry.block_count - first))
            batch.watched = k in (0, len(firsts) - 1)
            run_batch(batch, random)
            launch.clock = batch.clock + 1
            launch.instructions += batch.steps


def run_batch(batch: Batch, random: np.random.Generator | None = None) -> None:
    """Run the lanes of a batch until all have ended."""
    if random is not None:
        turns = random.integers(0, TURNS, batch.n // WARP)
        batch.groups = np.repeat(turns, WARP)
    turn = 0
    fair = FAIR
    while True:
        ready = batch.alive & (batch.state == READY)
        if batch.groups is not None and random is not None:
            mine = ready & (batch.groups == turn)
            if batch.steps > fair or not mine.any():
                left = np.unique(batch.groups[ready])
                if len(left):
                    turn = int(random.choice(left))
                    mine = ready & (batch.groups == turn)
            ready = mine
        pcs = batch.pc[ready]
        if not len(pcs):
            if not batch.alive.any():
                return
            _all_waiting(batch)
            continue
        if batch.steps > fair:
            fair = batch.steps + FAIR
            pc = int(np.unique(pcs)[-1])
        else:
            pc = int(pcs.min())
        lanes = np.flatnonzero(ready & (batch.pc == pc))
        others = pcs[pcs > pc]
        stop = int(others.min()) if len(others) else FAR
        _go(batch, pc, batch.narrowed(lanes), stop, fair)


def _go(batch: Batch, pc: int, ix: Index, stop: int, fair: int) -> None:
    """Run lanes that stand together until they part or wait, come to where others stand, or others are to have a turn."""
    program = batch.program
    plain, control, ends = program.plain, program.control, program.ends
    limit = batch.options.steps
    while True:
        end = min(ends[pc], stop)
        if batch.undefined:
            run_tracked(batch, ix, pc, end)
        else:
            try:
                for run in plain[pc:end]:
                    run(batch, ix)
            except Undefined as load:
                run_tracked(batch, ix, load.pc + 1, end)
        batch.steps += end - pc + 1
        if batch.steps > limit:
            raise Fault(TIMEOUT, _endless(batch, end if end < len(program.code) else pc))
        if end == stop:
            batch.pc[batch.lanes(ix)] = end
            return
        if batch.undefined and end < len(program.flows):
            before(batch, ix, program.flows[end])
        after = control[end](batch, ix, end)
        if after is None:
            return
        pc = after
        if pc >= stop or batch.steps > fair:
            batch.pc[batch.lanes(ix)] = pc
            return


def _endless(batch: Batch, pc: int) -> Finding:
    span = batch.program.code[pc][1].span
    text = f"more than {batch.options.steps} instructions, a loop that does not end?"
    return finding(batch, "steps", text, span, help="emulated_gpu(steps=...) allows more")


def _all_waiting(batch: Batch) -> None:
    """All lanes that live wait: let copies arrive, else end the launch."""
    if (batch.state == ASLEEP).any() and batch.engine:
        while batch.engine:
            batch.engine.pop(0)()
        batch.state[batch.state == ASLEEP] = READY
        return
    waiting: dict[tuple[int, int], int] = {}
    for lane in np.flatnonzero(batch.alive).tolist():
        waiting.setdefault((int(batch.pc[lane]), int(batch.state[lane])), lane)
    kinds = {state for _, state in waiting}
    notes = []
    for (pc, state), lane in sorted(waiting.items()):
        what = {AT_BARRIER: "a barrier", AT_WARP: "other lanes of its warp", ASLEEP: "a transaction barrier"}[state]
        notes.append(Note(f"{batch.thread(lane)} waits for {what}", batch.program.code[pc][1].span))
    kind = "barrier" if kinds != {AT_WARP} else "collective"
    span = batch.program.code[min(waiting)[0]][1].span
    threads = [batch.thread(lane) for lane in list(waiting.values())[:2]]
    text = "no thread can go on, each waits for others"
    raise Fault(LAUNCH_FAILED, finding(batch, kind, text, span, *threads, notes=notes[:6]))
