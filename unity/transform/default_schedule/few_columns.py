"""The rule for products of few columns: each output is a dot product along the reduction, with weights laid out for that at build.

Rewrite: ``Y[i, j] += X[i, k] * W[k, j]`` of fewer columns than a vector has lanes -> ``Y[i, j] += X[i, k] * W_lines[j, 0, k]``.
Vectors along columns would be part empty, and a step of them would take as long as one of whole vectors. The nest is left to the
pass that makes vectors along reductions (``vectorize_reductions``), so the program is not marked as scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ...ir.buffer import make_buffer
from ...ir.build import const, dtype_of, int_value
from ...ir.function import PrimFunc, may_alias
from ...ir.node import replace
from ...ir.scalar import BufferLoad
from ...ir.stmt import Block
from ...ir.types import Expr
from ...ir.walk import collect, rewrite
from ..infra.backend import Machine
from ..tir.analysis.loop_nests import stride_class
from .base import Rule, Scheduled
from .common.choices import choose_whether
from .common.tile_shape import LATENCY, UNKNOWN
from .contraction import Contraction, contraction_of, extent_of, is_parameter, steps_of
from .packing import Packing
from .split_reductions import schedule_split


def schedule_few_columns(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Lay out the weights of a product of few columns along its reduction, and split it where it is long."""
    if may_alias(fn):
        return "its arguments may share memory"
    contractions = [found for found in map(contraction_of, collect(fn.body, Block)) if isinstance(found, Contraction)]
    if len(contractions) != 1:
        return "not one contraction"
    (contraction,) = contractions
    place = is_parameter(fn, contraction.weights.buffer)
    if place not in constants or place is None or len(contraction.weight_order) < len(contraction.weights.indices):
        return "weights that are not constant"
    if len([load for load in collect(fn.body, BufferLoad) if load.buffer is contraction.weights.buffer]) != 1:
        return "its weights are read elsewhere too"
    gain = _gain(contraction, machine)
    if gain is None or not choose_whether(contraction.block, "dots", gain > 1.0):
        return "vectors along its columns take fewer steps"
    made, layout = _along_reduction(fn, contraction, place, machine)
    split = schedule_split(made, constants, machine)
    said = f"{split.reason}, " if isinstance(split, Scheduled) else ""
    func = split.func if isinstance(split, Scheduled) else made
    return Scheduled(func, f"{said}weights along the reduction", {place: layout})


def _gain(contraction: Contraction, machine: Machine) -> float | None:
    """Cycles of vectors along columns by those of vectors along the reduction; None where only the first are possible."""
    steps, width = contraction.reductions[-1], extent_of(contraction.columns)
    lanes, depth = machine.lanes(contraction.output.dtype.itemsize), extent_of(steps)
    if (
        len(set(contraction.types)) > 1
        or contraction.output.dtype.bits < 32
        or width is None
        or not 1 < width < lanes
        or depth is None
    ):
        return None
    if None in [int_value(extent) for extent in contraction.weights.buffer.shape]:
        return None
    if stride_class(contraction.data, steps.var) != 1 or stride_class(contraction.weights, steps.var) == 1:
        return None
    lines = steps_of([*contraction.rows, *contraction.batch], UNKNOWN)
    along, outside = steps_of(contraction.reductions, UNKNOWN), steps_of(contraction.reductions[:-1], UNKNOWN)
    columns = along * max(lines / 2, LATENCY)
    loads = 2 / math.sqrt(machine.accumulators)  # of a square tile, two cycles each where lines are split
    join = 2 * math.log2(lanes) - 1
    return columns / (lines * width * (outside * -(-depth // lanes) * max(0.5, loads) + join))


def _along_reduction(fn: PrimFunc, contraction: Contraction, place: int, machine: Machine) -> tuple[PrimFunc, Packing]:
    """The program with its weights as lines along the innermost reduction, a whole number of vectors each."""
    order = {var: axis for axis, var in enumerate(contraction.weight_order)}
    *others, steps = contraction.reductions
    outer = [order[axis.var] for axis in (*contraction.batch, contraction.columns)]
    lanes, depth = machine.lanes(contraction.output.dtype.itemsize), extent_of(steps) or 0
    inner = tuple([order[axis.var] for axis in others])
    layout = Packing(tuple(outer), order[steps.var], inner, -(-depth // lanes) * lanes)
    weights, indices = contraction.weights, contraction.weights.indices
    shape = layout.shape(tuple([int_value(extent, 0) for extent in weights.buffer.shape]))
    lines = make_buffer(f"{weights.buffer.name}_lines", weights.buffer.dtype, shape, "global")
    zero = const(0, dtype_of(steps.var))
    cell: tuple[Expr, ...] = (*[indices[k] for k in outer], zero, *[axis.var for axis in others], steps.var)
    read = BufferLoad(lines, cell, weights.ty)
    body = rewrite(fn.body, {BufferLoad: lambda load: read if load.buffer is weights.buffer else load})
    return replace(fn, body=body, buffer_map={**fn.buffer_map, fn.params[place]: lines}), layout


FEW_COLUMNS = Rule("few columns", schedule_few_columns)
