"""Operators whose meaning is that of PyTorch: the numpy meaning against torch itself."""

import numpy as np
import pytest

from unity.ir.op import OPS
from unity.op import OPERATORS

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(5)


def f(*shape):
    return RNG.uniform(-1.5, 1.5, shape).astype("float32")


def same(made, expected):
    np.testing.assert_allclose(made, expected.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [(7, 3), (2, 9), (1, 1)])
@pytest.mark.parametrize("method,name", [("linear", "bilinear"), ("cubic", "bicubic")])
@pytest.mark.parametrize("corners", [True, False])
def test_resize(size, method, name, corners):
    x = f(2, 3, 4, 5)
    mode = "align_corners" if corners else "half_pixel"
    made = OPS["R.image.resize2d"].ref(x, size, method=method, coordinate_transformation_mode=mode)
    same(made, torch.nn.functional.interpolate(torch.tensor(x), size, mode=name, align_corners=corners))


def test_resize_nearest():
    x = f(1, 2, 4, 5)
    options = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    same(OPS["R.image.resize2d"].ref(x, (7, 3), **options), torch.nn.functional.interpolate(torch.tensor(x), (7, 3)))


@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample(method, padding, corners):
    x, grid = f(2, 3, 5, 4), f(2, 2, 3, 3)
    made = OPS["R.image.grid_sample"].ref(x, grid, method, "NCHW", padding, corners)
    places = torch.tensor(np.ascontiguousarray(grid.transpose(0, 2, 3, 1)))
    expected = torch.nn.functional.grid_sample(torch.tensor(x), places, method, padding, corners)
    same(made, expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_transpose(rank):
    x, w = f(2, 4, *[5, 3, 4][:rank]), f(4, 2, *[3, 2, 2][:rank])
    fn = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    expected = fn(torch.tensor(x), torch.tensor(w), None, 2, 1, 1, 2, 2)
    same(
        OPS[f"R.nn.conv{rank}d_transpose"].ref(x, w, strides=2, padding=1, output_padding=1, groups=2, dilation=2),
        expected,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss(reduction):
    x, weights, targets = f(4, 3, 2), np.array([1, 2, 0.5], "float32"), RNG.integers(0, 3, (4, 2))
    made = OPS["R.nn.nll_loss"].ref(x, targets, weights, reduction, 1)
    fn = torch.nn.functional.nll_loss
    same(made, fn(torch.tensor(x), torch.tensor(targets), torch.tensor(weights), ignore_index=1, reduction=reduction))


def test_median():
    x = f(2, 8, 3, 2)
    values, index = torch.median(torch.tensor(x), 1)
    made = OPS["R.median"].ref(x, 1)
    same(made[0], values)
    same(made[1], index)


assert OPERATORS
