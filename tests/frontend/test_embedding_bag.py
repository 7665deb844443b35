"""Bags of embeddings: as two axes of indices (reductions along an axis) and with offsets, with padding and weights, against torch."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import unity

MODES = ("sum", "mean", "max")


class Bag(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, indices: torch.Tensor, rows: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        names = ("offsets",) if indices.dim() == 1 else ("per_sample_weights",)
        return F.embedding_bag(indices, rows, **dict(zip(names, more)), **self.options)


def _agrees(inputs: tuple[torch.Tensor, ...], **options: Any) -> str:
    model = Bag(**options)
    compiled = unity.compile(model, example_inputs=inputs)
    torch.testing.assert_close(compiled(*inputs), model(*inputs))
    return compiled.script()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_two_axes(mode: str, padding: int | None) -> None:
    indices = torch.tensor([[2, 2, 2], [0, 2, 6], [1, 1, 3], [6, 6, 5]])
    script = _agrees((indices, torch.randn(7, 5) - 2), mode=mode, padding_idx=padding)
    assert "scatter" not in script


def test_two_axes_weighed() -> None:
    _agrees((torch.randint(0, 7, (4, 3)), torch.randn(7, 5), torch.randn(4, 3)), mode="sum")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("offsets", [[0, 3, 3, 7], [0, 2, 4, 6]])
def test_offsets(mode: str, offsets: list[int]) -> None:
    _agrees((torch.randint(0, 7, (9,)), torch.randn(7, 5), torch.tensor(offsets)), mode=mode)


class Ranged(torch.nn.Module):
    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last

    def forward(self, indices: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, rows, torch.arange(0, self.last, 3), mode="mean")


@pytest.mark.parametrize("last", [9, 7, 8])
def test_a_range_of_offsets_with_an_uneven_last_bag(last: int) -> None:
    inputs = torch.randint(0, 7, (8,)), torch.randn(7, 5)
    model = Ranged(last)
    torch.testing.assert_close(unity.compile(model, example_inputs=inputs)(*inputs), model(*inputs))
