"""Operators that draw random numbers run in torch: with the same seed the same numbers stand in the same places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.frontend import unity_backend  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

DRAWS: dict[str, Callable[[Any], Any]] = {
    "of a contiguous tensor": lambda x: torch.randn_like(x),
    "of a transposed tensor": lambda x: torch.randn_like(x.transpose(1, 2)) * torch.rand_like(x.permute(2, 0, 1)).sum(),
    "of what is computed from one": lambda x: torch.bernoulli(torch.sigmoid(x.mT * 2)),
    "with channels last": lambda x: torch.randn_like(x[None].contiguous(memory_format=torch.channels_last)),
    "of an expanded tensor": lambda x: torch.rand_like(x[:, :1].expand(-1, 4, -1).transpose(0, 1)),
    "of one with another order asked for": lambda x: torch.rand_like(x.mT, memory_format=torch.contiguous_format),
}


class Draws(torch.nn.Module):
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Any) -> Any:
        return self.draw(x)


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("varying", [False, True])
def test_the_same_numbers_in_the_same_places(name: str, varying: bool) -> None:
    model, x = Draws(DRAWS[name]).eval(), torch.randn(3, 4, 5)
    sizes = {"dynamic_shapes": ({2: torch.export.Dim("n", min=2, max=40)},)} if varying else {}
    compiled = unity.compile(model, example_inputs=(x,), **sizes)
    for columns in (5, 9) if varying else (5,):
        given = torch.randn(3, 4, columns)
        torch.manual_seed(1)
        want = model(given)
        torch.manual_seed(1)
        torch.testing.assert_close(compiled(given), want)


def test_dropout_in_training_drops_the_same_places() -> None:
    x = torch.randn(3, 4, 5, requires_grad=True)

    def dropped(x: Any) -> Any:
        return torch.nn.functional.dropout(x.mT.sin(), 0.5, training=True)

    torch.manual_seed(1)
    want = dropped(x)
    torch.manual_seed(1)
    found = torch.compile(dropped, backend=unity_backend)(x)
    torch.testing.assert_close(found, want)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(gradient, torch.autograd.grad(want.sum(), x)[0])
