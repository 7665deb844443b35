"""Instructions that add products of neighbours along the reduction: which one a contraction can use.

A dot product of ``group`` elements per 32-bit lane: pairs of bfloat16 into float32, groups of four bytes (unsigned by signed) into
int32. The weights are then packed in groups, and the elements of the data must lie side by side along the innermost reduction.
Not here: the schedule (``matmul.py``). Invariant: a contraction that has no such instruction keeps the plain schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..infra.backend import Machine
from ..schedule.core.tensor_intrin import TensorIntrin
from .contraction import Contraction, extent_of


@dataclass(slots=True, frozen=True)
class Dot:
    """A tensor intrinsic ``C[lanes] += A[group] . B[lanes, group]`` by name."""

    name: str
    group: int
    lanes: int
    data: str
    weights: str
    output: str


DOTS = (
    Dot("dot_16x2_bf16_avx512_local", 2, 16, "bfloat16", "bfloat16", "float32"),
    Dot("dot_16x4_vnni_local", 4, 16, "uint8", "int8", "int32"),
)


def dot_of(what: Contraction, machine: Machine) -> Dot | None:
    """The intrinsic for a contraction: types fit, whole groups along the innermost reduction, contiguous in the data."""
    innermost, indices = what.reductions[-1], what.data.indices
    depth = extent_of(innermost)
    dot = _of_types(what, machine)
    contiguous = bool(indices) and not what.data.buffer.strides and indices[-1] is innermost.var
    return dot if dot is not None and contiguous and depth is not None and depth % dot.group == 0 else None


def dot_multiple(what: Contraction, machine: Machine) -> tuple[int, float]:
    """The multiple of steps that an intrinsic for the types of a contraction takes, 0 where there is none; how many times as fast
    it is as steps one by one."""
    dot = _of_types(what, machine)
    return (0, 1.0) if dot is None else (dot.group, 1.5 * dot.group)


def _of_types(what: Contraction, machine: Machine) -> Dot | None:
    types = tuple([b.dtype.name for b in (what.data.buffer, what.weights.buffer, what.output)])
    for dot in DOTS:
        if types == (dot.data, dot.weights, dot.output) and dot.name in machine.intrinsics:
            if TensorIntrin.get(dot.name, allow_missing=True) is not None:
                return dot
    return None
