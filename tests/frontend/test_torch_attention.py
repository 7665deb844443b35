"""torch's attention imports as one operator that reads its tensors where they are; results are torch's, whatever the masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unity
from unity.ir.expr import Call
from unity.ir.walk import collect

ROWS, COLUMNS = 70, 90


class Attention(torch.nn.Module):
    """torch's attention with fixed options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        given = mask[0] if mask else None
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given, **self.options)


def tensors(heads: int = 4, keys: int = 4, rows: int = ROWS, columns: int = COLUMNS) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, h, n, 8) for h, n in ((heads, rows), (keys, columns), (keys, columns))]


def calls(mod: Any, name: str) -> list[Call]:
    return [call for call in collect(mod["main"], Call) if getattr(call.op, "name", "") == name]


def agree(model: torch.nn.Module, *cases: list[torch.Tensor]) -> None:
    """One program gives torch's results for all cases."""
    made = unity.compile(model, example_inputs=tuple(cases[0]))
    assert len(calls(made.module, "R.nn.attention")) == 1
    for inputs in cases:
        np.testing.assert_allclose(made(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


MASKS = {
    "bool": [
        torch.rand(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1)) > 0.3,
        torch.zeros(ROWS, COLUMNS, dtype=torch.bool),
    ],
    "float": [torch.randn(2, 1, ROWS, COLUMNS, generator=torch.Generator().manual_seed(2))],
    "one row": [torch.randn(2, 1, 1, COLUMNS, generator=torch.Generator().manual_seed(3))],
    "rows masked": [torch.where(torch.arange(ROWS) % 3 == 0, -torch.inf, 0.0)[:, None].expand(ROWS, COLUMNS)],
    "first keys masked": [torch.arange(COLUMNS)[None] > 65],
}
"""Masks by kind: those of one kind are arguments of one program."""


@pytest.mark.parametrize("options", ({}, {"is_causal": True}, {"scale": 0.3}))
def test_options(options: dict[str, Any]) -> None:
    agree(Attention(**options), tensors())


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    agree(Attention(), *[[*tensors(), mask] for mask in MASKS[name]])


@pytest.mark.parametrize("rows", (1, 5, ROWS))
@pytest.mark.parametrize("causal", (False, True))
def test_shared_keys(rows: int, causal: bool) -> None:
    agree(Attention(enable_gqa=True, is_causal=causal), tensors(6, 2, rows))


@pytest.mark.parametrize("front", ((), (3,), (2, 1, 3)))
def test_axes_in_front(front: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(*front, 5, 4), torch.randn(*front, 9, 4), torch.randn(*front, 9, 6)
    agree(Attention(), [q, k, v])
    agree(Attention(), [q, k, v, torch.randn(*front[:1], *[1] * len(front[1:]), 5, 9)])


def test_broadcast_axes() -> None:
    torch.manual_seed(0)
    agree(Attention(), [torch.randn(1, 2, 3, 4), torch.randn(5, 1, 7, 4), torch.randn(5, 2, 7, 4)])


def test_sixteen_bits() -> None:
    inputs = [t.to(torch.bfloat16) for t in tensors()]
    made = unity.compile(Attention(is_causal=True), example_inputs=tuple(inputs))
    wanted = Attention(is_causal=True)(*[t.double() for t in inputs])
    np.testing.assert_allclose(made(*inputs).float(), wanted, rtol=1e-2, atol=1e-2)


class Layer(torch.nn.Module):
    """Heads split off by a view, as encoders do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = [t.view(2, -1, 4, 8).transpose(1, 2) for t in (x, x.sin(), x.cos())]
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return made.transpose(1, 2).reshape(2, -1, 32)


def test_nothing_is_transposed_for_attention() -> None:
    x = torch.randn(2, 20, 32)
    made = unity.compile(Layer(), example_inputs=(x,))
    np.testing.assert_allclose(made(x), Layer()(x), rtol=1e-5, atol=1e-5)
    lowered = unity.transform.attend_in_place(unity.transform.remove_redundant_reshape(made.module))
    (call,) = calls(lowered, "R.nn.attention")
    assert call.attrs["layout"] == "BSHD"


def test_lengths_of_any_size_are_one_program() -> None:
    n, m = torch.export.Dim("n", max=4096), torch.export.Dim("m", max=4096)
    shapes = ({2: n}, {2: m}, {2: m})
    program = torch.export.export(Attention(), tuple(tensors(2, 2, 33, 20)), dynamic_shapes=shapes)
    made = unity.compile(program)
    for rows, columns in ((1, 1), (1, 300), (17, 5), (64, 64), (100, 129), (2, 65)):
        inputs = tensors(2, 2, rows, columns)
        np.testing.assert_allclose(made(*inputs), Attention()(*inputs), rtol=1e-5, atol=1e-5)
