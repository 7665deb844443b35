"""The instruction that a contraction can use to add products of neighbours along the reduction: one of the machine, or the one
that an annotation of the block names.

The weights are then packed in groups, and the elements of the data must lie side by side along the innermost reduction.
"""

from __future__ import annotations

from ..auto_tensorize.dots import Dot, decided_intrinsic, dot_named
from ..infra.backend import Machine
from .contraction import Contraction, extent_of

FAST, SLOW = 1.5, 0.4
"""Steps in the time of one without an instruction, of each that an instruction takes at once."""


def dot_of(contraction: Contraction, machine: Machine) -> Dot | None:
    """The intrinsic for a contraction: types fit, whole groups along the innermost reduction, contiguous in the data."""
    depth, dot = extent_of(contraction.reductions[-1]), _of_types(contraction, machine)
    whole = dot is not None and depth is not None and depth % dot.group == 0
    return dot if whole and contraction.is_contiguous else None


def dot_multiple(contraction: Contraction, machine: Machine) -> tuple[int, float]:
    """The multiple of steps that an intrinsic for the types of a contraction takes, 0 where there is none; how many times as fast
    it is as steps one by one."""
    dot = _of_types(contraction, machine)
    if dot is None:
        return 0, 1.0
    return dot.group, (SLOW if dot.name in machine.slow_intrinsics else FAST) * dot.group


def _of_types(contraction: Contraction, machine: Machine) -> Dot | None:
    lanes, wanted = machine.lanes(contraction.output.dtype.itemsize), decided_intrinsic(contraction.block)
    found = [dot_named(name) for name in (machine.intrinsics if wanted is None else (wanted,))]
    return next(
        (dot for dot in found if dot is not None and dot.types == contraction.types and dot.lanes == lanes), None
    )


__all__ = ["dot_multiple", "dot_of"]
