"""Grades: how a step's correctness is known. A step whose conditions were all proved is ``proved``; one that rests on
an assumption is tested in the reference interpreter and ``tested(seed)``, or refused when the test fails or would take
too long.

Not here: the proofs. A primitive that cannot prove a condition calls ``state.assumptions.append("what is assumed")``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ....arith import Analyzer
from ....arith.evaluate import evaluate
from ....arith.index_map import IndexMap
from ....ir.build import const, dtype_of, int_value
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.interpret import run
from ....ir.module import IRModule
from ....ir.stmt import For, Stmt
from ....ir.types import Expr, PrimType
from ....ir.walk import substitute
from ....support.errors import UnityError
from ..core.refuse import refuse
from ..core.sref import items_below
from ..core.state import ScheduleState
from ..rewrites.parameter_layout import Pad

MAX_ITERATIONS = 200_000
"""Innermost iterations of a function that may be tested: the interpreter runs about a million a second."""
RUNS = ((3, 8), (5, 2), (8, 8))
"""Free sizes of the runs, and below what integers lie: few of them, and many cells hold the same one."""


def check(state: ScheduleState, assumptions: list[str]) -> int:
    """Run the functions the step changed, before and after, on random arguments; the seed. Refuses E404 on a
    difference, or when the step rests on assumptions and the program is too large to run."""
    said = "; ".join(assumptions)
    for name, root in state.roots.items():
        after, before = state.function(name), state.before(name)
        if after is before:
            continue
        runs = 0
        for seed, (size, below) in enumerate(RUNS):
            args = arguments(before, np.random.default_rng(seed), size, below)
            if args is None or _iterations(before, args) > MAX_ITERATIONS:
                if not assumptions:
                    break  # asked for by the debug mask alone
                text = f"it is not proved that {said}, and the program is too large to test it"
                refuse(
                    "E404",
                    text,
                    "tested equal",
                    root,
                    "a step that can be proved, or the same on the program with smaller extents",
                )
            first = _results(before, name, args)
            if isinstance(first, str):
                continue  # the program itself cannot run on these arguments
            runs += 1
            difference = compare(first, _relaid_results(state, before, after, name, args), seed)
            if difference is not None:
                text = f"the program computes something else after the step: {difference}"
                refuse(
                    "E404",
                    f"{text} (assumed: {said})" if said else text,
                    "tested equal",
                    root,
                    "leave the order as it is: something in the program depends on it",
                )
        if assumptions and not runs:
            refuse("E404", f"it is not proved that {said}, and the program did not run on random arguments",
                   "tested equal", root,
                   "constant extents and factors that divide, for which the step can be proved")  # fmt: skip
    return 0


def compare(first: list[np.ndarray], second: list[np.ndarray] | str, seed: int) -> str | None:
    """The first difference of two runs, in words; None when they agree."""
    if isinstance(second, str):
        return second
    for position, (x, y) in enumerate(zip(first, second)):
        if not np.allclose(x.astype("float64"), y.astype("float64"), rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"argument {position} differs with seed {seed}"
    return None


def _results(fn: PrimFunc, name: str, args: list[Any]) -> list[np.ndarray] | str:
    given = copy.deepcopy(args)
    try:
        run(IRModule({name: fn}, {}, {}), name, *given)
    except UnityError as error:
        return error.message
    return [a for a in given if isinstance(a, np.ndarray)]


def _relaid_results(
    state: ScheduleState, before: PrimFunc, after: PrimFunc, name: str, args: list[Any]
) -> list[np.ndarray] | str:
    """Results of the function after the step on the same arguments, those of another layout moved there and back."""
    given, cell_positions = list(args), {}
    sizes = _sizes(before, args)
    for relaid in [r for r in state.relaid if r.func == name]:
        index, pad = before.params.index(relaid.param), relaid.pad_value
        array = args[index]
        shape = [Analyzer().simplify(substitute(n, sizes)) for n in after.buffer_map[relaid.param].shape]
        indices = tuple([substitute(e, sizes) for e in relaid.index_map.final_indices])
        cell_positions[index] = IndexMap(relaid.index_map.initial_indices, indices).cell_positions(array.shape)
        extents = [n.value for n in shape if type(n) is IntImm]
        given[index] = np.fromfunction(_at(pad), extents, dtype="int64").astype(array.dtype)
        given[index][cell_positions[index]] = array.ravel()
    found = _results(after, name, given)
    if isinstance(found, str):
        return found
    arrays = [k for k, argument in enumerate(given) if isinstance(argument, np.ndarray)]
    return [x[cell_positions[k]].reshape(args[k].shape) if k in cell_positions else x for k, x in zip(arrays, found)]


def _at(pad: Pad) -> Callable[..., np.ndarray]:
    """The pad value at cells, given by their indices."""

    def value(*cell: np.ndarray) -> np.ndarray:
        if not isinstance(pad, IndexMap):
            return np.full(cell[0].shape if cell else (), pad or 0)
        one = np.vectorize(
            lambda *at: evaluate(pad.final_indices[0], dict(zip(pad.initial_indices, at))), otypes=["int64"]
        )
        return np.asarray(one(*cell))

    return value


def _sizes(fn: PrimFunc, args: list[Any]) -> dict[Var, Expr]:
    """The sizes that arguments give."""
    bound = [(fn.buffer_map.get(param), value) for param, value in zip(fn.params, args)]
    pairs = [(d, n) for buffer, value in bound if buffer is not None for d, n in zip(buffer.shape, value.shape)]
    return {d: const(n, dtype_of(d)) for d, n in pairs if isinstance(d, Var)}


def arguments(fn: PrimFunc, rng: np.random.Generator, size: int, below: int = 8) -> list[Any] | None:
    """Random arguments of a tensor program, each free size ``size``, integers from zero up; None when they cannot be made."""
    symbols: dict[Var, Expr] = {}
    for buffer in fn.buffer_map.values():
        for dim in (*buffer.shape, *buffer.strides):
            if isinstance(dim, Var):
                symbols.setdefault(dim, const(size, dtype_of(dim)))
    found: list[Any] = []
    for param in fn.params:
        buffer = fn.buffer_map.get(param)  # type: ignore[assignment]
        if buffer is None:
            if not isinstance(param.ty, PrimType) or param.ty.dtype.code == "handle":
                return None
            symbols.setdefault(param, const(size, param.ty.dtype))
            found.append(size)
            continue
        shape = [Analyzer().simplify(substitute(dim, symbols)) for dim in buffer.shape]
        if any([type(dim) is not IntImm for dim in shape]):
            return None
        extents = [dim.value for dim in shape]  # type: ignore[attr-defined]
        if any([n < 0 for n in extents]):
            return None
        if buffer.dtype.is_float:
            found.append(np.asarray(rng.integers(-16, 16, extents) / 4).astype(buffer.dtype.numpy))
        else:
            found.append(
                np.asarray(rng.integers(0, 2 if buffer.dtype.is_bool else below, extents)).astype(buffer.dtype.numpy)
            )
    return found


def _iterations(fn: PrimFunc, args: list[Any]) -> int:
    """An upper estimate of innermost iterations; a loop of unknown extent counts the largest dimension."""
    longest = max([n for a in args if isinstance(a, np.ndarray) for n in a.shape] or [1])

    def visit(stmt: Stmt) -> int:
        inner = sum([visit(item) for item in items_below(stmt)])
        if type(stmt) is not For:
            return max(inner, 1)
        return max(inner, 1) * (int_value(stmt.extent, longest))

    return visit(fn.body)
