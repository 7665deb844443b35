"""Attention whose scores are large runs over pieces of the rows: the results are those of torch, the scores are never whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unity
from unity.ir.expr import Call
from unity.ir.relation import dims
from unity.ir.walk import collect

ROWS, COLUMNS = 150, 130


class Attention(torch.nn.Module):
    """torch's attention with fixed options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        given = mask[0] if mask else None
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given, **self.options)


def largest_scores(mod: Any) -> int:
    """Rows of the largest product with one column per key."""
    shapes = [dims(call.ty) for call in collect(mod["main"], Call) if getattr(call.op, "name", "") == "R.matmul"]
    return max([int(shape[-2].value) for shape in shapes if shape is not None])


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unity.frontend.aten_nn.LARGE_SCORES", 1)
    monkeypatch.setattr("unity.frontend.aten_nn.PIECES", 3)


def tensors(heads: int = 4, keys: int = 4) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, h, n, 8) for h, n in ((heads, ROWS), (keys, COLUMNS), (keys, COLUMNS))]


MASKS = {
    "bool": torch.rand(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1)) > 0.3,
    "float": torch.randn(2, 1, ROWS, COLUMNS, generator=torch.Generator().manual_seed(2)),
    "one row": torch.randn(2, 1, 1, COLUMNS, generator=torch.Generator().manual_seed(3)),
    "all masked": torch.zeros(ROWS, COLUMNS, dtype=torch.bool),
}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", ({}, {"is_causal": True}, {"scale": 0.3}))
def test_pieces(options: dict[str, Any]) -> None:
    inputs = tensors()
    model = Attention(**options)
    made = unity.compile(model, example_inputs=tuple(inputs))
    assert largest_scores(made.module) < ROWS
    np.testing.assert_allclose(made(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", MASKS)
def test_masks_in_pieces(name: str) -> None:
    inputs = [*tensors(), MASKS[name]]
    model = Attention()
    made = unity.compile(model, example_inputs=tuple(inputs))
    assert largest_scores(made.module) < ROWS
    np.testing.assert_allclose(made(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("small_pieces")
def test_shared_keys_in_pieces() -> None:
    inputs = tensors(4, 2)
    model = Attention(enable_gqa=True, is_causal=True)
    made = unity.compile(model, example_inputs=tuple(inputs))
    np.testing.assert_allclose(made(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


def test_small_scores_stay_whole() -> None:
    inputs = tensors()
    made = unity.compile(Attention(), example_inputs=tuple(inputs))
    assert largest_scores(made.module) == ROWS
