"""unity.compile(..., precision=...): what is computed in fewer bits, how accurate it is, and what the build says of it."""

import numpy as np
import pytest

import unity
from unity.frontend.accuracy import compare
from unity.frontend.precision import reduction_of
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import FrontendError

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
    text = reduction_of("bf16").apply(mod).script()
    assert text.count('out_dtype="float32"') == 2 and text.count("R.nn.softmax(h)") == 1
    assert text.count('"bfloat16")') >= 4 and "softmax(h)" in text


@pytest.mark.parametrize("n", [0, 1, 5, 33])
def test_bf16_agrees_with_the_interpreter(n):
    rng = np.random.default_rng(0)
    mod = unity.IRModule({"main": mlp(rng)}, {}, {})
    reduced = reduction_of("bf16").apply(mod)
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
