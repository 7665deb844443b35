"""Instructions that run beside the threads in groups: copies and products, which each lane commits and waits for itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....support.errors import InterpreterError
from ...expr import Call
from .expressions import ExprCompiler
from .intrinsics import Effect, instruction
from .lanes import Mask
from .wave import Wave

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
