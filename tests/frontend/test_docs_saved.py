"""Everything docs/torch.md compiles can be saved and loaded: its blocks, walked through, and the models its text speaks of."""

from __future__ import annotations

import copy
import importlib.util
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch._higher_order_ops import associative_scan, map as torch_map, scan, while_loop  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402
from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend.torch.runtime.model import TorchModel  # noqa: E402
from unity.support.errors import ArtifactError  # noqa: E402

PAGE = (Path(unity.__file__).parents[1] / "docs" / "torch.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
REFUSED = 1
"""Calls of ``unity.compile`` on the page that are there to show an error."""


def copied(value: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, value)


def check_saved(f: Any, calls: list[tuple[Any, Any]], path: Path, given_up: bool = False) -> None:
    """What a model saved and loaded gives for the calls is what it gives itself, its state included. Compiled again it is too, but
    where its weights were given up."""
    f.save(path)
    if given_up or f.original() is None:
        with pytest.raises(ArtifactError, match="E804"):
            unity.load_model(path, trust=False)
    for trust in (True,) if given_up or f.original() is None else (True, False):
        twin, g = copy.deepcopy(f), unity.load_model(path, trust=trust)
        for args, kwargs in calls:
            torch.manual_seed(7)
            expected = twin(*copied(args), **copied(kwargs))
            torch.manual_seed(7)
            same(g(*copied(args), **copied(kwargs)), expected)
        assert list(g.state) == list(twin.state)
        for name, value in g.state.items():
            same(value, twin.state[name])


def test_the_blocks_of_the_page(tmp_path, monkeypatch) -> None:
    """In order, in one module, as a reader runs them; each compiled model is saved where its block ends."""
    compiled: list[Any] = []
    given_up: list[bool] = []
    calls: dict[int, list[Any]] = {}
    plain, called = unity.compile, TorchModel.__call__

    def compile_and_note(*args: Any, **kwargs: Any) -> Any:
        compiled.append(plain(*args, **kwargs))
        given_up.append(kwargs.get("discard_parameters", False))
        if isinstance(compiled[-1], TorchModel):
            calls[id(compiled[-1])] = [(copied(kwargs["example_inputs"]), {})]
        return compiled[-1]

    def call_and_note(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = called(self, *args, **kwargs)
        calls.setdefault(id(self), []).append((copied(args), copied(kwargs)))
        return result

    class Machine(unity.VirtualMachine):
        def __getitem__(self, name: str) -> Any:
            function = super().__getitem__(name)

            def call(*args: Any) -> Any:
                calls.setdefault(id(self.executable), []).append((name, args))
                return function(*args)

            return call

    monkeypatch.setattr(unity, "compile", compile_and_note)
    monkeypatch.setattr(unity, "VirtualMachine", Machine)
    monkeypatch.setattr(TorchModel, "__call__", call_and_note)
    monkeypatch.chdir(tmp_path)
    text = "\n".join([block + f"\nended({number})\n" for number, block in enumerate(BLOCKS)])
    (tmp_path / "page.py").write_text(text)
    spec = importlib.util.spec_from_file_location("torch_page", tmp_path / "page.py")
    page = importlib.util.module_from_spec(spec)
    seen: list[int] = []

    def ended(number: int) -> None:
        """After a block: what it compiled."""
        for f in compiled[len(seen) :]:
            path = tmp_path / f"{len(seen)}.unity"
            seen.append(number)
            assert calls.get(id(f)), f"block {number} calls a program that it compiles"
            if isinstance(f, TorchModel):
                check_saved(f, list(calls[id(f)]), path, given_up[len(seen) - 1])
                continue
            f.save(path)
            for name, args in list(calls[id(f)]):
                given, expected = plain_machine(unity.load(path))[name](*args), plain_machine(f)[name](*args)
                same(given.torch(), expected.torch())

    plain_machine = Machine.__mro__[1]
    page.ended = ended
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(page)
    wanted = sum([block.count("unity.compile(") for block in BLOCKS]) - REFUSED
    assert len(seen) == wanted >= 6


class Body(nn.Module):
    """A model of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class Static(nn.Module):
    """A cache that the model writes to, and a parameter in complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, 8))
        self.register_buffer("phase", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        self.keys.index_copy_(0, self.step.view(1) % 4, x)
        self.step += 1
        self.phase.mul_(1j)
        return self.keys @ x.T, self.phase.real


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids: Any) -> Any:
        return self.out(self.table(ids))


class Kernel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stride", torch.tensor(2))

    def forward(self, x: Any) -> Any:
        return x[:, :: int(self.stride)]


def windows(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")))


def each(function: Any) -> Any:
    return Body(function)


x, heads = torch.randn(3, 8), (torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8))
TEXT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "`torch.cond` | a conditional": (each(lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))), (x,)),
    "`while_loop`": (each(lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))), (x,)),
    "`scan`": (each(lambda x: scan(lambda c, r: (c + r, c * r), torch.zeros(8), x)), (x,)),
    "`map` (of": (each(lambda x: torch_map(lambda r: r.exp() + 1, x)), (x,)),
    "`associative_scan`": (each(lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")), (x,)),
    "`torch.vmap`": (each(lambda x: torch.vmap(lambda r: r.softmax(0))(x)), (x,)),
    "`flex_attention` | the fused attention": (each(windows), heads),
    "that depend on data": (each(lambda x: (x[x > 0], torch.nonzero(x))), (x,)),
    "a static key-value cache": (Static(), (torch.randn(1, 8),)),
    "sizes computed from scalar integer buffers": (Kernel(), (x,)),
    "An embedding table tied to a matrix": (Tied(), (torch.tensor([[1, 2, 3]]),)),
    "complex inputs, results and state": (each(lambda z: z * z.conj() + 1j), (torch.randn(3, 4, dtype=torch.complex64),)),
    "`torch.fft`, `stft`, `istft`": (each(lambda x: torch.fft.rfft(x).abs()), (x,)),
    "`R.nn.lstm`": (nn.LSTM(8, 4, batch_first=True), (torch.randn(2, 3, 8),)),
    "random numbers | are drawn": (each(lambda x: torch.rand_like(x) + x), (x,)),
    "all of `torch.linalg`": (each(lambda x: torch.linalg.eigvals(x @ x.T).abs().sort().values), (x,)),
    "`forward` writes to stays": (each(lambda x: x.add_(1).mul(2)), (x.clone(),)),
    "dicts, dataclasses and objects": (each(lambda d: {"sum": [d["a"] + d["b"][0]], "size": (3, None)}), ({"a": x, "b": (x,)},)),
}  # fmt: skip
"""Of what the text of the page says: a model."""


@pytest.mark.parametrize("said", TEXT)
def test_the_models_the_text_speaks_of(said, tmp_path) -> None:
    assert re.sub(r"\s+", " ", said) in re.sub(r"\s+", " ", PAGE)
    model, inputs = TEXT[said]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = unity.compile(model.eval(), example_inputs=copied(inputs))
    check_saved(f, [(inputs, {})] * 2, tmp_path / "model")
