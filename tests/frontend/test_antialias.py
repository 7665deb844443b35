"""Antialiased resizing: smaller, larger, by sizes and by scales, against torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch_models import same  # noqa: E402

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
FORMS: list[dict[str, Any]] = [
    {"size": (4, 9)}, {"size": (16, 5)}, {"size": (1, 30)}, {"size": (7, 3), "align_corners": True},
    {"scale_factor": 0.45}, {"scale_factor": (1.7, 0.6)}, {"scale_factor": 0.3, "recompute_scale_factor": True},
]  # fmt: skip


class Resize(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        made = []
        for mode in ("bilinear", "bicubic"):
            for form in FORMS:
                made.append(torch.nn.functional.interpolate(x, mode=mode, antialias=True, **form))
        return made


def test_antialiased() -> None:
    x = torch.randn(2, 3, 11, 13)
    same(unity.compile(Resize(), example_inputs=(x,), strict=True)(x), Resize()(x))


class ResizeRows(torch.nn.Module):
    """Each image in a size that stands in a tensor, as a model that packs images of many sizes resizes its positions."""

    def forward(self, x: Any, sizes: Any) -> Any:
        made = x.new_zeros(len(sizes), 36, 3)
        for row in range(len(sizes)):
            height, width = sizes[row][0].item(), sizes[row][1].item()
            for true in (height > 0, width > 0, height * width <= 36):
                torch._check(true)
            for mode in ("bilinear", "bicubic"):
                one = torch.nn.functional.interpolate(x, (height, width), mode=mode, antialias=True)
                made[row, : height * width] += one.reshape(3, height * width).T
        return made


def test_antialiased_to_sizes_in_a_tensor() -> None:
    x, sizes = torch.randn(1, 3, 5, 6), torch.tensor([[4, 4], [3, 12]])
    compiled = unity.compile(ResizeRows(), example_inputs=(x, sizes), strict=True)
    for given in (sizes, torch.tensor([[1, 1], [1, 36]]), torch.tensor([[5, 6], [2, 3]])):
        same(compiled(x, given), ResizeRows()(x, given))


def test_antialiased_images_of_any_size() -> None:
    class Shrink(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            inner = torch.nn.functional.interpolate
            return (
                inner(x, (7, 3), mode="bicubic", antialias=True),
                inner(x, (x.shape[2] // 2, 9), mode="bilinear", antialias=True, align_corners=True),
                inner(x, scale_factor=1.5, mode="bilinear", antialias=True),
            )

    rows, columns = torch.export.Dim("rows", min=4, max=64), torch.export.Dim("columns", min=4, max=64)
    x = torch.randn(2, 1, 10, 12)
    compiled = unity.compile(Shrink(), example_inputs=(x,), dynamic_shapes=({2: rows, 3: columns},), strict=True)
    for shape in ((10, 12), (4, 30), (33, 5)):
        x = torch.randn(2, 1, *shape)
        for found, expected in zip(compiled(x), Shrink()(x), strict=True):
            same(found, expected)
