"""Passes outside the default pipeline on random graph programs: valid, printable, equal in meaning."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from fuzz import TIMES
from generate import random_module
from graph_programs import graph_inputs, graph_program
from test_operator_graphs import random_graph

import unity.transform
from unity.ir import IRModule
from unity.ir.interpret import run
from unity.ir.structural import first_difference
from unity.ir.verifier.verifier import violations
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform import DEFAULT_PIPELINE, PASSES, CheckInstrument
from unity.transform.infra.passes import Pass, PassContext, Pipeline
from unity.transform.tir.pipeline import CPU_PIPELINE

PIPELINES = (
    "eliminate_common_subexpr",
    "inline_private_functions",
    "convert_to_dataflow",
    "convert_to_dataflow,topological_sort",
    "convert_to_dataflow,topological_sort{direction='from_outputs',order='breadth_first'}",
    "remove_redundant_reshape,dead_code",
    "decompose_ops_for_inference",
    "decompose_ops_for_training",
    "combine_parallel_matmul{only_weights=False}",
    "fuse_transpose_matmul",
    "fold_batch_norm_to_conv2d{only_constants=False}",
    "expand_tuple_arguments,remove_unused_parameters,remove_unused_outputs",
    "lambda_lift,inline_private_functions,eliminate_common_subexpr,canonicalize,dead_code",
    "to_non_dataflow,remove_purity_checking",
    "to_non_dataflow,compute_prim_value",
    "legalize_ops,dataflow_use_inplace_calls,dead_code,to_non_dataflow,lower_call_dps",
    "to_mixed_precision{dtype='bfloat16'},dead_code",
)
EXACT = ("common", "inline", "convert", "reshape", "expand", "lambda", "purity")


def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, tuple) else [np.asarray(value)]


@dataclass(frozen=True)
class Case:
    """A random program, its arguments, and what it gives."""

    mod: IRModule
    name: str
    args: list
    wanted: list


def case(mod: IRModule, name: str, args: list) -> Case:
    return Case(mod, name, args, flat(run(mod, name, *copy.deepcopy(args))))


@cache
def of_functions(seed: int) -> Case | None:
    program = random_module(random.Random(seed))
    return None if program.outputs else case(program.mod, program.name, program.args)


@cache
def of_operators(seed: int) -> Case | None:
    graph, mod = random_graph(random.Random(1000 + seed))
    try:
        return case(mod, "main", graph.arrays)
    except UnityError:
        return None


@cache
def for_the_passes(seed: int) -> Case:
    rng = random.Random(seed)
    return case(parse(graph_program(rng)), "main", graph_inputs(rng))


def check(given: Case, text: str, seed: int) -> bool:
    after = Pipeline.parse(text)(given.mod)
    if after is given.mod:
        return False
    try:
        compare(given, after, text)
    except Exception as error:
        raise AssertionError(f"seed {seed}, {text}\n{given.mod.script()}\n---- after\n{after.script()}") from error
    return True


def compare(given: Case, after: IRModule, text: str) -> None:
    assert not violations(after, 1)
    assert first_difference(after, parse(after.script())) is None
    for x, y in zip(given.wanted, flat(run(after, given.name, *copy.deepcopy(given.args))), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        if any(word in text for word in EXACT) or x.dtype.kind not in "fV":
            np.testing.assert_array_equal(x, y)
        else:
            loose = 1e-1 if "mixed" in text else 2e-2 if x.dtype.itemsize < 4 else 1e-4
            wide = max(1.0, float(np.max(np.abs(x.astype("float64")), initial=0)))
            np.testing.assert_allclose(x.astype("float64"), y.astype("float64"), rtol=loose, atol=loose * wide)


@pytest.mark.parametrize("text", PIPELINES)
def test_random_modules(text: str) -> None:
    for seed in range(6 * TIMES):
        given = of_functions(seed)
        if given is not None:
            check(given, text, seed)


@pytest.mark.parametrize("text", PIPELINES)
def test_random_operator_graphs(text: str) -> None:
    for seed in range(3 * TIMES):
        given = of_operators(seed)
        if given is not None:
            check(given, text, seed)


@pytest.mark.parametrize("text", PIPELINES)
def test_programs_made_for_the_passes(text: str) -> None:
    changed = [check(for_the_passes(seed), text, seed) for seed in range(6 * TIMES)]
    assert any(changed) or "prim_value" in text


def test_translation_validation_finds_nothing_in_the_default_pipelines() -> None:
    checker = CheckInstrument(inputs=2)
    for seed in range(4 * TIMES):
        mod = parse(graph_program(random.Random(500 + seed)))
        with PassContext(checker):
            CPU_PIPELINE(IRModule(DEFAULT_PIPELINE(mod).prim_funcs(), {}, {}))
    verdicts = [record.verdict for record in checker.records]
    assert verdicts.count("agrees") > 0.9 * len(verdicts) > 30


def test_every_offered_pass_runs_by_its_name() -> None:
    values = {name: getattr(unity.transform, name) for name in unity.transform.__all__}
    offered = {name: value for name, value in values.items() if isinstance(value, Pass)}
    assert len(offered) > 25
    for name, step in offered.items():
        assert str(Pipeline.parse(name)) == name and PASSES[name] is step
