"""Grades: how a step's correctness is known. A step whose conditions were all proved is ``proved``; one that rests on
an assumption is tested in the reference interpreter and ``tested``, or refused when the test fails or would take
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
from ....ir.build import const, dtype_of, int_value, int_values
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.interpret import run
from ....ir.module import IRModule
from ....ir.stmt import For, Stmt
from ....ir.types import Expr
from ....ir.walk import substitute, used_vars
from ....support.errors import UnityError
from ...infra.inputs import InputMaker, NoInput
from ..core.refuse import refuse
from ..core.sref import items_below
from ..core.state import ScheduleState
from ..rewrites.parameter_layout import Pad

MAX_ITERATIONS = 200_000
"""Innermost iterations of a function that may be tested: the interpreter runs about a million a second."""
RUNS = ((3, 8), (5, 2), (8, 8))
"""Free sizes of the runs, and below what integers lie: few of them, and many cells hold the same one."""


def check(state: ScheduleState, assumptions: list[str]) -> None:
    """Run the functions the step changed, before and after, on random arguments. Refuses E404 on a
    difference, or when the step rests on assumptions and the program is too large to run."""
    said = "; ".join(assumptions)
    for name, root in state.roots.items():
        after, before = state.function(name), state.before(name)
        if after is before:
            continue
        runs = 0
        for seed, (size, below) in enumerate(RUNS):
            made = arguments(before, seed, size, below)
            if made is None or _iterations(before, made[0]) > MAX_ITERATIONS:
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
            args, sizes = made
            first = _results(before, name, args)
            if isinstance(first, str):
                continue  # the program itself cannot run on these arguments
            runs += 1
            difference = compare(first, _relaid_results(state, before, after, name, args, sizes), seed)
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
    state: ScheduleState, before: PrimFunc, after: PrimFunc, name: str, args: list[Any], sizes: dict[Var, Expr]
) -> list[np.ndarray] | str:
    """Results of the function after the step on the same arguments, those of another layout moved there and back."""
    given, cell_positions = list(args), {}
    for relaid in [r for r in state.relaid if r.func == name]:
        index, pad = before.params.index(relaid.param), relaid.pad_value
        array = args[index]
        shape = [Analyzer().simplify(substitute(n, sizes)) for n in after.buffer_map[relaid.param].shape]
        indices = tuple([substitute(e, sizes) for e in relaid.index_map.final_indices])
        cell_positions[index] = IndexMap(relaid.index_map.initial_indices, indices).cell_positions(array.shape)
        extents = int_values(shape)
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


def arguments(fn: PrimFunc, seed: int, size: int, below: int) -> tuple[list[Any], dict[Var, Expr]] | None:
    """Random arguments of a tensor program, each free size ``size``, integers from zero up to ``below``, and the sizes that they
    have; None when they cannot be made."""
    maker = InputMaker(seed, limit=below, sizes=dict.fromkeys([var.name for var in used_vars(fn)], size))
    try:
        made = maker.arguments(fn)
    except NoInput:
        return None
    return made, {symbol: const(n, dtype_of(symbol)) for symbol, n in maker.symbols.items()}


def _iterations(fn: PrimFunc, args: list[Any]) -> int:
    """An upper estimate of innermost iterations; a loop of unknown extent counts the largest dimension."""
    longest = max([n for a in args if isinstance(a, np.ndarray) for n in a.shape] or [1])

    def visit(stmt: Stmt) -> int:
        inner = sum([visit(item) for item in items_below(stmt)])
        if type(stmt) is not For:
            return max(inner, 1)
        return max(inner, 1) * (int_value(stmt.extent, longest))

    return visit(fn.body)
