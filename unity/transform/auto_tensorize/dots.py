"""Dot products: tensor intrinsics ``C[i] += sum of A[k] * B[i, k]`` whose sums stay in registers, read off their descriptions.

Not here: the schedule around them (``transform/default_schedule/contraction_nest.py``). Invariant: an intrinsic of another form
is not a dot product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...ir.analysis.reductions import element_of, reduction_operand
from ...ir.scalar import Mul
from ...ir.stmt import Block
from ..default_schedule.common.choices import INTRINSIC, decisions
from ..schedule.core.tensor_intrin import TensorIntrin
from .pairing import Description, describe


@dataclass(slots=True, frozen=True)
class Dot:
    """A tensor intrinsic ``C[lanes] += A[group] . B[lanes, group]`` by name, and the element types."""

    name: str
    group: int
    lanes: int
    data: str
    weights: str
    output: str

    @property
    def types(self) -> tuple[str, str, str]:
        """Element types of data, weights and output."""
        return self.data, self.weights, self.output


def dot_named(name: str) -> Dot | None:
    """The dot product of a name; None where there is none."""
    found = TensorIntrin.get(name, allow_missing=True)
    return None if found is None else _read(found)


def decided_intrinsic(block: Block) -> str | None:
    """The intrinsic that the annotation of a block asks for."""
    return (decisions(block) or {}).get(INTRINSIC)


@cache
def _read(intrin: TensorIntrin) -> Dot | None:
    found = describe(intrin.desc)
    if not isinstance(found, Description) or [axis.kind for axis in found.block.iter_vars] != ["S", "R"]:
        return None
    term, (lane, step) = reduction_operand(found.store), [axis.var for axis in found.block.iter_vars]
    if not isinstance(term, Mul) or found.store.buffer.scope != "local" or found.store.indices != (lane,):
        return None
    loads = {
        load.indices: load.buffer.dtype.name for load in (element_of(term.a), element_of(term.b)) if load is not None
    }
    if set(loads) != {(step,), (lane, step)}:
        return None
    lanes, group = found.extents
    return Dot(intrin.name, group, lanes, loads[(step,)], loads[lane, step], found.store.buffer.dtype.name)
