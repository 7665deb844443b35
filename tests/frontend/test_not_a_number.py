"""Where NaN stands in the results of a model: as in torch."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unity  # noqa: E402

NAN, INF = math.nan, math.inf
ROWS = torch.tensor(
    [[1, NAN, 3, NAN, 0], [NAN, NAN, 2, 1, 5], [3, 1, NAN, 1, 2], [NAN] * 5, [1, 2, 3, 4, NAN], [1, 2, 2, 4, 5]]
)


class Model(torch.nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return self.how(x)


def check(how, x, dynamic):
    vary = ({k: torch.export.Dim.AUTO for k in range(x.ndim) if x.shape[k] > 1},) if dynamic else None
    made = unity.compile(Model(how), example_inputs=(x,), dynamic_shapes=vary)(x)
    for one, wanted in zip(made, how(x), strict=True):
        torch.testing.assert_close(one, wanted, equal_nan=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_medians_stand_at_the_first(dynamic):
    check(lambda x: (*torch.median(x[:5], 1), *torch.median(x.T, 0, keepdim=True), torch.median(x)), ROWS, dynamic)


@pytest.mark.parametrize("right", [False, True])
def test_borders_are_compared_as_bisection_meets_them(right):
    def places(x):
        values = torch.tensor([[0, 1, 2, 3, 6, NAN]]).expand(x.shape[0], 6).contiguous()
        lines = [torch.bucketize(values[0], x[k].contiguous(), right=right) for k in range(x.shape[0])]
        return torch.searchsorted(x, values, right=right), *lines

    check(places, ROWS, False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("corners", [False, True])
def test_taps_of_weight_zero_count(corners, dynamic):
    image = torch.arange(20.0).reshape(1, 1, 4, 5)
    image[0, 0, 1, 2], image[0, 0, 3, 0] = NAN, INF

    def resized(x):
        sizes = [(4, 5), (7, 5), (8, 10), (2, 3), (4, 9)]
        smooth = [F.interpolate(x, s, mode=m, align_corners=corners) for s in sizes for m in ("bilinear", "bicubic")]
        scaled = F.interpolate(x, scale_factor=(2, 1.1), mode="bilinear", align_corners=corners)
        return *smooth, F.interpolate(x[0], 10, mode="linear", align_corners=corners), scaled

    check(resized, image, dynamic)
