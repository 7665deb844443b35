"""What is measured: modules in evaluation mode with their inputs, made when asked for. Weights are random, seeded."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from models import sequence, vision


@dataclass(slots=True, frozen=True)
class Workload:
    """``make`` gives the module and its inputs. ``flops`` of one call, 0 where it says nothing; ``group`` orders the table."""

    name: str
    group: str
    make: Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]
    flops: int = 0
    tolerance: float = 1e-3


class Product(nn.Module):
    """``x @ w`` with a constant right-hand side."""

    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(k, n) / k**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.w


class Chain(nn.Module):
    """Twenty cheap elementwise operators."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for k in range(5):
            y = torch.relu(y * 1.01 + 0.1 * k) - x
        return y


def _matmul(m: int, k: int, n: int) -> Workload:
    name = f"matmul {m}" if m == k == n else f"matmul {m}x{k}x{n}"
    return Workload(name, "matrix products", lambda: (Product(k, n), (torch.randn(m, k),)), 2 * m * k * n)


def _plain(name: str, group: str, module: Callable[[], nn.Module], *shape: int, tolerance: float = 1e-3) -> Workload:
    return Workload(name, group, lambda: (module(), (torch.randn(*shape),)), 0, tolerance)


class Logits(nn.Module):
    """A transformers model as a function of token numbers (or pixels): its first output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x, return_dict=False)[0]


def _transformer(kind: str, config: dict[str, object]) -> nn.Module:
    import transformers  # noqa: PLC0415 - optional

    made = getattr(transformers, f"{kind}Config")(attn_implementation="sdpa", **config)
    return Logits(getattr(transformers, f"{kind}Model")(made))


def _tokens(kind: str, length: int, **config: object) -> Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    return lambda: (_transformer(kind, config), (torch.randint(0, 1000, (1, length)),))


class Decode(nn.Module):
    """One step of GPT-2 with a key-value cache: the logits of the token that follows ``token``, given what came before."""

    def __init__(self) -> None:
        super().__init__()
        import transformers  # noqa: PLC0415 - optional

        self.cache = transformers.DynamicCache
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="sdpa"))

    def forward(self, token: torch.Tensor, *past: torch.Tensor) -> torch.Tensor:
        cache = self.cache()
        for layer, (keys, values) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(keys, values, layer)
        return self.model(token, past_key_values=cache, use_cache=True).logits


def _decode(length: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    past = [torch.randn(1, 12, length, 64) for _ in range(2 * 12)]
    return Decode(), (torch.randint(0, 1000, (1, 1)), *past)


_LLAMA = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4,
          "intermediate_size": 1376, "vocab_size": 32000, "use_cache": False}  # fmt: skip

WORKLOADS: tuple[Workload, ...] = (
    *[_matmul(n, n, n) for n in (256, 512, 1024, 2048)],
    _matmul(128, 768, 768), _matmul(128, 768, 3072), _matmul(16, 4096, 4096), _matmul(1, 768, 3072),
    _plain("softmax 128x4096", "operators", lambda: nn.Softmax(-1), 128, 4096),
    _plain("layer norm 128x4096", "operators", lambda: nn.LayerNorm(4096), 128, 4096),
    _plain("elementwise chain 1M", "operators", Chain, 1 << 20),
    _plain("MLP 16-16-16-16", "models", lambda: sequence_mlp(16, 16, 16, 16), 1, 16),
    _plain("MLP 784-256-256-10", "models", lambda: sequence_mlp(784, 256, 256, 10), 1, 784),
    _plain("ResNet-18", "models", vision.resnet18, 1, 3, 224, 224),
    _plain("ResNet-50", "models", vision.resnet50, 1, 3, 224, 224),
    _plain("MobileNetV2", "models", vision.MobileNetV2, 1, 3, 224, 224),
    _plain("LSTM 256, 32 steps", "models", lambda: First(nn.LSTM(256, 256, batch_first=True)), 1, 32, 256),
    Workload("BERT-base 128", "models", _tokens("Bert", 128)),
    Workload("GPT-2 64", "models", _tokens("GPT2", 64, use_cache=False)),
    Workload("GPT-2 one token, cache 64", "models", lambda: _decode(64)),
    Workload("Llama-style 512x8 64", "models", _tokens("Llama", 64, **_LLAMA)),
    Workload("ViT-B/16", "models", lambda: (_transformer("ViT", {}), (torch.randn(1, 3, 224, 224),))),
)  # fmt: skip


class First(nn.Module):
    """The first output of a module that gives several."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


def sequence_mlp(*widths: int) -> nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


__all__ = ["WORKLOADS", "Workload", "sequence"]
