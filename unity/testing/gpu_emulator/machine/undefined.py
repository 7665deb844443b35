"""Undefined values: read where nothing was stored. A load alone does no harm, and compilers put loads ahead of loops that may not
turn; a value is told of where it is used: stored, compared for a branch, part of an address, exchanged with other lanes.

A load that finds undefined bytes notes the lanes of its destination in ``Batch.undefined`` and raises Undefined when it is done.
From then on the scheduler goes instruction by instruction (``run_tracked``) until nothing is undefined; others pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..ptx.program import Instruction, Memory, Number, Operand, Pair, Register, Vector
from .batch import Batch, Index
from .reading import Get, Reading, each

Rows = np.ndarray
_NO_RESULT = frozenset((
    "st", "red", "cp", "bra", "brx", "ret", "exit", "trap", "call", "bar", "barrier", "stmatrix", "membar", "fence", "prefetch",
    "setmaxnreg", "nanosleep", "griddepcontrol",
))  # fmt: skip
_USES = frozenset(("st", "atom", "red", "cp", "ld"))
"""Instructions that use what they read, besides all that may part lanes or belong to several; others hand it on."""


WHOLE = 0xFF
"""All bytes of a register."""
_NONE = np.zeros(0, np.uint8)


class Undefined(Exception):
    """A load at an address has recorded undefined values; it has been carried out."""

    def __init__(self, pc: int) -> None:
        super().__init__(pc)
        self.pc = pc


@dataclass(slots=True, frozen=True)
class Flow:
    """Registers that an instruction reads and writes, by their slots. ``choice``: the predicate by which it takes its first or
    second source; ``neutral``: of a logical operation on two predicates the value that leaves the other one as it is; ``bytes``:
    of an instruction that only moves bytes, for each result where its bytes come from, counted by 8 for each source."""

    instruction: Instruction
    sources: tuple[int | None, ...]
    results: tuple[int, ...]
    uses: bool
    guard: Get | None = None
    guard_slot: int | None = None
    choice: Get | None = None
    neutral: bool | None = None
    values: tuple[Get, ...] = ()
    bytes: tuple[tuple[int, ...], ...] = ()


def _registers(operand: Operand) -> Iterator[Register]:
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _registers(item)
    elif isinstance(operand, Memory):
        yield from _registers(operand.base)
        for item in operand.coordinates:
            yield from _registers(item)
    elif isinstance(operand, Pair):
        yield from _registers(operand.first)
        yield from _registers(operand.second)


def slot_of(reading: Reading, operand: Operand) -> int | None:
    """The slot of an operand that is a register."""
    return reading.linked.slots + operand.slot if isinstance(operand, Register) else None


def flow_of(reading: Reading, control: bool) -> Flow:
    """The registers of an instruction; ``control``: it may part lanes, or several lanes carry it out together."""
    one, first = reading.instruction, reading.linked.slots
    writes = bool(one.operands) and one.opcode not in _NO_RESULT and not isinstance(one.operands[0], Memory)
    sources: list[int | None] = [first + r.slot for operand in one.operands[writes:] for r in _registers(operand)]
    results = [first + r.slot for operand in one.operands[:writes] for r in _registers(operand)]
    guard = reading.predicate(one.guard) if one.guard is not None else None
    slot = first + one.guard.slot if one.guard is not None else None
    choice: Get | None = None
    neutral: bool | None = None
    values: tuple[Get, ...] = ()
    moved: tuple[tuple[int, ...], ...] = ()
    if one.opcode == "prmt" and one.modifiers == ("b32",) and isinstance(picks := one.operands[3], Number):
        taken = [picks.value >> 4 * digit & 7 for digit in range(4)]
        moved = (tuple([byte & 3 | (byte & 4) << 1 for byte in taken]),)
    if one.opcode in ("selp", "prmt") or (
        one.opcode in ("and", "or") and "pred" in one.modifiers
    ):  # each operand has its digit
        sources = [slot_of(reading, part) for part in one.operands[1:]]
    elif one.opcode == "mov" and one.modifiers[-1] in ("b16", "b32", "b64"):
        sources, moved = _move_sources(reading, int(one.modifiers[-1][1:]) // 8)
    if one.opcode == "selp":
        choice = reading.predicate(3)
    elif one.opcode in ("and", "or") and "pred" in one.modifiers:
        neutral, values = one.opcode == "and", (reading.predicate(1), reading.predicate(2))
    uses = control or one.opcode in _USES
    return Flow(one, tuple(sources), tuple(results), uses, guard, slot, choice, neutral, values, moved)


def _move_sources(reading: Reading, size: int) -> tuple[list[int | None], tuple[tuple[int, ...], ...]]:
    """The sources of a move, whole, into parts or out of such, and where the bytes of its results come from."""
    into, out_of = reading.items(0), reading.items(1)
    each = size // len(out_of)
    pool = [8 * source + byte for source in range(len(out_of)) for byte in range(each)]
    each = size // len(into)
    parts = [(one, tuple(pool[each * digit : each * digit + each])) for digit, one in enumerate(into)]
    kept = tuple([part for one, part in parts if isinstance(one, Register)])
    return [slot_of(reading, one) for one in out_of], kept


Tell = Callable[[Instruction, Rows], None]
"""Tells that lanes use a value, at an instruction."""


def mark_undefined(batch: Batch, slot: int, lanes: Rows, tell: Tell, parts: Rows) -> None:
    """A register of some lanes holds undefined values. ``parts``: a bit for each undefined byte."""
    known = batch.undefined.get(slot)
    mask = known[0].copy() if known is not None else np.zeros(batch.n, np.uint8)
    mask[lanes] |= parts
    batch.undefined[slot] = (mask, tell)


def run_tracked(batch: Batch, ix: Index, start: int, end: int) -> None:
    """Run instructions one by one, and follow undefined values."""
    plain, flows = batch.program.plain, batch.program.flows
    for pc in range(start, end):
        bad, parts, tell = before(batch, ix, flows[pc])
        try:
            plain[pc](batch, ix)
        except Undefined:
            continue
        if tell is not None:
            for slot, row in zip(flows[pc].results, parts):
                mark_undefined(batch, slot, bad, tell, row)


def before(batch: Batch, ix: Index, flow: Flow) -> tuple[Rows, Rows, Tell | None]:
    """Tell of the undefined values that an instruction uses. Gives the lanes whose results are undefined, for each result which
    bytes of them, and who tells of them: None where there are none."""
    undefined = batch.undefined
    if not undefined:
        return _NONE, _NONE, None
    lanes = batch.lanes(ix)
    if flow.guard is not None:
        if flow.guard_slot in undefined:
            _used(batch, flow.guard_slot, lanes, flow.instruction)
        lanes = lanes[each(flow.guard, batch, lanes)]
    hot = [slot for slot in flow.sources if slot is not None and slot in undefined]
    parts, tell = np.zeros((len(flow.results), len(lanes)), np.uint8), None
    if hot and flow.uses:
        for slot in hot:
            _used(batch, slot, lanes, flow.instruction)
    elif hot:
        tell = undefined[hot[0]][1]
        parts[...] = _propagated(batch, flow, lanes)
    for slot in flow.results:
        known = undefined.get(slot)
        if known is not None:
            mask = known[0].copy()
            mask[lanes] = 0
            _keep(batch, slot, mask, known[1])
    hit = parts.any(axis=0)
    return lanes[hit], parts[:, hit], tell if hit.any() else None


def _propagated(batch: Batch, flow: Flow, lanes: Rows) -> Rows:
    """The bytes, as bits, of which an instruction gives an undefined value in each lane; a row for each result, or one for all."""
    marks = [_marks(batch, slot, lanes) for slot in flow.sources]
    if flow.bytes:
        return np.array([
            np.bitwise_or.reduce([(marks[at >> 3] >> (at & 7) & 1) << digit for digit, at in enumerate(taken)])
            for taken in flow.bytes
        ], np.uint8)  # fmt: skip
    flags = [mark != 0 for mark in marks]
    if flow.choice is not None:
        found = np.where(each(flow.choice, batch, lanes), flags[0], flags[1]) | flags[2]
    elif flow.neutral is not None:
        (a, b), (x, y) = flags, [each(get, batch, lanes) for get in flow.values]
        found = (a & (b | (y == flow.neutral))) | (b & (a | (x == flow.neutral)))
    else:
        found = np.logical_or.reduce(flags)
    whole: Rows = np.where(found, np.uint8(WHOLE), np.uint8(0))
    return whole


def _marks(batch: Batch, slot: int | None, lanes: Rows) -> Rows:
    known = batch.undefined.get(slot) if slot is not None else None
    return known[0][lanes] if known is not None else np.zeros(len(lanes), np.uint8)


def _used(batch: Batch, slot: int | None, lanes: Rows, instruction: Instruction) -> None:
    """Tell of the lanes that use a register; it is told once."""
    assert slot is not None
    mask, tell = batch.undefined[slot]
    mine = lanes[mask[lanes] != 0]
    if len(mine):
        tell(instruction, mine)
        rest = mask.copy()
        rest[mine] = 0
        _keep(batch, slot, rest, tell)


def _keep(batch: Batch, slot: int, mask: Rows, tell: Tell) -> None:
    if mask.any():
        batch.undefined[slot] = (mask, tell)
    else:
        batch.undefined.pop(slot, None)
