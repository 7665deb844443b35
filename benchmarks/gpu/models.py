"""Whole models in float16: ResNet-50, an encoder of BERT-base's size, a step of decoding with a cache. Imported where torch is."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import unity
from benchmarks.gpu.rows import UNITY, Row, Run, Setting, measured

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "examples"))
from models.sequence import MLP, TransformerEncoder
from models.vision import resnet50


class DecoderLayer(nn.Module):
    """A layer as Llama has them, for one new token: grouped heads that look at a cache, a gated perceptron."""

    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.before, self.after = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = [nn.Linear(width, groups * self.size, bias=False) for _ in range(2)]
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = [nn.Linear(width, inner, bias=False) for _ in range(2)]
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        y = self.before(x)
        k = torch.cat([keys, self.key(y).view(1, 1, self.groups, self.size).transpose(1, 2)], 2)
        v = torch.cat([values, self.value(y).view(1, 1, self.groups, self.size).transpose(1, 2)], 2)
        each = self.heads // self.groups
        q = self.query(y).view(1, self.groups, each, self.size)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).reshape(1, 1, -1))
        y = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """One step: the layers, then the scores of the tokens."""

    def __init__(self, layers: int, width: int, heads: int, groups: int, inner: int, tokens: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(width, heads, groups, inner) for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, tokens, bias=False)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x, keys[number], values[number])
        return self.head(self.norm(x))


class Model(NamedTuple):
    """``make`` gives the model and its inputs in float32; those that hold no floats stay as they are."""

    name: str
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    wanted: dict[str, float]
    sizes: tuple[str, ...]


def _decoder(layers: int, width: int, heads: int, groups: int, inner: int, tokens: int, length: int) -> Any:
    cache = [torch.randn(layers, 1, groups, length, width // heads) for _ in range(2)]
    return Decoder(layers, width, heads, groups, inner, tokens), (torch.randn(1, 1, width), *cache)


def _bert(batch: int) -> Any:
    return TransformerEncoder(30522, 768, 12, 12, 512), (torch.randint(1, 1000, (batch, 128)),)


_MODEL, _DECODE = {"torch": 1.2, "torch.compile": 1.0}, {"torch": 1.5}
_BOTH = ("full", "quick")
MODELS = (
    Model("ResNet-50, batch 1", lambda: (resnet50(), (torch.randn(1, 3, 224, 224),)), _MODEL, _BOTH),
    Model("ResNet-50, batch 32", lambda: (resnet50(), (torch.randn(32, 3, 224, 224),)), _MODEL, ("full",)),
    Model("BERT-base's size, batch 1", lambda: _bert(1), _MODEL, _BOTH),
    Model("BERT-base's size, batch 32", lambda: _bert(32), _MODEL, ("full",)),
    Model("decode, 8 layers of 4096, 1024 tokens", lambda: _decoder(8, 4096, 32, 8, 14336, 32000, 1024), _DECODE, _BOTH),
    Model("perceptron", lambda: (MLP(8, 8, 4), (torch.randn(2, 8),)), _MODEL, ("tiny",)),
    Model("decode", lambda: _decoder(1, 16, 4, 2, 32, 20, 3), _DECODE, ("tiny",)),
)  # fmt: skip


def model_row(model: Model, setting: Setting) -> Row:
    """A model beside torch eager and torch.compile. An emulated device gets float32 and is compared with torch on the processor."""
    torch.manual_seed(0)
    made, inputs = model.make()
    made = made.eval()
    on_device = setting.torch is not None
    row = Row(model.name, notes=dict(setting.notes), wanted=model.wanted)
    row.notes.pop("Triton", None)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = made.cuda()(*[x.cuda() for x in inputs]) if on_device else made(*inputs)
        if on_device:
            made, inputs = made.half(), tuple([x.cuda().half() if x.is_floating_point() else x.cuda() for x in inputs])
        makers: dict[str, Callable[[], Run]] = {
            UNITY: lambda: _ours(made, inputs, setting.target, on_device, graphs=True),
            f"{UNITY}, kernel by kernel": lambda: _ours(made, inputs, setting.target, on_device, graphs=False),
        }
        if on_device:
            fast = torch.compile(made, mode=setting.mode, dynamic=False)
            makers |= {"torch": lambda: lambda: made(*inputs), "torch.compile": lambda: lambda: fast(*inputs)}
        return measured(row, makers, lambda found: _difference(found, expected), setting)


def _ours(model: nn.Module, inputs: tuple[Tensor, ...], target: str, on_device: bool, graphs: bool) -> Run:
    with unity.transform.PassContext(config={"relax.backend.use_cuda_graph": graphs}):
        compiled: Any = unity.compile(model, example_inputs=inputs, target=target)
    if on_device:
        return lambda: compiled(*inputs)
    arrays = [x.numpy() for x in inputs]
    return lambda: compiled.vm["main"](*arrays)


def _difference(found: Any, expected: Tensor) -> str:
    """What is wrong with a result, by the error against float32 in the mean; a model in float16 has 1e-2 and less."""
    made = found.numpy() if isinstance(found, unity.Tensor) else (found[0] if isinstance(found, tuple) else found)
    values = np.asarray(made.detach().float().cpu() if isinstance(made, Tensor) else made, "float64")
    wanted = expected.float().cpu().numpy().astype("float64")
    if values.shape != wanted.shape:
        return f"shape {values.shape} instead of {wanted.shape}"
    error = float(np.sqrt(np.mean((values - wanted) ** 2) / np.mean(wanted**2)))
    return "" if error < 2e-2 else f"relative error {error:.3g}"
