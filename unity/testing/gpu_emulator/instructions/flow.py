"""Control: branches, calls, ends of threads, and barriers of a block and of a warp."""

from __future__ import annotations

import numpy as np

from ....ir.interpret.threads.lanes import WARP
from ..machine.batch import AT_BARRIER, AT_WARP, READY, Batch, Index
from ..machine.findings import ILLEGAL_INSTRUCTION, LAUNCH_FAILED, Fault, finding
from ..machine.link import call_lists, called
from ..machine.reading import U32, Get, Reading, Run
from ..ptx.program import Symbol
from ..ptx.types import TYPES
from .table import Step, control, guard_of, instruction


def _label(reading: Reading, symbol: object) -> int:
    labels = reading.linked.function.labels
    if not isinstance(symbol, Symbol) or symbol.name not in labels:
        raise reading.refuse("its label is not declared")
    return reading.linked.first + labels[symbol.name]


def end_threads(batch: Batch, lanes: np.ndarray) -> None:
    """The threads of some lanes end; barriers that waited for them are complete."""
    batch.leave(lanes)
    if batch.state.any():
        batch.state[batch.state == AT_WARP] = READY  # they look again who is still to come
        complete_barriers(batch)


@control("bra")
def _bra(reading: Reading) -> Step:
    """bra{.uni} label: .uni promises that all lanes agree, and is not relied upon."""
    reading.drop("uni")
    target = _label(reading, reading.operands[0])
    retires = target in reading.program.retiring
    let_through = guard_of(reading)

    def branch(batch: Batch, ix: Index, pc: int) -> int | None:
        where = let_through(batch, ix)
        if where is True:
            return target
        if where is False:
            return pc + 1
        assert isinstance(where, np.ndarray)
        lanes = batch.lanes(ix)
        batch.pc[lanes] = pc + 1
        if retires:
            end_threads(batch, where)
        else:
            batch.pc[where] = target
        return None

    return branch


@control("brx")
def _brx(reading: Reading) -> Step:
    """brx.idx index, list"""
    reading.flag("idx")
    reading.drop("uni")
    names = reading.operands[1]
    if not isinstance(names, Symbol) or names.name not in reading.linked.function.tables:
        raise reading.refuse("its list of labels is not declared")
    targets = np.array([_label(reading, Symbol(n)) for n in reading.linked.function.tables[names.name]])
    index = reading.value(0, U32)
    let_through = guard_of(reading)

    def branch(batch: Batch, ix: Index, pc: int) -> int | None:
        lanes = batch.lanes(ix)
        where = let_through(batch, ix)
        batch.pc[lanes] = pc + 1
        taken = lanes if where is True else where
        if taken is not False:
            chosen = index(batch, taken)
            if (chosen >= len(targets)).any():
                text = f"an index beyond the {len(targets)} labels of a branch"
                raise reading.fault(batch, ILLEGAL_INSTRUCTION, "bounds", text)
            batch.pc[taken] = targets[chosen]
        return None

    return branch


@control("ret", "exit")
def _ret(reading: Reading) -> Step:
    reading.drop("uni")
    function = reading.linked.function
    let_through = guard_of(reading)
    ends = function.entry or reading.opcode == "exit"

    def leave(batch: Batch, ix: Index, pc: int) -> int | None:
        where = let_through(batch, ix)
        if where is False:
            return pc + 1
        lanes = batch.lanes(ix)
        batch.pc[lanes] = pc + 1
        gone = lanes if where is True else where
        assert isinstance(gone, np.ndarray)
        if ends:
            end_threads(batch, gone)
            return None
        came_from = batch.returns[function.name][gone]
        batch.pc[gone] = came_from + 1
        for caller in np.unique(came_from).tolist():
            _copy(batch, gone[came_from == caller], batch.program.results[caller])
        return None

    return leave


@control("trap")
def _trap(reading: Reading) -> Step:
    let_through = guard_of(reading)

    def trap(batch: Batch, ix: Index, pc: int) -> int | None:
        where = let_through(batch, ix)
        if where is False:
            return pc + 1
        lane = int(batch.lanes(ix)[0] if where is True else where[0])
        who = batch.thread(lane)
        raise Fault(
            LAUNCH_FAILED, finding(batch, "trap", f"a trap was reached by {who}", reading.instruction.span, who)
        )

    return trap


@control("call")
def _call(reading: Reading) -> Step:
    """call{.uni} (results), function, (arguments): both lie in local memory, and are copied."""
    reading.drop("uni")
    name = called(reading.instruction)
    module = reading.program.module
    callee = module.functions.get(name)
    if callee is None or not callee.defined or reading.instruction.guard is not None:
        refusal = reading.refuse(f"{name} has no body" if reading.instruction.guard is None else "a guarded call")

        def missing(batch: Batch, ix: Index, pc: int) -> int | None:
            raise refusal

        return missing
    results, arguments = call_lists(reading.instruction)
    linked = reading.program.linked[name]
    if len(arguments) != len(callee.params) or len(results) != len(callee.results):
        raise reading.refuse("arguments that do not fit the function")
    there = [linked.variables[p.name][1] for p in callee.params]
    back = [linked.variables[p.name][1] for p in callee.results]
    moves_in = [(reading.address_of(a)[1], t, p.size) for a, t, p in zip(arguments, there, callee.params)]
    moves_out = [(t, reading.address_of(r)[1], p.size) for r, t, p in zip(results, back, callee.results)]
    reading.program.results[len(reading.program.plain)] = moves_out

    def call(batch: Batch, ix: Index, pc: int) -> int | None:
        lanes = batch.lanes(ix)
        _copy(batch, lanes, moves_in)
        batch.returns.setdefault(name, np.zeros(batch.n, np.int64))[lanes] = pc
        return linked.first

    return call


def _copy(batch: Batch, lanes: np.ndarray, moves: list[tuple[int, int, int]]) -> None:
    rows = batch.open_local().reshape(batch.n, batch.frame)
    flags = batch.local_written.reshape(batch.n, batch.frame)
    for source, target, size in moves:
        rows[lanes, target : target + size] = rows[lanes, source : source + size]
        flags[lanes, target : target + size] = flags[lanes, source : source + size]


# ---- barriers


@control("bar", "barrier")
def _barrier(reading: Reading) -> Step:
    """bar{.warp}.sync, barrier{.cta}.{sync, arrive, red}{.aligned}."""
    if reading.flag("warp"):
        reading.one("sync")
        reading.count(1)
        reading.program.warp_barriers = True
        return warp_operation(reading, lambda batch, ix: batch.ordered(ix, warps=True), reading.value(0, U32))
    reading.drop("cta", "aligned")
    kind = reading.one("sync", "arrive", "red")
    if reading.instruction.guard is not None:
        raise reading.refuse("a guarded barrier")
    if kind == "red":
        return _reduction(reading)
    reading.count(1, 2)
    expected = reading.value(1, U32) if len(reading.operands) > 1 else None
    if kind == "arrive":
        return _arrive(reading.value(0, U32))
    return _wait(reading.value(0, U32), expected, None)


def _wait(number: Get, expected: Get | None, vote: Get | None) -> Step:
    def wait(batch: Batch, ix: Index, pc: int) -> int | None:
        batch.launch.log.barriers += 1
        if ix is None and expected is None and vote is None and not batch.arrived:
            ids = number(batch, None)
            if len(ids) == 1 or (ids == ids[0]).all():
                _check_all_arrive(batch, batch.lanes(None), pc)
                batch.ordered(None)
                return pc + 1
        lanes = batch.lanes(ix)
        batch.state[lanes] = AT_BARRIER
        batch.pc[lanes] = pc
        batch.waits_at[lanes] = number(batch, lanes)
        batch.wanted[lanes] = expected(batch, lanes) if expected is not None else 0
        if vote is not None:
            batch.vote[lanes] = vote(batch, lanes)
        complete_barriers(batch)
        return None

    return wait


def _arrive(number: Get) -> Step:
    def arrive(batch: Batch, ix: Index, pc: int) -> int | None:
        lanes = batch.lanes(ix)
        ids = np.broadcast_to(number(batch, lanes), len(lanes))
        for one in np.unique(ids).tolist():
            counts = batch.arrived.setdefault(one, np.zeros(batch.blocks, np.int64))
            counts += np.bincount(lanes[ids == one] // batch.padded, minlength=batch.blocks)
        complete_barriers(batch)
        return pc + 1

    return arrive


def _reduction(reading: Reading) -> Step:
    """barrier.red.{popc.u32, and.pred, or.pred}: the votes of all threads, given to each when the barrier is complete."""
    kind = reading.one("popc", "and", "or")
    type_ = reading.type()
    result = reading.into(0, type_)
    reading.count(3, 4)
    expected = reading.value(2, U32) if len(reading.operands) == 4 else None
    vote = reading.predicate(len(reading.operands) - 1)

    def finish(batch: Batch, lanes: np.ndarray) -> None:
        block = lanes // batch.padded
        yes = np.bincount(block, batch.vote[lanes], batch.blocks).astype(np.uint32)
        if kind == "popc":
            result(batch, lanes, yes[block])
            return
        all_ = np.bincount(block, minlength=batch.blocks)
        result(batch, lanes, (yes == all_)[block] if kind == "and" else (yes > 0)[block])

    reading.program.finish[len(reading.program.plain)] = finish
    return _wait(reading.value(1, U32), expected, vote)


def complete_barriers(batch: Batch) -> None:
    """Let go the threads of each barrier that has all that it waits for."""
    waiting = (batch.state == AT_BARRIER) & batch.alive
    if not waiting.any():
        return
    living = batch.alive.reshape(batch.blocks, batch.padded).sum(axis=1)
    for number in np.unique(batch.waits_at[waiting]).tolist():
        here = (waiting & (batch.waits_at == number)).reshape(batch.blocks, batch.padded)
        wanted = np.where(here, batch.wanted.reshape(here.shape), 0).max(axis=1)
        come = here.sum(axis=1)
        silent = batch.arrived.get(number)
        if silent is not None:
            come = come + silent
        counted = wanted > 0
        warps = here.reshape(batch.blocks, -1, WARP).any(axis=2).sum(axis=1) * WARP + (0 if silent is None else silent)
        done = here.any(axis=1) & np.where(counted, warps >= wanted, come >= living)
        if not done.any():
            continue
        lanes = np.flatnonzero(here & done[:, None])
        if not counted[done].any():
            _check_all_arrive(batch, lanes, int(batch.pc[lanes[0]]))
        if silent is not None:
            silent[done] = 0
            if not silent.any():
                del batch.arrived[number]
        _check_converged(batch, lanes)
        pcs = batch.pc[lanes]
        for pc in np.unique(pcs).tolist():
            if pc in batch.program.finish:
                batch.program.finish[pc](batch, lanes[pcs == pc])
        batch.pc[lanes] = pcs + 1
        batch.state[lanes] = READY
        batch.ordered(lanes)


def _check_all_arrive(batch: Batch, lanes: np.ndarray, pc: int) -> None:
    """A finding where threads have ended before a barrier of the whole block: nothing promises that it lets the rest go."""
    if not batch.left:
        return
    exist = (batch.lane % batch.padded < batch.geometry.thread_count).reshape(batch.blocks, batch.padded)
    gone = exist & ~batch.alive.reshape(exist.shape)
    gone[~np.isin(np.arange(batch.blocks), lanes // batch.padded)] = False
    span = batch.program.code[pc][1].span
    if gone.any() and not batch.launch.log.known(("barrier", span), int(gone.sum())):
        one, two = batch.thread(int(lanes[0])), batch.thread(int(gone.ravel().argmax()))
        text = f"divergent barrier: {one} waits, {two} has ended before it"
        help = "let all threads of the block reach the barrier"
        batch.launch.log.add(
            ("barrier", span), finding(batch, "barrier", text, span, one, two, help=help), int(gone.sum())
        )


def _check_converged(batch: Batch, lanes: np.ndarray) -> None:
    """A finding where lanes of one warp met at different barriers of the text: the machine does not promise that they do."""
    pcs = np.full(batch.n, -1, np.int64)
    pcs[lanes] = batch.pc[lanes]
    rows = pcs.reshape(-1, WARP)
    high = rows.max(axis=1)
    wrong = ((rows != high[:, None]) & (rows >= 0)).any(axis=1)
    if not wrong.any():
        return
    warp = int(wrong.argmax())
    one = warp * WARP + int(rows[warp].argmax())
    two = warp * WARP + int(((rows[warp] >= 0) & (rows[warp] != high[warp])).argmax())
    span = batch.program.code[int(batch.pc[one])][1].span
    key = ("barrier", span)
    if not batch.launch.log.known(key, int(wrong.sum())):
        threads = (batch.thread(one), batch.thread(two))
        text = f"divergent barrier: {threads[0]} and {threads[1]} wait at different places"
        help = "move the barrier out of the condition, or make the condition the same for all threads of the block"
        batch.launch.log.add(key, finding(batch, "barrier", text, span, *threads, help=help), int(wrong.sum()))


def warp_operation(reading: Reading, run: Run, members: Get | None = None) -> Step:
    """An operation of a warp: it runs when all living lanes that its mask names (``members`` None: all) have come to it."""
    let_through = guard_of(reading)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)

    def operate(batch: Batch, ix: Index, pc: int) -> int | None:
        at = batch.mask(ix)
        where = let_through(batch, ix)
        if where is not True:
            if where is False:
                return pc + 1
            batch.pc[batch.lanes(ix)] = pc + 1
            at = batch.mask(where)
        came_back = (batch.state == AT_WARP) & (batch.pc == pc)
        alone = where is True and not came_back.any()
        if alone and ix is None:
            run(batch, None)
            return pc + 1
        at = at | came_back
        rows = at.reshape(-1, WARP)
        need = batch.alive.reshape(-1, WARP)
        if members is not None:
            lanes = np.flatnonzero(at)
            given = np.zeros(batch.n, np.uint32)
            given[lanes] = members(batch, lanes)
            named = np.bitwise_or.reduce(given.reshape(-1, WARP), axis=1)
            need = need & ((named[:, None] & bits) != 0)
        complete = ~(need & ~rows).any(axis=1)
        go = (rows & complete[:, None]).ravel()
        stay = at & ~go
        batch.state[stay] = AT_WARP
        batch.pc[stay] = pc
        lanes = np.flatnonzero(go)
        if not len(lanes):
            return None
        batch.state[lanes] = READY
        run(batch, batch.narrowed(lanes))
        batch.pc[lanes] = pc + 1
        return pc + 1 if alone and not stay.any() else None

    return operate


@instruction("membar", "fence")
def _fence(reading: Reading) -> Run:
    """Lanes run one instruction after the other, so that what is stored is there for all at once."""
    reading.drop(
        "gl", "cta", "sys", "gpu", "cluster", "sc", "acq_rel", "acquire", "release", "proxy", "async", "alias",
        "async::generic", "global", "shared::cta", "shared::cluster", "mbarrier_init", "tensormap", "generic",
        "async.global", "async.shared::cta", "sync_restrict::shared::cta", "sync_restrict::shared::cluster",
    )  # fmt: skip
    return lambda batch, ix: None


@instruction("createpolicy")
def _policy(reading: Reading) -> Run:
    """A policy for caches, which nothing reads."""
    reading.words.clear()
    put = reading.into(0, TYPES["b64"])
    return lambda batch, ix: put(batch, ix, np.zeros(1, np.uint64))


@instruction("nanosleep", "prefetch", "setmaxnreg", "griddepcontrol")
def _nothing(reading: Reading) -> Run:
    """Hints that change no value."""
    reading.words.clear()
    return lambda batch, ix: None
