"""unity.compile(..., precision=...): what is computed in fewer bits, how accurate it is, and what the build says of it."""

import numpy as np
import pytest

import unity
from unity.frontend.precision.accuracy import compare
from unity.frontend.precision.precision import reduction_of
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import FrontendError, UnityError
from unity.transform.relax.precision.quantize_weights import panel_width, quantize_weights, rounded, rounded_to_nibbles

torch = pytest.importorskip("torch")

SCRIPT = """
@R.function
def main(x: R.Tensor(("n", 24), "float32")):
    with R.dataflow():
        h = R.matmul(x, w)
        s = R.nn.softmax(h)
        y = R.matmul(s, v)
        R.output(y)
    return y
"""


def mlp(rng):
    w, v = rng.standard_normal((24, 40)).astype("float32"), rng.standard_normal((40, 32)).astype("float32")
    return parse(SCRIPT, scope={"w": w, "v": v})


class Block(torch.nn.Module):
    """A transformer block in small."""

    def __init__(self, size=64, heads=4):
        super().__init__()
        self.norm, self.attention = torch.nn.LayerNorm(size), torch.nn.MultiheadAttention(size, heads, batch_first=True)
        self.up, self.down = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Convolutions(torch.nn.Module):
    """A residual block in small."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 3, padding=1)
        self.norm, self.head = torch.nn.BatchNorm2d(16), torch.nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.a(x))
        x = torch.relu(self.norm(self.b(x)) + x)
        return self.head(x.mean((2, 3)))


def test_bf16_operands_float32_sums():
    mod = unity.IRModule({"main": mlp(np.random.default_rng(0))}, {}, {})
    text = reduction_of("bf16").passes(mod).script()
    assert text.count('out_dtype="float32"') == 2 and text.count("R.nn.softmax(h)") == 1
    assert text.count('"bfloat16")') >= 4 and "softmax(h)" in text


@pytest.mark.parametrize("n", [0, 1, 5, 33])
def test_bf16_agrees_with_the_interpreter(n):
    rng = np.random.default_rng(0)
    mod = unity.IRModule({"main": mlp(rng)}, {}, {})
    reduced = reduction_of("bf16").passes(mod)
    x = rng.standard_normal((n, 24)).astype("float32")
    expected = run(reduced, "main", x)
    found = unity.compile(mod, precision="bf16")["main"](x).numpy()
    np.testing.assert_allclose(
        found, expected.numpy() if hasattr(expected, "numpy") else expected, rtol=2e-2, atol=2e-2
    )


@pytest.mark.parametrize(("model", "shape"), [(Block, (2, 10, 64)), (Convolutions, (1, 3, 12, 12))])
def test_bf16_models(model, shape):
    torch.manual_seed(0)
    made, x = model().eval(), torch.randn(*shape)
    f = unity.compile(made, example_inputs=(x,), precision="bf16")
    assert f.accuracy is not None and f.accuracy is f.executable.accuracy
    assert 0 < f.accuracy.relative < 0.02 and f.accuracy.cosine > 0.999, str(f.accuracy)
    with torch.no_grad():
        gap = (f(x) - made(x)).abs().max().item()
    assert abs(gap - f.accuracy.max_abs) < 1e-6


def test_a_saved_file_computes_the_same(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 24)).astype("float32")
    made = unity.compile(unity.IRModule({"main": mlp(rng)}, {}, {}), precision="bf16", example_inputs=x)
    assert made.accuracy.elements == 9 * 32 and 0 < made.accuracy.relative < 0.02
    made.save(tmp_path / "m")
    for trust in (True, False):
        again = unity.load(tmp_path / "m", trust=trust)
        np.testing.assert_array_equal(again["main"](x).numpy(), made["main"](x).numpy())


def test_the_build_says_the_accuracy_on_request(monkeypatch, capsys):
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    x = np.ones((2, 24), "float32")
    unity.compile(unity.IRModule({"main": mlp(np.random.default_rng(0))}, {}, {}), precision="bf16", example_inputs=x)
    assert "bf16 against float32: max abs error" in capsys.readouterr().err


def test_figures():
    a, b = np.array([3.0, 4.0, np.nan, np.inf]), np.array([3.0, 4.5, np.nan, np.inf])
    found = compare("x", [(a, b)])
    assert found.max_abs == 0.5 and found.relative == pytest.approx(0.1) and 0.99 < found.cosine < 1
    assert np.isnan(compare("x", [(np.array([1.0]), np.array([np.nan]))]).relative)


def test_unknown_precision():
    with pytest.raises(FrontendError, match="E980"):
        unity.compile(unity.IRModule({"main": mlp(np.random.default_rng(0))}, {}, {}), precision="fp8")


def test_float32_is_the_default():
    mod = unity.IRModule({"main": mlp(np.random.default_rng(0))}, {}, {})
    assert reduction_of("float32") is None and unity.compile(mod, precision="float32").accuracy is None


@pytest.mark.parametrize(("precision", "worst"), [("int8", 0.03), ("int4", 0.4)])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_weights_in_few_bits(precision, worst, n):
    rng = np.random.default_rng(0)
    mod = unity.IRModule({"main": mlp(rng)}, {}, {})
    reduced = reduction_of(precision).passes(mod)
    assert reduced.script().count("R.call_dps(matmul_int") == 2
    x = rng.standard_normal((n, 24)).astype("float32")
    expected = run(reduced, "main", x)
    found = unity.compile(mod, precision=precision)["main"](x).numpy()
    np.testing.assert_allclose(
        found, expected if isinstance(expected, np.ndarray) else expected.numpy(), rtol=1e-4, atol=1e-4
    )
    if n:
        exact = unity.compile(mod)["main"](x)
        assert 1e-4 < compare(precision, [(exact, found)]).relative < worst


ROWS = [(96,), (1, 96), (2, 7, 96), (2, 3, 1, 96), ("b", 5, 96), (3, "n", 96)]


@pytest.mark.parametrize(
    ("shape", "columns", "bits"),
    [(shape, columns, (4, 8)[(i + j) % 2]) for i, shape in enumerate(ROWS) for j, columns in enumerate((16, 48, 100))],
)  # all rows with all columns, either in 4 bits and in 8
def test_few_bits_for_any_rows(shape, columns, bits):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((96, columns)).astype("float32")
    text = f'@R.function\ndef main(x: R.Tensor({shape}, "float32")):\n    y = R.matmul(x, w)\n    return y\n'
    text = text.replace("'", '"')
    f = unity.compile(unity.IRModule({"main": parse(text, scope={"w": w})}, {}, {}), precision=f"int{bits}")["main"]
    whole, scale = rounded_to_nibbles(w.reshape(3, 32, columns)) if bits == 4 else rounded(w[None], 127)
    used = (whole * scale[:, None]).reshape(96, columns)
    for size in (0, 1, 4, 6):
        x = rng.standard_normal([size if isinstance(n, str) else n for n in shape]).astype("float32")
        np.testing.assert_allclose(f(x).numpy(), x @ used, rtol=1e-4, atol=1e-4)
    x = np.zeros(x.shape, "float32")
    x[..., 5] = np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(f(x).numpy(), x @ used)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("k", "n"), [(64, 16), (34, 48), (96, 80), (32, 97)])
def test_stored_weights_are_what_was_rounded(bits, k, n):
    """A product with the identity shows the weights that a program uses: within half a step of the real ones."""
    w = np.random.default_rng(0).standard_normal((k, n)).astype("float32")
    w[:, 3] = 0
    text = f'@R.function\ndef main(x: R.Tensor(({k}, {k}), "float32")):\n    y = R.matmul(x, w)\n    return y\n'
    mod = unity.IRModule({"main": parse(text, scope={"w": w})}, {}, {})
    used = unity.compile(mod, precision=f"int{bits}")["main"](np.eye(k, dtype="float32")).numpy()
    group = 32 if bits == 4 and k % 32 == 0 else k
    steps = np.abs(w.reshape(-1, group, n)).max(1, keepdims=True) / (127 if bits == 8 else 8)
    gap = np.abs(used - w).reshape(-1, group, n)
    inside = np.abs(w.reshape(-1, group, n)) < 7.5 * steps if bits == 4 else np.True_  # 8 itself is no number of 4 bits
    assert (gap <= np.where(inside, 0.5001, 1.0001) * steps + 1e-6).all() and gap.max() > 0 and (used[:, 3] == 0).all()


def test_panels():
    assert [panel_width(n) for n in (15, 16, 40, 64, 96, 100, 768, 50257)] == [0, 16, 48, 64, 48, 64, 64, 64]


def test_nibbles_use_all_their_numbers():
    """The largest weight is exact, of either sign, and the error is a tenth less than with numbers from -7 to 7."""
    w = np.random.default_rng(0).standard_normal((500, 32, 16)).astype("float32")
    whole, scale = rounded_to_nibbles(w)
    assert whole.min() == -8 and whole.max() == 7
    used = whole * scale[:, None]
    far = np.abs(w).argmax(1)[:, None]
    np.testing.assert_allclose(np.take_along_axis(used, far, 1), np.take_along_axis(w, far, 1), rtol=1e-6)
    other, steps = rounded(w, 7)
    assert np.square(used - w).mean() < 0.85 * np.square(other * steps[:, None] - w).mean()


def test_weights_that_are_not_finite_stay():
    w = np.full((32, 32), np.inf, "float32")
    mod = unity.IRModule(
        {"main": parse(SCRIPT, scope={"w": np.ones((24, 40), "float32"), "v": np.ones((40, 32), "float32") * w[0, 0]})},
        {},
        {},
    )
    assert reduction_of("int8").passes(mod).script().count("R.call_dps(matmul_int8") == 1


def test_static_quantisation():
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 10, 64)
    calibration = [(torch.randn(2, 10, 64),) for _ in range(4)]
    f = unity.compile(model, example_inputs=(x,), precision="int8", calibration=calibration)
    assert 1e-4 < f.accuracy.relative < 0.05 and f.accuracy.cosine > 0.998, str(f.accuracy)
    assert 'out_dtype="int32"' in f.module.script()


def test_static_quantisation_of_a_module():
    rng = np.random.default_rng(0)
    mod = unity.IRModule({"main": mlp(rng)}, {}, {})
    calibration = [rng.standard_normal((n, 24)).astype("float32") for n in (3, 5)]
    quantized = unity.quantize(mod, calibration)
    text = quantized.script()
    assert text.count("R.matmul") == text.count('out_dtype="int32"') == 2
    x = calibration[1]
    expected = run(quantized, "main", x)
    found = unity.compile(quantized)["main"](x).numpy()
    np.testing.assert_allclose(
        found, expected if isinstance(expected, np.ndarray) else expected.numpy(), rtol=1e-4, atol=1e-4
    )
    exact = unity.compile(mod)["main"](x)
    assert 1e-4 < compare("int8", [(exact, found)]).relative < 0.05


def test_integer_sums_are_exact():
    """Data that is a grid of 255 steps and integer weights: nothing is rounded, so the result is that of float32."""
    rng = np.random.default_rng(0)
    w = rng.integers(-127, 128, (16, 32)).astype("float32")
    w[0] = 127
    text = '@R.function\ndef main(x: R.Tensor((20, 16), "float32")):\n    y = R.matmul(x, w)\n    return y\n'
    mod = unity.IRModule({"main": parse(text, scope={"w": w})}, {}, {})
    x = rng.integers(-100, 156, (20, 16)).astype("float32")
    x[0, :2] = -100, 155
    found = unity.compile(mod, precision="int8", calibration=[(x,)])["main"](x).numpy()
    np.testing.assert_allclose(found, x @ w, rtol=1e-6)


@pytest.mark.parametrize(
    "calibration", [[], [(np.full((2, 24), np.nan, "float32"),)], [(np.zeros((0, 24), "float32"),)]]
)
def test_calibration_without_ranges(calibration):
    mod = unity.IRModule({"main": mlp(np.random.default_rng(0))}, {}, {})
    with pytest.raises(UnityError, match="E987"):
        unity.compile(mod, precision="int8", calibration=calibration)


def test_calibration_needs_int8():
    mod = unity.IRModule({"main": mlp(np.random.default_rng(0))}, {}, {})
    with pytest.raises(FrontendError, match="E987"):
        unity.compile(mod, precision="bf16", calibration=[(np.zeros((1, 24), "float32"),)])
    with pytest.raises(UnityError, match="E986"):
        quantize_weights.with_options(bits=3)(mod)
