"""The table of instructions: for each opcode a builder that turns one instruction of a program into a closure over lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine.batch import Batch, Index
from ..machine.link import Program
from ..machine.reading import Get, Reading, Run
from ..machine.undefined import flow_of
from ..ptx.types import Type

Builder = Callable[[Reading], Run]
Step = Callable[[Batch, Index, int], "int | None"]
"""A control instruction: given lanes and its address, the address where they go on together, or None where they part or wait."""
Control = Callable[[Reading], Step]

PLAIN: dict[str, Builder] = {}
CONTROL: dict[str, Control] = {}


def instruction(*opcodes: str) -> Callable[[Builder], Builder]:
    """Add a builder for some opcodes."""

    def add(build: Builder) -> Builder:
        for opcode in opcodes:
            PLAIN[opcode] = build
        return build

    return add


def control(*opcodes: str) -> Callable[[Control], Control]:
    """Add a builder of control instructions."""

    def add(build: Control) -> Control:
        for opcode in opcodes:
            CONTROL[opcode] = build
        return build

    return add


def guarded(reading: Reading, run: Run) -> Run:
    """The instruction for those lanes whose guard holds."""
    if reading.instruction.guard is None:
        return run
    let_through = guard_of(reading)

    def only(batch: Batch, ix: Index) -> None:
        where = let_through(batch, ix)
        if where is not False:
            run(batch, ix if where is True else where)

    return only


def guard_of(reading: Reading) -> Callable[[Batch, Index], bool | np.ndarray]:
    """The lanes of an index that the guard of an instruction lets through: True for all, False for none."""
    guard = reading.instruction.guard
    if guard is None:
        return lambda batch, ix: True
    holds = reading.predicate(guard)
    return lambda batch, ix: _holding(batch, ix, holds)


def _holding(batch: Batch, ix: Index, holds: Get) -> bool | np.ndarray:
    found = holds(batch, ix)
    if len(found) == 1:
        return bool(found[0])
    if ix is None and batch.everyone is not None:
        ix = batch.everyone
        found = found[ix]
    lanes = np.flatnonzero(found)
    if len(lanes) == len(found):
        return True
    if not len(lanes):
        return False
    return lanes if ix is None else ix[lanes]


def compute(reading: Reading, run: Callable[..., np.ndarray], result: Type, *operands: Type) -> Run:
    """The instruction ``d = run(a, b, ...)`` with the types of its operands."""
    reading.count(1 + len(operands))
    put = reading.into(0, result)
    gets = [reading.value(k + 1, t) for k, t in enumerate(operands)]
    if len(gets) == 1:
        (a,) = gets
        return lambda batch, ix: put(batch, ix, run(a(batch, ix)))
    if len(gets) == 2:
        a, b = gets
        return lambda batch, ix: put(batch, ix, run(a(batch, ix), b(batch, ix)))
    return lambda batch, ix: put(batch, ix, run(*[get(batch, ix) for get in gets]))


def compile_program(program: Program) -> None:
    """Fill in what each instruction of a linked program does. Raises InterpreterError E390 for what is not modelled."""
    retiring = [
        pc
        for pc, (linked, one) in enumerate(program.code)
        if one.opcode in ("ret", "exit") and one.guard is None and (linked.function.entry or one.opcode == "exit")
    ]
    program.retiring = frozenset(retiring)
    for pc, (linked, one) in enumerate(program.code):
        reading = Reading(program, linked, one, pc)
        if one.opcode in CONTROL:
            program.control[pc] = CONTROL[one.opcode](reading)
            program.plain.append(None)
        elif one.opcode in PLAIN:
            program.plain.append(guarded(reading, PLAIN[one.opcode](reading)))
        else:
            raise reading.refuse()
        if reading.words:
            raise reading.refuse(f".{reading.words[0]} is not known here")
        program.flows.append(flow_of(reading, pc in program.control))
    end = len(program.code)
    program.ends = [end] * (end + 1)
    for pc in range(end - 1, -1, -1):
        program.ends[pc] = pc if pc in program.control else program.ends[pc + 1]
    program.control[end] = _fell_off


def _fell_off(batch: Batch, ix: Index, pc: int) -> None:
    batch.leave(batch.lanes(ix))
