"""Properties of random programs: the verifier holds, the interpreter runs them, copies are equal and run the same."""

from __future__ import annotations

import copy
import random

import numpy as np
from fuzz import TIMES
from generate import Program, random_module, random_prim_func

import unity.op  # noqa: F401 - fills the operator table
from unity.ir import structural_equal, structural_hash
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.ir.walk import fresh_copy


def results(program: Program, mod: object = None) -> list[np.ndarray]:
    args = copy.deepcopy(program.args)
    value = run(mod or program.mod, program.name, *args)
    if program.outputs:
        return [args[k] for k in program.outputs]
    return list(value) if isinstance(value, tuple) else [value]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> None:
    assert len(first) == len(second)
    for x, y in zip(first, second):
        assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def test_random_modules_are_well_formed_and_run():
    for seed in range(150 * TIMES):
        program = random_module(random.Random(seed))
        verify(program.mod, 2)
        assert all([isinstance(x, np.ndarray) for x in results(program)]), seed


def test_fresh_copies_are_equal_and_run_the_same():
    for seed in range(1000, 1000 + 30 * TIMES):
        program = random_module(random.Random(seed))
        functions = {name: fresh_copy(fn) for name, fn in program.mod.functions.items()}
        again = program.mod.with_functions(functions)
        assert structural_equal(program.mod, again) and structural_hash(program.mod) == structural_hash(again)
        verify(again, 1)
        same(results(program), results(program, again))


def test_the_same_seed_gives_the_same_program():
    for seed in range(20):
        first, second = random_prim_func(random.Random(seed)), random_prim_func(random.Random(seed))
        assert structural_equal(first.mod, second.mod)
        same(results(first), results(second))


def test_different_seeds_differ():
    programs = [random_prim_func(random.Random(seed)).mod for seed in range(30)]
    assert len({structural_hash(mod) for mod in programs}) > 25
