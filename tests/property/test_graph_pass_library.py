"""Passes outside the default pipeline on random graph programs: valid, printable, equal in meaning."""

from __future__ import annotations

import copy
import random

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
from unity.transform import DEFAULT_PIPELINE, CheckInstrument
from unity.transform.all_passes import PASSES
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


def check(mod: IRModule, name: str, args: list, text: str, seed: int) -> bool:
    after = Pipeline.parse(text)(mod)
    if after is mod:
        return False
    place = f"seed {seed}, {text}\n{mod.script()}\n---- after\n{after.script()}"
    assert not violations(after, 1), f"{place}\n{violations(after, 1)[0]}"
    difference = first_difference(after, parse(after.script()))
    assert difference is None, f"{place}\n{difference}"
    before, result = [run(m, name, *copy.deepcopy(args)) for m in (mod, after)]
    for x, y in zip(flat(before), flat(result), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, place
        if any(word in text for word in EXACT) or x.dtype.kind not in "fV":
            np.testing.assert_array_equal(x, y, err_msg=place)
        else:
            loose = 1e-1 if "mixed" in text else 2e-2 if x.dtype.itemsize < 4 else 1e-4
            wide = max(1.0, float(np.max(np.abs(x.astype("float64")), initial=0)))
            np.testing.assert_allclose(
                x.astype("float64"), y.astype("float64"), rtol=loose, atol=loose * wide, err_msg=place
            )
    return True


@pytest.mark.parametrize("text", PIPELINES)
def test_random_modules(text: str) -> None:
    for seed in range(6 * TIMES):
        program = random_module(random.Random(seed))
        if not program.outputs:
            check(program.mod, program.name, program.args, text, seed)


@pytest.mark.parametrize("text", PIPELINES)
def test_random_operator_graphs(text: str) -> None:
    for seed in range(3 * TIMES):
        graph, mod = random_graph(random.Random(1000 + seed))
        try:
            run(mod, "main", *copy.deepcopy(graph.arrays))
        except UnityError:
            continue
        check(mod, "main", graph.arrays, text, seed)


@pytest.mark.parametrize("text", PIPELINES)
def test_programs_made_for_the_passes(text: str) -> None:
    changed = 0
    for seed in range(6 * TIMES):
        rng = random.Random(seed)
        mod = parse(graph_program(rng))
        changed += check(mod, "main", graph_inputs(rng), text, seed)
    assert changed > 0 or "prim_value" in text


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
