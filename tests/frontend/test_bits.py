"""Memory read as another dtype: by torch, in sizes that change as well."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.support.errors import UnityError  # noqa: E402


class Views(torch.nn.Module):
    def forward(self, x: Any, small: Any) -> Any:
        kinds = (torch.int32, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.float64, torch.int64)
        views = [x.view(kind) for kind in kinds]
        return [
            *views,
            small.view(torch.float32),
            (x > 0).view(torch.uint8),
            small.view(torch.bool),
            x[0, 0, 0].view(torch.int32),
        ]


def test_views() -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 3, 8), torch.randint(0, 255, (3, 16), dtype=torch.uint8)
    compiled = unity.compile(Views().eval(), example_inputs=given)
    torch.testing.assert_close(compiled(*given), Views()(*given))


class Halves(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.view(torch.int64), x.view(torch.int16)


def test_view_of_a_size_that_changes() -> None:
    half = torch.export.Dim("half", max=100)
    compiled = unity.compile(Halves(), example_inputs=(torch.randn(3, 8),), dynamic_shapes=({1: 2 * half},))
    for width in (2, 10, 64):
        x = torch.randn(3, width)
        torch.testing.assert_close(compiled(x), Halves()(x))
    with pytest.raises(UnityError):
        compiled(torch.randn(3, 7))
