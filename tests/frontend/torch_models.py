"""Small torch models written by hand, and the comparison with torch eager."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Calls(nn.Module):
    """A module of one function, with the tensors that the function takes before the input."""

    def __init__(self, fn: Any, *held: torch.Tensor) -> None:
        super().__init__()
        self.fn = fn
        for number, tensor in enumerate(held):
            self.register_buffer(f"held{number}", tensor)

    def forward(self, x: Any) -> Any:
        return self.fn(*self.buffers(), x)


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        return x + self.inner(self.norm2(x))


class Encoder(nn.Module):
    """Token embedding, learned positions, two layers; padding is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.layers = nn.ModuleList([EncoderLayer(32, 4) for _ in range(2)])
        self.norm = nn.LayerNorm(32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = (ids != 0)[:, None, None, :]
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.pool = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False), nn.MaxPool2d(3, 2, 1)
        self.act, self.head = nn.ReLU(inplace=True), nn.Linear(8, 5)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.act(self.norm(self.conv1(x))))
        x = x + self.act(self.conv2(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def same(found: Any, expected: Any) -> None:
    """Equal in structure, dtype and (up to the tolerance) value."""
    torch.testing.assert_close(found, expected, **TOLERANCE)
