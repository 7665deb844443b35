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
