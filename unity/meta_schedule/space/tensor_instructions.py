"""``TensorInstructions``: the rule that computes a block by a tensor intrinsic, through any map of its iterators.

It is for what the rules of default schedules do not give to an intrinsic: operands that lie otherwise, extents that are not
multiples, contractions of any kind. How many applications share what they read is sampled. Not here: how iterators are matched
(``transform/auto_tensorize``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ffi.native.pool import num_threads
from ...ir.build import int_value
from ...ir.stmt import Block
from ...support.errors import ScheduleError
from ...target.tensor_intrin.amx import KINDS, SIDE, group_of
from ...transform.auto_tensorize.schedule import auto_tensorize
from ...transform.schedule import BlockRV, Schedule
from ...transform.schedule.core.tensor_intrin import TensorIntrin

SIDE_BY_SIDE = 8
"""Applications along one loop that share what they read, at most."""
DEEPEST = 1024
"""Elements along the reduction of a block of tiles, at most."""
_TILES = {f"amx_{kind}": kind for kind in KINDS}


class TensorInstructions:
    """Gives a schedule as it is, and one for each of ``intrinsics`` that computes the block: names, or kinds of blocks of AMX tiles
    (``amx_bf16bf16f32``), which take the block's depth; names that nobody registered count for nothing."""

    def __init__(self, intrinsics: Sequence[str]) -> None:
        self.intrinsics = [
            name for name in intrinsics
            if name in _TILES or TensorIntrin.get(name, allow_missing=True) is not None
        ]  # fmt: skip

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules."""
        found = [sch]
        if sch.get(block).init is None:
            return found
        for name in [_of_depth(name, sch.get(block)) if name in _TILES else name for name in self.intrinsics]:
            made = sch.copy()
            try:
                _share(made, auto_tensorize(made, block, name, SIDE_BY_SIDE))
            except ScheduleError:
                continue
            found.append(made)
        return found


def _of_depth(name: str, block: Block) -> str:
    """The intrinsic of a block of tiles whose depth goes into the reductions together, rounded up, with the fewest steps; where it
    can be, of whole lines of the innermost one."""
    kind = _TILES[name]
    step = SIDE * group_of(kind)
    extents = [int_value(axis.domain.extent, 1) for axis in block.iter_vars if axis.kind == "R"]
    steps = -(-prod(extents) // step)
    depths = [n * step for n in range(1, DEEPEST // step + 1) if steps % n == 0] or [step]
    most = max(depths, key=lambda depth: (depth % max([1, *extents[-1:]]) == 0, depth))
    return f"amx_{2 * SIDE}x{2 * SIDE}x{most}_{kind}"


def _share(sch: Schedule, applied: BlockRV) -> None:
    """Share the outermost loop that turns between threads, where there are several."""
    turning = [loop for loop in sch.get_loops(applied) if int_value(sch.get(loop).extent) != 1]
    if turning and num_threads() > 1:
        sch.parallel(turning[0])


__all__ = ["TensorInstructions"]
