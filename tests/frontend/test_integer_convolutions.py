"""Convolutions of 8-bit integers: calibrated, with channels last, what follows them fused; against float32 and the interpreter."""

import numpy as np
import pytest

import unity
from unity.frontend.precision.accuracy import compare
from unity.ir.interpret import run
from unity.script import parse
from unity.transform.relax.precision.quantization_ranges import Grid

CONV = """
@R.function
def main(x: R.Tensor({shape}, "float32")):
    y = R.nn.conv{rank}d(x, w, {attrs})
    return y
"""


def conv(shape, weight, **attrs):
    text = CONV.format(shape=shape, rank=len(shape) - 2, attrs=", ".join([f"{k}={v!r}" for k, v in attrs.items()]))
    return unity.IRModule({"main": parse(text, scope={"w": weight})}, {}, {})


CASES = [
    ((1, 8, 9, 7), (16, 8, 3, 3), {"padding": 1}),
    ((2, 3, 8, 8), (20, 3, 3, 3), {"padding": (0, 1, 2, 1), "strides": 2}),
    ((1, 20, 6, 5), (33, 20, 1, 1), {}),
    ((1, 5, 12, 12), (16, 5, 3, 3), {"dilation": (2, 3), "padding": 2}),
    ((2, 6, 15), (18, 6, 5), {"padding": 2, "strides": 3}),
    ((1, 4, 5, 5, 5), (16, 4, 2, 2, 2), {"padding": 1}),
    ((1, 7, 6, 8), (3, 3, 8, 16), {"padding": 1, "data_layout": "NHWC", "kernel_layout": "HWIO"}),
    ((0, 8, 4, 4), (16, 8, 3, 3), {"padding": 1}),
]


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs", "low"),
    [*[(*case, (0.0, -1.0)[k % 2]) for k, case in enumerate(CASES)], (*CASES[0], -1.0), (*CASES[1], 0.0)],
)
def test_sums_are_exact_on_a_grid(shape, kernel, attrs, low):
    """Data that is a grid of 255 steps and integer weights: only what float32 rounds is rounded."""
    rng = np.random.default_rng(0)
    columns = attrs.get("kernel_layout", "OI").index("O")
    w = rng.integers(-127, 128, kernel).astype("float32")
    np.moveaxis(w, columns, 0)[:, 0, ..., 0] = 127
    x = (rng.integers(0, 256, shape) + 255 * (low / 2 if low else 0.0) // 1).astype("float32")
    calibration = rng.integers(0, 256, (1, *shape[1:])).astype("float32") + np.float32(
        255 * (low / 2 if low else 0.0) // 1
    )
    calibration.reshape(-1)[:2] = 255 * (low / 2 if low else 0.0) // 1, 255 + 255 * (low / 2 if low else 0.0) // 1
    mod = conv(("n", *shape[1:]), w, **attrs)
    quantized = unity.quantize(mod, [calibration])
    assert quantized.script().count('out_dtype="int32"') == 1
    exact = unity.compile(mod)["main"](x).numpy()
    np.testing.assert_allclose(unity.compile(quantized)["main"](x).numpy(), exact, rtol=1e-6, atol=1e-3)
    if exact.size and exact.size < 2000 and len(shape) == 4:
        found = run(quantized, "main", x)
        np.testing.assert_allclose(
            found if isinstance(found, np.ndarray) else found.numpy(), exact, rtol=1e-6, atol=1e-3
        )


def test_what_stays_in_float32():
    rng = np.random.default_rng(0)
    calibration = [rng.standard_normal((1, 32, 6, 6)).astype("float32")]
    for kernel, attrs in [((32, 1, 3, 3), {"groups": 32}), ((8, 32, 3, 3), {}), ((32, 8, 1, 1), {"groups": 4})]:
        mod = conv((1, 32, 6, 6), rng.standard_normal(kernel).astype("float32"), **attrs)
        assert "int32" not in unity.quantize(mod, calibration).script()
    mod = conv((1, 32, 6, 6), np.full((16, 32, 3, 3), np.inf, "float32"))
    assert "int32" not in unity.quantize(mod, calibration).script()


@pytest.mark.parametrize("k", [5, 30])
def test_products_are_filled_up_to_groups(k):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((k, 32)).astype("float32")
    text = f'@R.function\ndef main(x: R.Tensor((9, {k}), "float32")):\n    y = R.matmul(x, w)\n    return y\n'
    mod = unity.IRModule({"main": parse(text, scope={"w": w})}, {}, {})
    x = rng.standard_normal((9, k)).astype("float32")
    quantized = unity.quantize(mod, [x])
    assert f"(9, {-(-k // 4) * 4})" in quantized.script()
    assert 1e-4 < compare("int8", [(x @ w, unity.compile(quantized)["main"](x))]).relative < 0.02


def test_grid_holds_zero_exactly():
    for low, high in [(0.0, 3.0), (-2.0, 0.0), (-1.0, 5.0)]:
        grid = Grid.of(low, high)
        assert 0 <= grid.zero <= 255 and grid.scale > 0
        assert (
            abs(low - (0 - grid.zero) * grid.scale) <= grid.scale
            and abs(high - (255 - grid.zero) * grid.scale) <= grid.scale
        )


def test_values_beyond_the_range_and_not_numbers():
    w = np.eye(16, dtype="float32").reshape(16, 16, 1, 1)
    calibration = np.linspace(-1, 1, 16, dtype="float32").reshape(1, 16, 1, 1)
    quantized = unity.quantize(conv((1, 16, 1, 1), w), [calibration])
    x = calibration.copy()
    x[0, :4, 0, 0] = 100, -100, np.inf, -np.inf
    found = unity.compile(quantized)["main"](x).numpy()[0, :, 0, 0]
    np.testing.assert_allclose(found[:4], [1, -1, 1, -1], atol=0.01)
    np.testing.assert_allclose(found[4:], x[0, 4:, 0, 0], atol=0.01)


torch = pytest.importorskip("torch")


class Residual(torch.nn.Module):
    """A stem, a block with a shortcut, a depthwise convolution, a classifier."""

    def __init__(self):
        super().__init__()
        conv = torch.nn.Conv2d
        self.stem, self.norm = conv(3, 16, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(16)
        self.a, self.b, self.deep = conv(16, 32, 1), conv(32, 16, 3, padding=1), conv(16, 16, 3, padding=1, groups=16)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        x = torch.relu(self.b(torch.nn.functional.relu6(self.a(x))) + x)
        return self.head(torch.relu(self.deep(x)).mean((2, 3)))


def test_a_model():
    torch.manual_seed(0)
    model, inputs = Residual().eval(), [(torch.randn(1, 3, 32, 32),) for _ in range(4)]
    f = unity.compile(model, example_inputs=inputs[0], precision="int8", calibration=inputs)
    assert f.module.script().count('out_dtype="int32"') == 4  # three convolutions and the classifier
    assert 1e-4 < f.accuracy.relative < 0.05 and f.accuracy.cosine > 0.998, str(f.accuracy)
    with torch.no_grad():
        assert all([f(*x).argmax() == model(*x).argmax() for x in inputs])
