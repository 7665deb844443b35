"""Sizes of torch that are rounded from floats, and what is said about sizes."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import unity
from unity.support.errors import FrontendError, VMError

ANY = torch.export.Dim.DYNAMIC


class Resize(torch.nn.Module):
    def __init__(self, factor, mode, **options):
        super().__init__()
        self.factor, self.mode, self.options = factor, mode, options

    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=self.factor, mode=self.mode, **self.options)


@pytest.mark.parametrize(
    ("factor", "mode", "options", "symbols"),
    [
        (0.5, "bilinear", {}, 2),  # an exact product: a formula of the size
        ((2, 1.25), "nearest", {}, 2),
        (0.7, "bilinear", {"align_corners": True}, 4),  # read from what float64 gives
        (1.3, "bicubic", {"recompute_scale_factor": True}, 4),
        (2.0, "bilinear", {"recompute_scale_factor": True}, 2),
    ],
)
def test_resize_by_a_factor(factor, mode, options, symbols) -> None:
    model = Resize(factor, mode, **options).eval()
    f = unity.compile(
        model, example_inputs=(torch.randn(1, 2, 10, 12),), dynamic_shapes=({2: ANY, 3: ANY},), strict=True
    )
    for height, width in ((10, 12), (5, 9), (20, 7), (10, 57)):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-4)
    assert len([line for line in f.script().splitlines() if "R.match_cast" in line]) == symbols - 2


class Halves(torch.nn.Module):
    def forward(self, x):
        return x[: math.trunc(x.shape[0] / 2)] + x[math.floor(x.shape[0] * 0.5) : 2 * math.floor(x.shape[0] * 0.5)]


class Margin(torch.nn.Module):
    """The margin of a crop in the middle."""

    def forward(self, x):
        return torch.arange(round((x.shape[0] - 4) / 2.0)) + x[0, 0]


def test_the_nearest_even_size() -> None:
    f = unity.compile(Margin(), example_inputs=(torch.randn(8, 2),), dynamic_shapes=({0: ANY},), strict=True)
    run = torch.compile(Margin(), backend=unity.frontend.unity_backend, dynamic=True)
    for rows in (8, 9, 11, 13):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(f(x), Margin()(x))
        with torch.no_grad():
            torch.testing.assert_close(run(x), Margin()(x))


class CutAfterResize(torch.nn.Module):
    def forward(self, x):
        y = torch.nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
        return y[:, :, 1:, :-2] * 2


def test_what_is_cut_from_a_rounded_size_is_checked() -> None:
    model, shapes = CutAfterResize(), ({2: ANY, 3: ANY},)
    f = unity.compile(model, example_inputs=(torch.randn(1, 2, 8, 9),), dynamic_shapes=shapes)
    for height, width in ((8, 9), (5, 7), (12, 2)):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(VMError, match="E635"):
        f(torch.randn(1, 2, 4, 1))


def test_equal_sizes_are_known_to_be_equal() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Halves(), (torch.randn(8, 3),), dynamic_shapes=({0: ANY},))
    f = unity.compile(program)
    for rows in (8, 9, 31):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(f(x), Halves()(x))


class Pairs(torch.nn.Module):
    def forward(self, x):
        return x.view(x.shape[0] // 2, 2, -1).sum(1)


def test_ranges_name_the_argument() -> None:
    pairs = 2 * torch.export.Dim("half", max=20)
    f = unity.compile(Pairs(), example_inputs=(torch.randn(6, 4),), dynamic_shapes=({0: pairs},))
    with pytest.raises(VMError, match=r"x.shape\[0\] // 2 must be at most 20, got 21"):
        f(torch.randn(42, 4))
    with pytest.raises(VMError, match=r"expected x.shape\[0\] // 2 \* 2 == x.shape\[0\]"):
        f(torch.randn(3, 4))


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda m: unity.compile(m, example_inputs={"input": torch.ones(2, 4)}), "E962", "example_inputs is a dict"),
        (lambda m: unity.frontend.from_fx(torch.fx.symbolic_trace(m), [((-1, 4), "float32")]), "E013", "got -1"),
        (lambda m: unity.frontend.from_fx(torch.fx.symbolic_trace(m), [((2.5, 4), "float32")]), "E013", "got 2.5"),
    ],
)
def test_inputs_that_are_none(call, code, words) -> None:
    with pytest.raises(FrontendError, match=words) as caught:
        call(torch.nn.Linear(4, 3).eval())
    assert caught.value.code == code


class Branches(torch.nn.Module):
    def forward(self, x, pair):
        y = pair["a"]
        if x.shape[0] * y.shape[0] < 100:
            x = x + 1
        if (x.shape[0] + y.shape[0]) % 2 == 0:
            x = x * 2
        return x[: int(x.shape[0] / 2)]


def test_branches_on_sizes_hold_at_run_time() -> None:
    example = (torch.randn(8, 3), {"a": torch.randn(4)})
    f = unity.compile(Branches(), example_inputs=example, dynamic_shapes={"x": {0: ANY}, "pair": {"a": {0: ANY}}})
    x, y = torch.randn(9, 3), {"a": torch.randn(11)}
    torch.testing.assert_close(f(x, y), Branches()(x, y))
    cases = [
        ((8, 20), r"pair_a.shape\[0\] \* x.shape\[0\] < 100"),
        ((9, 4), r"% 2 == 0"),
        ((30, 2), r"x.shape\[0\] >= 8 and x.shape\[0\] < 10"),
    ]
    for (rows, width), words in cases:
        with pytest.raises(VMError, match=words) as caught:
            f(torch.randn(rows, 3), {"a": torch.randn(width)})
        assert caught.value.code == "E635"


class Broadcasts(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.softmax(torch.cat([x, y]), 0)[: x.shape[0]] * y.sum()


def test_sizes_of_zero_and_one_stay_allowed() -> None:
    f = unity.compile(
        Broadcasts(), example_inputs=(torch.randn(6), torch.randn(4)), dynamic_shapes=({0: ANY}, {0: ANY})
    )
    for size in (1, 2, 3):
        x, y = torch.randn(size), torch.randn(1)
        torch.testing.assert_close(f(x, y), Broadcasts()(x, y))


@pytest.mark.parametrize(("mode", "factor"), [("nearest", 1.3), ("nearest", 2.6), ("nearest-exact", 0.7)])
def test_the_nearest_pixel_is_the_one_torch_takes(mode, factor) -> None:
    x = torch.arange(100.0).reshape(1, 1, 100)
    model = Resize(factor, mode).eval()
    torch.testing.assert_close(unity.compile(model, example_inputs=(x,))(x), model(x), rtol=0, atol=0)


class ToSize(torch.nn.Module):
    def __init__(self, size, mode):
        super().__init__()
        self.size, self.mode = size, mode

    def forward(self, x):
        return torch.nn.functional.interpolate(x, size=self.size, mode=self.mode)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize(("size", "wanted"), [(2, (82, 83)), (41, (100, 82)), (5, (210, 7))])
def test_the_nearest_pixel_of_a_given_size(size, wanted, mode) -> None:
    x = torch.arange(float(size * size)).reshape(1, 1, size, size)
    model = ToSize(wanted, mode).eval()
    torch.testing.assert_close(unity.compile(model, example_inputs=(x,))(x), model(x), rtol=0, atol=0)
