"""Instructions of the lanes of a kernel: their frame, addresses and atomic updates, and groups.

Copies and products run beside the threads in groups, which each lane commits and waits for itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....support.errors import InterpreterError
from ...build import dtype_of
from ...expr import Call
from ...scalar import BufferLoad
from ...types import pointed
from ..common.arrays import Value
from ..common.expressions import Closure
from .access import array_of
from .expressions import ExprCompiler
from .lanes import Mask
from .memory import Address
from .wave import Wave

INTRINSICS = ExprCompiler.intrinsics
register = INTRINSICS.register
NOTHING = np.int32(0)
"""The value of an instruction that has none."""
Effect = Callable[[Mask], object]
Maker = Callable[[ExprCompiler, Call], Effect]


def instruction(*names: str) -> Callable[[Maker], Maker]:
    """Give intrinsics without a value their meaning: what lanes, of which there is one at least, do."""

    def add(make: Maker) -> Maker:
        @register(*names)
        def closure(compiler: ExprCompiler, call: Call) -> Closure:
            effect = make(compiler, call)

            def run(mask: Mask) -> Value:
                if mask.count:
                    effect(mask)
                return NOTHING

            return run

        return make

    return add


@register("address_of")
def _address_of(compiler: ExprCompiler, call: Call) -> Closure:
    load = call.args[0]
    if type(load) is not BufferLoad:
        raise compiler.undefined("T.address_of takes a buffer element", call)
    indices = [compiler.index(i) for i in load.indices]
    buffer, wave = load.buffer, compiler.wave

    def run(mask: Mask) -> Address:
        array = array_of(wave, buffer, call.span)
        offset = array.base
        for index, stride in zip(indices, array.strides):
            offset = offset + index(mask) * stride
        return Address(array.storage, array.start + offset * array.dtype.itemsize)

    return run


@register("atomic_add")
def _atomic_add(compiler: ExprCompiler, call: Call) -> Closure:
    address, value = compiler.address(call.args[0], call), compiler.visit(call.args[1])
    dtype = pointed(call.args[0].ty) or dtype_of(call.args[1])
    wave = compiler.wave
    load = call.args[0].args[0] if type(call.args[0]) is Call and type(call.args[0].args[0]) is BufferLoad else None
    name, scope = (load.buffer.name, load.buffer.scope) if load is not None else ("pointer", "global")
    site = wave.log.site(name, "atomic", scope, call.span, atomic=True)
    size = dtype.itemsize

    def run(mask: Mask) -> Value:
        target: Address = address(mask)
        storage = target.storage
        if load is not None:
            wave.array = array_of(wave, load.buffer, call.span)
        lanes, every = mask.index, wave.rows(target.offset)
        offsets = every[lanes]
        wrong = (offsets < 0) | (offsets + size > storage.limit)
        wave.refuse(wrong, lanes, "E310", call.span, lambda _: "atomic access outside the memory")
        wave.count(site, storage, every, mask, size)
        elements = storage.element_indices(offsets, size, lanes)
        added = np.broadcast_to(np.asarray(value(mask)), wave.batch.size)[lanes]
        before = wave.accesses.load(storage, offsets, lanes, dtype, site)
        order = np.argsort(elements, kind="stable")
        cells = storage.typed(dtype)
        old = before.copy()
        if np.unique(elements).size == elements.size:
            cells[elements] = before + added
        else:  # one lane after the other, in order of the lanes
            for k in order.tolist():
                old[k] = cells[elements[k]]
                cells[elements[k]] = old[k] + added[k]
        found = np.zeros(wave.batch.size, dtype.numpy)
        found[lanes] = old
        return found

    return run


Done = Callable[[np.ndarray], None]
"""Called when some of the lanes that began an instruction have waited for it, with which of them."""


class Groups:
    """Instructions of one kind under way in a batch of ``size`` lanes."""

    def __init__(self, size: int) -> None:
        self._commits = np.zeros(size, np.int64)
        self._begun: list[tuple[np.ndarray, np.ndarray, np.ndarray, Done]] = []
        """Lanes, the group of each, whether it is still under way, and what happens at its end."""

    def begin(self, lanes: np.ndarray, done: Done) -> None:
        """Lanes begin an instruction."""
        self._begun.append((lanes, self._commits[lanes], np.ones(len(lanes), np.bool_), done))

    def commit(self, lanes: np.ndarray) -> None:
        """Lanes commit what they have begun as a group."""
        self._commits[lanes] += 1

    def wait(self, mask: Mask, left: int) -> None:
        """Finish all groups of some lanes but their last ``left``; -1: what is not committed, too."""
        ends = np.where(mask.lanes, self._commits - left, 0)
        for lanes, group, under_way, done in self._begun:
            due = under_way & (group < ends[lanes])
            if due.any():
                under_way[due] = False
                done(due)
        self._begun = [one for one in self._begun if one[2].any()]


class Copies(Groups):
    """Copies to shared memory (``cp.async``)."""


class Stores(Groups):
    """Copies from shared to global memory (bulk): shared memory may be read until their end."""


class Products(Groups):
    """Products of warpgroups, by the first lanes of their warps."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.sums: dict[tuple[int, int], int] = {}
        """Products under way on the sums of a memory, by a warp."""


def group_calls(
    prefix: str,
    kind: type[Groups],
    lanes: Callable[[Wave, Mask, Call], np.ndarray] = lambda wave, mask, call: mask.index,
) -> None:
    """Give ``T.<prefix>_commit_group`` and ``T.<prefix>_wait_group`` their meaning, by the lanes that take part."""

    @instruction(f"{prefix}_commit_group")
    def commit(compiler: ExprCompiler, call: Call) -> Effect:
        wave = compiler.wave
        return lambda mask: wave.record(kind, wave.batch.size).commit(lanes(wave, mask, call))

    @instruction(f"{prefix}_wait_group")
    def wait(compiler: ExprCompiler, call: Call) -> Effect:
        wave, left = compiler.wave, getattr(call.args[0], "value", None)
        if not isinstance(left, int) or left < 0:
            raise InterpreterError("E372", f"{call.op_name} takes a constant number of groups", call.span)

        def run(mask: Mask) -> None:
            lanes(wave, mask, call)
            wave.record(kind, wave.batch.size).wait(mask, left)

        return run
