"""Calibration: ranges, which layers are quantised, and the table that says so."""

import numpy as np
import pytest
import torch

import unity
from unity.frontend.precision.accuracy import compare
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.relax.precision.quantization_ranges import Grid, Seen
from unity.transform.relax.precision.quantize_products import sites

SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 32), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.matmul(b, v)
            R.output(c)
        return c
"""


def two_layers():
    """A module whose first product reads data with one huge column that its weights ignore: 8 bits lose the others."""
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((32, 48)) / 6).astype("float32")
    w[0] = 0
    v = (rng.standard_normal((48, 16)) / 7).astype("float32")
    inputs = [rng.standard_normal((n, 32)).astype("float32") for n in (8, 5)]
    for x in inputs:
        x[:, 0] *= 200
    return parse(SCRIPT, scope={"w": w, "v": v}), inputs


def error_of(mod, reduced, x):
    return compare("int8", [(unity.compile(mod)["main"](x), unity.compile(reduced)["main"](x))]).relative


def test_layers_that_cost_too_much_stay_out_by_name():
    mod, inputs = two_layers()
    everything = unity.calibrate(mod, inputs)
    assert [layer.quantized for layer in everything.layers] == [True, True]
    assert error_of(mod, unity.quantize(mod, everything), inputs[0]) > 0.1
    decided = unity.calibrate(mod, unity.Calibration(inputs, keep=["a"]))
    first, second = decided.layers
    assert (first.quantized, second.quantized) == (False, True)
    assert first.work == 32 * 48 and second.work == 48 * 16
    reduced = unity.quantize(mod, decided)
    assert reduced.script().count('out_dtype="int32"') == 1
    assert 0 < error_of(mod, reduced, inputs[0]) < 0.03
    assert str(decided).endswith("1 of 2 layers in 8 bits (33% of their work), the rest in float32")


def test_the_rest_in_bf16():
    mod, inputs = two_layers()
    reduced = unity.quantize(mod, unity.Calibration(inputs, keep=["a"], rest="bf16"))
    assert reduced.script().count('out_dtype="int32"') == 1 and '"bfloat16"' in reduced.script()
    assert 0 < error_of(mod, reduced, np.concatenate(inputs)) < 0.05


def test_keep_by_torch_module():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).eval()
    inputs = [(torch.randn(4, 32),) for _ in range(2)]
    calibration = unity.Calibration(inputs, keep=["2"])
    f = unity.compile(model, example_inputs=inputs[0], precision="int8", calibration=calibration)
    assert [(layer.source, layer.quantized) for layer in f.quantization.layers] == [("0", True), ("2", False)]
    assert f.module.script().count('out_dtype="int32"') == 1
    assert 0 < f.accuracy.relative < 0.05
    kept = unity.calibrate(two_layers()[0], unity.Calibration(two_layers()[1], keep=["c"]))
    assert [layer.quantized for layer in kept.layers] == [True, False]


def test_a_range_has_the_least_error():
    data = np.random.default_rng(1).standard_normal(1 << 14)
    seen = Seen()
    seen.add(float(data.min()), float(data.max()), data)
    error = [np.square(Grid.of(*span).rounded(data) - data).mean() for span in (seen.span(), (seen.low, seen.high))]
    assert error[0] < error[1]


def test_a_range_holds_zero_and_constant_data_is_exact():
    for value in (0.0, 3.0, -2.0):
        seen = Seen()
        seen.add(value, value, np.full(4, value))
        low, high = seen.span()
        assert low <= 0 <= high
        np.testing.assert_allclose(Grid.of(low, high).rounded(np.full(4, value)), value, rtol=0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rest": "float16"},
        {"keep": ["c", "no_layer"]},
        {"keep": [""]},
        {"inputs": ()},
        {"inputs": [np.full((2, 32), np.inf, "float32")]},
    ],
)
def test_wrong_calibration(wrong):
    mod, inputs = two_layers()
    with pytest.raises(UnityError, match="E987"):
        unity.quantize(mod, unity.Calibration(**{"inputs": inputs, **wrong}))


def test_sites_of_a_module():
    assert [site.sizes for _, site, _ in sites(two_layers()[0])] == [(32, 48), (48, 16)]
