"""After the stage "schedule" every tensor program has its loops: it prints, parses back, and nothing schedules it again."""

import numpy as np
import pytest

import unity
from unity import stages
from unity.arith.cost import WORK, cost_of
from unity.ir.function import BY_NESTS, SCHEDULED, is_scheduled
from unity.ir.stmt import For
from unity.ir.structural import structural_equal
from unity.ir.walk import collect
from unity.transform import Pipeline, function_pass
from unity.transform.default_schedule.apply import schedule_nests

PROGRAMS = {
    "rows": "R.nn.softmax(x)",
    "columns": "R.sum(x, axis=0)",
    "whole": "R.sum(x)",
    "transposed": "R.exp(R.permute_dims(x))",
    "running": "R.cumsum(x, axis=1)",
    "product": "R.nn.relu(R.matmul(x, R.permute_dims(x)))",
    "cells": "R.tanh(x)",
    "places": "R.argmax(x, axis=1)",
}
"""Text by name: of loops that passes choose, but for the product, and the sum over all that a rule cuts into pieces."""
SHAPES = {"fixed": "(300, 70)", "symbolic": '("n", "m")'}


def module(text: str, shape: str) -> unity.IRModule:
    return stages.parse(f'@R.function\ndef main(x: R.Tensor({shape}, "float32")):\n    return {text}\n')


def scheduled(mod: unity.IRModule, config: stages.BuildConfig) -> unity.IRModule:
    return stages.schedule(stages.graph(stages.check(mod, config), config), config)


@pytest.mark.parametrize("processor", ["x86-64-v2", "x86-64-v4"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_scheduled(name: str, shape: str, processor: str) -> None:
    config = stages.configure(f"llvm -mcpu={processor}")
    mod = scheduled(module(PROGRAMS[name], SHAPES[shape]), config)
    programs = mod.prim_funcs()
    assert programs and all([is_scheduled(fn) for fn in programs.values()])
    by_rules = [key for key, fn in programs.items() if fn.attrs[SCHEDULED] != BY_NESTS]
    assert by_rules == [key for key in programs if "matmul" in key and shape == "fixed"]
    for fn in programs.values():
        loops = collect(fn.body, For)
        assert any([loop.annotations or loop.kind != "serial" for loop in loops]), fn
    again = stages.parse(mod.script())
    assert structural_equal(again, mod)
    with config.target:
        assert schedule_nests(mod) is mod


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_printed_after_it_is_built_as_it_stands(name: str) -> None:
    config = stages.configure("llvm")
    mod = module(PROGRAMS[name], SHAPES["fixed"])
    printed = stages.parse(scheduled(mod, config).script())
    once, twice = [stages.lower(scheduled(m, config), config) for m in (mod, printed)]
    assert sorted(once) == sorted(twice)
    kind = "op_pattern"  # fusion asks anew what tiles are
    assert all([structural_equal(once[key].without_attr(kind), twice[key].without_attr(kind)) for key in once])


def test_what_was_printed_runs() -> None:
    mod = module(PROGRAMS["rows"], SHAPES["symbolic"])
    printed = stages.parse(scheduled(mod, stages.configure("llvm")).script())
    x = np.random.default_rng(0).standard_normal((30, 70), dtype=np.float32)
    first, second = [unity.VirtualMachine(unity.compile(m, target="llvm"))["main"](x).numpy() for m in (mod, printed)]
    np.testing.assert_array_equal(first, second)


@function_pass(name="test_schedule_stage.nothing")
def nothing(fn: object) -> object:
    """The function as it is."""
    return fn


def test_passes_of_ones_own_leave_nests_to_be_scheduled() -> None:
    """Whoever replaces the graph passes by some that schedule nothing gets loops all the same."""
    own = Pipeline.parse("legalize_ops,to_non_dataflow,lower_call_dps,plan_memory,attach_global_symbol")
    config = stages.configure("llvm", pipeline=Pipeline((nothing, own)))
    mod = stages.plan(scheduled(module(PROGRAMS["columns"], SHAPES["fixed"]), config), config)
    (program,) = mod.prim_funcs().values()
    assert program.attrs[SCHEDULED] == BY_NESTS
    assert "vectorized" in {loop.kind for loop in collect(program.body, For)}


def test_the_work_is_that_of_the_program_as_written() -> None:
    """Lanes that a tile computes beyond the end count for nothing."""
    config = stages.configure("llvm")
    mod = stages.graph(stages.check(module("R.sum(x, axis=0)", "(300, 71)"), config), config)
    (written,), (tiled,) = [m.prim_funcs().values() for m in (mod, stages.schedule(mod, config))]
    found, same = [cost_of(fn) for fn in (tiled, written)]
    assert structural_equal((found.flops, found.read, found.written), (same.flops, same.read, same.written))
    assert cost_of(tiled.without_attr(WORK)).flops.value > 300 * 71 == same.flops.value  # lanes beyond the end
