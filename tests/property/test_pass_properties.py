"""Every pass of the default pipelines keeps random programs valid, printable and equal in meaning, one pass at a time."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
from fuzz import TIMES
from generate import Program, random_module, random_prim_func
from lowering import LOOPS

import unity.op  # noqa: F401 - fills the operator table
from unity.ir import IRModule
from unity.ir.interpret import run
from unity.ir.structural import first_difference
from unity.ir.verifier.verifier import violations
from unity.script.printer.show import script
from unity.script.reader.module import parse
from unity.transform.infra.passes import Pipeline
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

INEXACT = {"legalize_ops", "fold_constant"}
"""Passes that may replace numpy's meaning of an operator by a kernel: results agree within rounding."""


def outputs(program: Program, mod: IRModule) -> list[np.ndarray]:
    args = copy.deepcopy(program.args)
    value = run(mod, program.name, *args)
    if program.outputs:
        return [args[k] for k in program.outputs]
    return list(value) if isinstance(value, tuple) else [value]


def walk_pipeline(program: Program, pipeline: Pipeline, seed: int) -> None:
    mod, expected = program.mod, outputs(program, program.mod)
    for step in pipeline:
        before = mod
        mod = Pipeline((step,))(mod)
        if mod is before:
            continue
        place = f"seed {seed}, pass {step.name}\n{script(before)}\n---- after\n"
        errors = violations(mod, 1)
        assert not errors, f"{place}{script(mod)}\n{errors[0]}"
        text = script(mod)
        again = parse(text)
        difference = first_difference(mod, again if isinstance(again, IRModule) else IRModule({"main": again}, {}, {}))
        assert difference is None, f"{place}{text}\n{difference}"
        for x, y in zip(outputs(program, mod), expected):
            assert x.dtype == y.dtype and x.shape == y.shape, place
            if step.name in INEXACT:
                np.testing.assert_allclose(x.astype("float64"), y.astype("float64"), rtol=1e-5, err_msg=place + text)
            else:
                np.testing.assert_array_equal(x, y, err_msg=place + text)
        expected = outputs(program, mod)


@pytest.mark.parametrize("start", range(0, 30 * TIMES, 15))
def test_lowering_of_tensor_programs(start):
    for seed in range(start, start + 15):
        walk_pipeline(random_prim_func(random.Random(seed)), LOOPS, seed)


def test_graph_passes_with_a_packed_constant():
    walk_pipeline(random_module(random.Random(260)), DEFAULT_PIPELINE, 260)


@pytest.mark.parametrize("start", range(0, 40 * TIMES, 40))
def test_graph_passes(start):
    found = 0
    for seed in range(start, start + 40):
        program = random_module(random.Random(seed))
        if not program.outputs:
            found += 1
            walk_pipeline(program, DEFAULT_PIPELINE, seed)
    assert found > 10
