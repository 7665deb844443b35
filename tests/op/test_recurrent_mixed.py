"""Recurrent layers whose weight has fewer bits than their states: types, meaning, gradients, and the pass that makes them."""

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.script import parse
from unity.support.errors import ScriptError
from unity.transform.relax.lowering.legalize_ops import legalize_ops
from unity.transform.relax.precision.to_mixed_precision import to_mixed_precision

BF16 = DataType("bfloat16").numpy
COUNTS = {"lstm": 4, "gru": 3, "rnn": 1}
GRAPH = """
@I.ir_module
class Module:
    @R.function
    def main(g: R.Tensor((6, 2, {width}), "float32"), {states}, w: R.Tensor(({size}, {width}), "{weight}")):
        with R.dataflow():
            y = R.nn.{name}(g, {names}, w)
            {result}
            R.output(out)
        return out
"""


def module(name, size, weight, result="out = y"):
    names = ["h", "c"] if name == "lstm" else ["h"]
    states = ", ".join([f'{n}: R.Tensor((2, {size}), "float32")' for n in names])
    return parse(GRAPH.format(name=name, size=size, width=COUNTS[name] * size, weight=weight, states=states,
                              names=", ".join(names), result=result))  # fmt: skip


def inputs(name, size, weight):
    rng = np.random.default_rng(3)
    width = COUNTS[name] * size
    states = [rng.uniform(-1, 1, (2, size)).astype("float32") for _ in range(2 if name == "lstm" else 1)]
    w = (rng.standard_normal((size, width)) / np.sqrt(size)).astype(weight)
    return [rng.standard_normal((6, 2, width)).astype("float32"), *states, w]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(("size", "weight"), [(16, BF16), (5, BF16), (8, "float16")])
def test_products_of_narrow_operands_with_wide_sums(name, size, weight):
    values = inputs(name, size, weight)
    expected = OPS[f"R.nn.{name}"].ref(*values)
    mod = module(name, size, np.dtype(weight).name)
    for made in (
        run(mod, "main", *values),
        run(legalize_ops(mod), "main", *values),
        unity.compile(mod)["main"](*values),
    ):
        for a, b in zip(made, expected):
            assert np.asarray(a).dtype == np.float32
            np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=2e-3 if weight is BF16 else 3e-4)
    wide = OPS[f"R.nn.{name}"].ref(*values[:-1], values[-1].astype("float32"))
    assert 0 < np.abs(np.asarray(made[0]) - wide[0]).max() < 3e-2, "the state is rounded for the product"


@pytest.mark.parametrize("name", COUNTS)
def test_a_wider_weight_is_refused(name):
    with pytest.raises(ScriptError, match="E211"):
        module(name, 4, "float64")


def test_mixed_precision_narrows_the_weight_alone():
    mod = module("lstm", 16, "float32")
    mixed = to_mixed_precision.with_options(dtype="bfloat16", wide_results=True)(mod)
    assert 'R.astype(w, dtype="bfloat16")' in mixed.script()
    assert mixed.script().count("R.astype") == 1
    kept = to_mixed_precision.with_options(dtype="bfloat16", keep=("R.nn.lstm",))(mod)
    assert "R.astype" not in kept.script()
    values = inputs("lstm", 16, "float32")
    for a, b in zip(run(mixed, "main", *values), run(mod, "main", *values)):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-2)
