"""A perceptron, an LSTM for sequences and a Transformer encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """A perceptron of two hidden layers."""

    def __init__(self, inputs: int = 784, width: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.flatten(1))


class SequenceLSTM(nn.Module):
    """Token embedding, a (bidirectional) LSTM of two layers, a prediction per token and the last states."""

    def __init__(self, tokens: int = 1000, width: int = 128, bidirectional: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(width * (2 if bidirectional else 1), tokens)

    def forward(self, ids: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, state = self.lstm(self.embed(ids))
        return self.head(y), state


class TransformerEncoder(nn.Module):
    """torch's own encoder layers over token and position embeddings; token 0 is padding."""

    def __init__(
        self, tokens: int = 1000, width: int = 128, heads: int = 4, layers: int = 2, length: int = 128
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.encoder(x, src_key_padding_mask=ids == 0))
