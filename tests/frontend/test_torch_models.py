"""Torch models through both importers and unity.compile, against torch eager."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_models import CNN, MLP, Encoder, same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import detach_params, from_exported_program, from_fx, unity_backend  # noqa: E402
from unity.frontend.torch.capture.trace import functional  # noqa: E402
from unity.ir.expr import Constant  # noqa: E402
from unity.ir.structural import structural_equal  # noqa: E402
from unity.ir.verifier.verifier import verify  # noqa: E402
from unity.ir.walk import collect  # noqa: E402
from unity.script.reader.module import parse  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (MLP, lambda: torch.randn(3, 8)),
    "cnn": (CNN, lambda: torch.randn(2, 3, 20, 20)),
    "encoder": (Encoder, lambda: torch.randint(1, 50, (2, 7))),
}


def run(mod: Any, *inputs: Any) -> Any:
    return unity.VirtualMachine(unity.build(mod))["main"](*inputs)


def constants(mod: Any) -> list[Constant]:
    return collect(mod, Constant)


@pytest.mark.parametrize("name", MODELS)
def test_compile(name: str) -> None:
    make, sample = MODELS[name]
    model, x = make().eval(), sample()
    compiled = unity.compile(model, example_inputs=(x,), strict=True)
    same(compiled(x), model(x).detach())
    assert compiled.report.fallbacks == [] and compiled.report.imported > 0


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_from_fx(name: str) -> None:
    make, sample = MODELS[name]
    model, x = make().eval(), sample()
    graph = torch.fx.symbolic_trace(model)
    mod = from_fx(graph, [(tuple(x.shape), "float32")], unwrap_unit_return_tuple=True)
    verify(mod)
    same(run(mod, x).torch(), model(x).detach())


def test_from_fx_symbolic_batch() -> None:
    model = CNN().eval()
    mod = from_fx(torch.fx.symbolic_trace(model), [(("n", 3, 16, 16), "float32")], unwrap_unit_return_tuple=True)
    main = unity.VirtualMachine(unity.build(mod))["main"]
    for batch in (1, 3, 5):
        x = torch.randn(batch, 3, 16, 16)
        same(main(x).torch(), model(x).detach())


def test_dynamic_batch_and_length_in_one_build() -> None:
    model = Encoder().eval()
    dim = torch.export.Dim
    shapes = ({0: dim("batch"), 1: dim("length", max=60)},)
    compiled = unity.compile(model, example_inputs=(torch.randint(1, 50, (2, 7)),), dynamic_shapes=shapes, strict=True)
    for batch, length in ((1, 1), (2, 7), (3, 33)):
        ids = torch.randint(1, 50, (batch, length))
        ids[0, length // 2 + 1 :] = 0
        same(compiled(ids), model(ids).detach())


class Causal(torch.nn.Module):
    """Attention over a key-value cache of another, symbolic length."""

    def forward(self, q: Any, cache: Any) -> Any:
        keys = torch.cat([cache["k"], q], 2)
        mask = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - q.shape[2])
        return torch.nn.functional.scaled_dot_product_attention(q, keys, keys, attn_mask=mask), {"k": keys}


def test_key_value_cache_of_symbolic_length() -> None:
    dim = torch.export.Dim
    shapes = ({2: dim("n")}, {"k": {2: dim("past")}})
    example = (torch.randn(1, 2, 4, 8), {"k": torch.randn(1, 2, 6, 8)})
    compiled = unity.compile(Causal(), example_inputs=example, dynamic_shapes=shapes, strict=True)
    for new, past in ((1, 9), (5, 0), (3, 4)):
        q, cache = torch.randn(1, 2, new, 8), {"k": torch.randn(1, 2, past, 8)}
        same(compiled(q, cache), Causal()(q, cache))


def test_ranges_are_checked_on_entry() -> None:
    dim = torch.export.Dim("batch", min=4, max=9)
    compiled = unity.compile(MLP().eval(), example_inputs=(torch.randn(5, 8),), dynamic_shapes=({0: dim},))
    (limits,) = compiled.module["main"].attrs["range_constraints"].values()
    assert limits == (4, 9)
    assert compiled(torch.randn(9, 8)).shape == (9, 4)
    for wrong in (3, 10):
        with pytest.raises(unity.UnityError, match=rf"x.shape\[0\] must be at least 4 and at most 9, got {wrong}"):
            compiled(torch.randn(wrong, 8))


def test_sizes_derived_from_a_symbol() -> None:
    class Pairs(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.view(-1, 2, 4).sum(1)

    dim = 2 * torch.export.Dim("k", max=10)
    compiled = unity.compile(Pairs(), example_inputs=(torch.randn(4, 4),), dynamic_shapes=({0: dim},), strict=True)
    for size in (2, 8):
        x = torch.randn(size, 4)
        same(compiled(x), Pairs()(x))
    for wrong in (7, 22):
        with pytest.raises(unity.UnityError, match="E635"):
            compiled(torch.randn(wrong, 4))


def test_printed_module_parses_back() -> None:
    program = torch.export.export(MLP().eval(), (torch.randn(3, 8),))
    mod, _ = detach_params(from_exported_program(program, keep_params_as_input=True))
    assert structural_equal(parse(mod.script()), mod)


def test_weights_are_shared_not_copied() -> None:
    model = MLP().eval()
    mod = from_exported_program(torch.export.export(model, (torch.randn(3, 8),)))
    arrays = [c.data.numpy() for c in constants(mod)]
    for weight in model.parameters():
        assert any([np.shares_memory(a, weight.detach().numpy()) for a in arrays])


def test_params_as_inputs() -> None:
    model, x = MLP().eval(), torch.randn(3, 8)
    mod = from_exported_program(
        torch.export.export(model, (x,)), keep_params_as_input=True, unwrap_unit_return_tuple=True
    )
    mod, params = detach_params(mod)
    assert mod["main"].attrs["num_input"] == 1 and "params" not in mod["main"].attrs and len(params["main"]) == 3
    assert constants(mod) == []
    same(run(mod, x, *params["main"]).torch(), model(x).detach())


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = torch.nn.Embedding(11, 6), torch.nn.Linear(6, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any) -> Any:
        return self.head(self.tokens(ids))


def test_tied_weights_are_one_constant() -> None:
    model, ids = Tied().eval(), torch.randint(0, 11, (2, 3))
    program = torch.export.export(model, (ids,))
    mod = from_exported_program(program)
    assert len({id(c.data) for c in constants(mod)}) == 1
    same(run(mod, ids)[0].torch(), model(ids).detach())
    assert len(detach_params(from_exported_program(program, keep_params_as_input=True))[1]["main"]) == 1


class Nested(torch.nn.Module):
    def forward(self, pair: Any, *, scale: Any, mode: str = "sum") -> Any:
        a, b = pair
        return {"sum": a + b * scale, "rest": (a.shape[0], None, [a - b])}


def test_nested_inputs_and_outputs() -> None:
    a, b, scale = torch.randn(2, 3), torch.randn(2, 3), torch.randn(())
    compiled = unity.compile(Nested().eval(), example_inputs=((a, b),), example_kwargs={"scale": scale})
    same(compiled((a, b), scale=scale), Nested()((a, b), scale=scale))
    with pytest.raises(unity.UnityError, match="E017"):
        compiled(a, b, scale=scale)


def test_in_place_on_views_is_functional() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            y[:, 1:3] = 0
            y[0] += 1
            y.view(-1)[3].neg_()
            return y.relu_() + x

    x = torch.randn(4, 5)
    same(unity.compile(InPlace(), example_inputs=(x,))(x), InPlace()(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_backend(dynamic: bool) -> None:
    torch._dynamo.reset()
    model, x = CNN().eval(), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        compiled = torch.compile(model, backend=unity_backend, dynamic=dynamic)
        same(compiled(x), model(x))
        same(compiled(x[:1]), model(x[:1]))


def test_torch_compile_trains_with_backward_in_torch() -> None:
    torch._dynamo.reset()
    model, x = MLP(), torch.randn(3, 8)
    torch.compile(model, backend=unity_backend)(x).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    same(found, [p.grad for p in model.parameters()])


def test_non_contiguous_and_requires_grad_inputs() -> None:
    model, x = MLP().eval(), torch.randn(8, 3, requires_grad=True)
    compiled = unity.compile(model, example_inputs=(torch.randn(3, 8),))
    same(compiled(x.t()), model(x.t()).detach())


def test_backend_entry_point_names_the_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, attribute = project["entry-points"]["torch_dynamo_backends"]["unity"].partition(":")
    assert module == unity_backend.__module__ and attribute == unity_backend.__name__


def test_module_path_and_line_of_every_binding() -> None:
    compiled = unity.compile(Encoder().eval(), example_inputs=(torch.randint(1, 50, (2, 7)),))
    bindings = [b for block in compiled.module["main"].body.blocks for b in block.bindings]
    places = {b.span.place.split(" (")[0] for b in bindings if b.span is not None}
    assert all([b.span is not None for b in bindings[:-1]])  # the last one collects the results
    assert {"tokens", "layers.0.qkv", "layers.1.inner.1", "norm", "the model"} <= places
    text = compiled.script(places=True)
    assert re.search(r"# layers.0.norm1 \(.*torch_models.py:\d+\)\n", text) and "layers_1_qkv_weight" in text
    assert "layers.1.qkv (" in "\n".join(compiled.executable.program.places)


def test_module_path_of_traced_graphs() -> None:
    mod = from_fx(torch.fx.symbolic_trace(CNN().eval()), [((2, 3, 16, 16), "float32")])
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    places = {b.span.place.split(" (")[0] for b in bindings if b.span is not None}
    assert {name for name, m in CNN().named_children() if not isinstance(m, torch.nn.Dropout)} <= places


class InPlace(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.relu_(x + 1).mul_(2)
        z = torch.nn.functional.dropout(x, 0.5, False)
        shared = x * 3
        row = shared[0]
        return y, z.clone().neg_(), row.add_(1), shared


def test_in_place_operators(monkeypatch) -> None:
    x = torch.randn(2, 3)
    model = InPlace()
    same(unity.compile(model, example_inputs=(x,), strict=True)(x), model(x))
    kept = torch.export.export(CNN().eval(), (torch.randn(2, 3, 16, 16),))
    monkeypatch.setattr(type(kept), "run_decompositions", lambda *args: pytest.fail("rewritten by torch"))
    assert "aten.relu_" in str(kept.graph) and "aten.relu_" not in str(functional(kept).graph)
    view = torch.export.export(model, (x,))
    assert functional(view) is not view
