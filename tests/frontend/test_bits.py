"""Memory read as another dtype, divisors and multiples, Airy's function, against torch eager: nothing goes back to torch."""

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


class Numbers(torch.nn.Module):
    def forward(self, a: Any, b: Any, x: Any) -> Any:
        kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
        pairs = [(a.to(kind), b.to(kind)) for kind in kinds]
        return [*[fn(p, q) for p, q in pairs for fn in (torch.gcd, torch.lcm)]]


def test_views_and_numbers() -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 3, 8), torch.randint(0, 255, (3, 16), dtype=torch.uint8)
    numbers = torch.randint(-50, 50, (5, 7)), torch.randint(-50, 50, (7,)), torch.linspace(-12, 8, 41)
    for model, inputs in ((Views(), given), (Numbers(), numbers)):
        compiled = unity.compile(model.eval(), example_inputs=inputs, strict=True)
        torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=1e-5, atol=1e-6)


class Halves(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.view(torch.int64), x.view(torch.int16)


def test_view_of_a_size_that_changes() -> None:
    half = torch.export.Dim("half", max=100)
    compiled = unity.compile(
        Halves(), example_inputs=(torch.randn(3, 8),), dynamic_shapes=({1: 2 * half},), strict=True
    )
    for width in (2, 10, 64):
        x = torch.randn(3, width)
        torch.testing.assert_close(compiled(x), Halves()(x))
    with pytest.raises(UnityError):
        compiled(torch.randn(3, 7))
