"""Operators that run in torch, as segments, places, modes and histograms, and a view written over, against torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402
from torch_models import Calls  # noqa: E402

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
TIES = torch.tensor([[3.0, 1, 3, 1, 2], [9, 8, 5, 4, 6], [7, 7, 0, -7, -7]])
SAMPLES = torch.tensor([[[0.2, 0.9]]])
S: Any = torch.special
CASES = {
    "mode": lambda x: [
        TIES.gather(1, torch.mode(TIES + 0 * x.sum(), keepdim=True)[1]), torch.mode(x.round(), 1)[0],
        torch.mode(x.round().int(), 0, True)[0],
    ],
    "histogram": lambda x: [
        *torch.histogram(x, 5), *torch.histogram(x, 4, range=(-1.0, 1.0), density=True),
        *torch.histogram(x, torch.tensor([-1.0, 0, 0.5, 3])), *torch.histogram(x, 3, weight=x.abs()),
    ],
    "histogramdd": lambda x: [torch.histogramdd(x, [2, 3, 2])[0], *torch.histogramdd(x, [2, 2, 1], density=True)[1]],
    "segments": lambda x: [
        torch.segment_reduce(x, how, lengths=torch.tensor([2, 0, 3]), initial=0.5) for how in ("sum", "mean", "max", "min", "prod")
    ],
    "places": lambda x: [torch.nonzero_static(x.round(), size=n) for n in (0, 3, 40)] + [torch.nonzero(x.sum())],
    "fractional pooling": lambda x: F.fractional_max_pool2d(
        x[:, None, None, :] * x[None, None, :, :1], 2, (4, 2), return_indices=True, _random_samples=SAMPLES.expand(5, 1, 2)
    ),
    "neighbours": lambda x: [torch.as_strided_scatter(x, x[:2, :2], (2, 2), (4, 1))],
}  # fmt: skip
IN_TORCH = ("mode", "histogram", "histogramdd", "segments", "places", "fractional pooling")


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name: str) -> None:
    torch.manual_seed(0)
    model, x = Calls(CASES[name]), torch.randn(5, 3)
    compiled = unity.compile(model, example_inputs=(x,), strict=name not in IN_TORCH)
    assert bool(compiled.report.fallbacks) == (name in IN_TORCH)
    for made, wanted in zip(compiled(x), model(x), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
