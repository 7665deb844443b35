"""Graph passes in random orders on programs that are hard for them (``pass_programs.txt``): several outputs, memory given away,
registered functions, match_cast, shapes as values, closures, recursion, tuples in tuples. Valid, printable, equal in meaning."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inputs import InputMaker

import unity
from unity.ir.interpret import run
from unity.ir.structural import first_difference
from unity.ir.verifier.verifier import violations
from unity.script import parse
from unity.transform import Pipeline

TEXTS = {
    part.partition("\n")[0]: part.partition("\n")[2]
    for part in (Path(__file__).parent / "pass_programs.txt").read_text().split("#### ")[1:]
}
PASSES = (
    "normalize", "canonicalize", "eliminate_common_subexpr", "dead_code", "fold_constant", "compute_prim_value",
    "convert_to_dataflow", "convert_to_dataflow{min_size=1}", "to_non_dataflow", "topological_sort",
    "topological_sort{direction='from_outputs',order='breadth_first'}", "inline_private_functions", "lambda_lift",
    "expand_tuple_arguments", "remove_unused_parameters", "remove_unused_outputs", "legalize_ops",
    "convert_to_dataflow,annotate_tir_op_pattern,fuse_ops", "fuse_tir", "fuse_transpose_matmul",
    "combine_parallel_matmul{only_weights=False}", "decompose_ops_for_inference", "decompose_ops_for_training",
    "fold_batch_norm_to_conv2d{only_constants=False}", "convert_layout{always=True,only_constants=False,lanes=1}",
    "remove_redundant_reshape", "rewrite_reshape", "dataflow_use_inplace_calls", "remove_purity_checking", "normalize_global_var",
    "keep_unit_axes", "fuse_attention", "check_shapes", "adjust_matmul_order",
)  # fmt: skip
LAST = ("", "legalize_ops,lambda_lift,to_non_dataflow,lower_call_dps", "legalize_ops,lambda_lift,to_non_dataflow,lower_call_dps,"
        "canonicalize,plan_memory,lower_alloc_tensor,kill_after_last_use")  # fmt: skip
NOTED: list[np.ndarray] = []


@pytest.fixture(autouse=True)
def registered() -> None:
    """The functions that the programs call."""

    def two(a: Any, doubled: Any, summed: Any) -> None:
        np.asarray(doubled)[...] = np.asarray(a) * 2
        np.asarray(summed)[...] = np.asarray(a).sum(0)

    for name, function in (
        ("dps_add", lambda a, b, out: np.add(np.asarray(a), np.asarray(b), out=np.asarray(out))),
        ("dps_two", two),
        ("pure_sq", lambda a: unity.tensor(np.asarray(a) * np.asarray(a))),
        ("note", lambda a: NOTED.append(np.array(a))),
    ):
        unity.register_func(f"pass_orders.{name}", function, override=True)


def flat(value: Any) -> list[np.ndarray]:
    return [x for part in value for x in flat(part)] if isinstance(value, tuple) else [np.asarray(value)]


def results(mod: unity.IRModule, args: list[Any], compiled: bool = False) -> list[np.ndarray]:
    """What ``main`` returns, and what it noted on the way."""
    NOTED.clear()
    given = copy.deepcopy(args)
    value = unity.VirtualMachine(unity.compile(mod))["main"](*given) if compiled else run(mod, "main", *given)
    return [*flat(tuple(value) if isinstance(value, list) else value), *NOTED]


def agree(mod: unity.IRModule, args: list[Any], wanted: list[np.ndarray], place: str, compiled: bool = False) -> None:
    for x, y in zip(results(mod, args, compiled), wanted, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, place
        loose = 2e-2 if x.dtype == np.float16 else 2e-4
        np.testing.assert_allclose(x.astype("float64"), y.astype("float64"), rtol=loose, atol=loose, err_msg=place)


@pytest.mark.parametrize("name", TEXTS)
def test_random_orders(name: str) -> None:
    mod = parse(TEXTS[name])
    rng = random.Random(name)
    for turn in range(2):
        args = InputMaker(turn).arguments(mod["main"])
        steps = [rng.choice(PASSES) for _ in range(rng.randint(3, 7))]
        text = ",".join([*steps, last] if (last := rng.choice(LAST)) else steps)
        after = Pipeline.parse(text)(mod)
        place = f"{text}\n{after.script()}"
        assert not violations(after, 1), f"{place}\n{violations(after, 1)[0]}"
        difference = first_difference(after, parse(after.script()))
        assert difference is None, f"{place}\n{difference}"
        wanted = results(mod, args)
        agree(after, args, wanted, place)
        if turn == 0 and not last:
            agree(after, args, wanted, place, compiled=True)


def test_the_programs_are_hard() -> None:
    """They hold what the passes could get wrong."""
    words = ("R.call_inplace", "R.call_packed", "R.call_pure_packed", "R.match_cast", "tir_vars", "R.memory.view", "num_input",
             "if ", "private=True", "R.func_attr", "R.Callable", "R.Shape", "R.const")  # fmt: skip
    assert len(TEXTS) >= 50
    assert [w for w in words if not any([w in text for text in TEXTS.values()])] == []
