"""Calibration: ranges, which layers are quantised for a wanted accuracy, and the table that says so."""

import numpy as np
import pytest
import torch

import unity
from unity.frontend.precision.accuracy import compare
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.relax.precision.quantization_probe import probed
from unity.transform.relax.precision.quantization_ranges import Grid, Seen, ranges_of
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


def test_layers_that_cost_too_much_stay_out():
    mod, inputs = two_layers()
    everything = unity.calibrate(mod, unity.Calibration(inputs, ranges="minmax"))
    assert [layer.quantized for layer in everything.layers] == [True, True] and everything.error is None
    assert error_of(mod, unity.quantize(mod, everything), inputs[0]) > 0.2
    decided = unity.calibrate(mod, unity.Calibration(inputs, ranges="minmax", max_error=0.03))
    first, second = decided.layers
    assert (first.quantized, second.quantized) == (False, True)
    assert first.error > 0.2 > 0.03 > second.error > 0 and decided.error == pytest.approx(second.error)
    assert first.work == 32 * 48 and second.work == 48 * 16
    reduced = unity.quantize(mod, decided)
    assert reduced.script().count('out_dtype="int32"') == 1
    assert 0 < error_of(mod, reduced, inputs[0]) < 0.03
    assert "1 of 2 layers in 8 bits (33% of their work), the rest in float32, relative error" in str(decided)


def test_no_layer_is_left_where_none_may_cost_anything():
    mod, inputs = two_layers()
    decided = unity.calibrate(mod, unity.Calibration(inputs, max_error=0.0))
    assert not any([layer.quantized for layer in decided.layers]) and decided.error == 0.0
    assert "int32" not in unity.quantize(mod, decided).script()


def test_the_rest_in_bf16():
    mod, inputs = two_layers()
    calibration = unity.Calibration(inputs, ranges="minmax", max_error=0.03, rest="bf16")
    decided = unity.calibrate(mod, calibration)
    reduced = unity.quantize(mod, calibration)
    assert reduced.script().count('out_dtype="int32"') == 1 and '"bfloat16"' in reduced.script()
    assert [layer.quantized for layer in decided.layers] == [False, True]
    found = error_of(mod, reduced, np.concatenate(inputs))
    assert found == pytest.approx(decided.error, rel=0.2), "the simulation rounds what stays out to bfloat16"


def test_the_probe_is_the_module_and_its_quantisation():
    mod, inputs = two_layers()
    decided = unity.calibrate(mod, inputs)
    spans = [layer.span for layer in decided.layers]
    probe = probed(mod, spans)
    exact = run(mod, "main", inputs[1])
    np.testing.assert_allclose(run(probe, "main", inputs[1], np.zeros(2, "float32")), exact, rtol=1e-6, atol=1e-6)
    both = run(probe, "main", inputs[1], np.ones(2, "float32"))
    np.testing.assert_allclose(both, run(unity.quantize(mod, decided), "main", inputs[1]), rtol=1e-3, atol=1e-4)
    assert np.abs(both - exact).max() > 1e-3


def test_keep_by_torch_module():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).eval()
    inputs = [(torch.randn(4, 32),) for _ in range(2)]
    calibration = unity.Calibration(inputs, keep=["2"], max_error=0.5)
    f = unity.compile(model, example_inputs=inputs[0], precision="int8", calibration=calibration)
    assert [(layer.source, layer.quantized) for layer in f.quantization.layers] == [("0", True), ("2", False)]
    assert f.module.script().count('out_dtype="int32"') == 1
    assert 0 < f.accuracy.relative < 0.05
    kept = unity.calibrate(two_layers()[0], unity.Calibration(two_layers()[1], keep=["c"]))
    assert [layer.quantized for layer in kept.layers] == [True, False]


def test_ranges():
    rng = np.random.default_rng(1)
    data = rng.standard_normal(1 << 15)
    data[5] = 1000.0
    seen = Seen()
    seen.add(float(data.min()), 1000.0, data)
    seen.samples = [data]
    (whole,), (tail,) = [ranges_of([seen], method) for method in ("minmax", "percentile")]
    assert whole == (data.min(), 1000.0)
    assert 3 < tail[1] < 6 and -6 < tail[0] < -3
    normal = Seen()
    normal.add(float(data[100:].min()), float(data[100:].max()), data[100:])
    (narrow,) = ranges_of([normal], "mse")
    error = [
        np.square(Grid.of(*span).rounded(data[100:]) - data[100:]).mean()
        for span in (narrow, (normal.low, normal.high))
    ]
    assert error[0] < error[1]


def test_a_range_holds_zero_and_constant_data_is_exact():
    for value in (0.0, 3.0, -2.0):
        seen = Seen()
        seen.add(value, value, np.full(4, value))
        for method in ("minmax", "percentile", "mse"):
            ((low, high),) = ranges_of([seen], method)
            assert low <= 0 <= high
            np.testing.assert_allclose(Grid.of(low, high).rounded(np.full(4, value)), value, rtol=0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranges": "widest"},
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
