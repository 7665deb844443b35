"""What models write to and what they return besides tensors: buffers, inputs, objects, caches."""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import from_exported_program  # noqa: E402
from unity.frontend.torch.runtime.structures import flatten, unflatten  # noqa: E402
from unity.ir.verifier.verifier import verify  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class StaticCache(torch.nn.Module):
    """Attention over keys and values kept in buffers of fixed length, written at a position."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(1, 6, 8))
        self.register_buffer("values", torch.zeros(1, 6, 8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Any, at: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(1, at, k)
        self.values[:, at] = v
        self.seen += 1
        mask = torch.arange(6) <= at
        return torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)


def test_buffers_are_updated_token_by_token() -> None:
    torch.manual_seed(0)
    model, reference = StaticCache().eval(), StaticCache().eval()
    reference.load_state_dict(model.state_dict())
    compiled = unity.compile(model, example_inputs=(torch.randn(1, 1, 8), torch.tensor([0])))
    assert list(compiled.module["main"].attrs["updates"]) == ["keys", "values", "seen"]
    keys = model.keys
    for step in range(4):
        x, at = torch.randn(1, 1, 8), torch.tensor([step])
        same(compiled(x, at), reference(x, at).detach())
    assert model.keys is keys and model.seen == 4
    same(model.keys, reference.keys.detach())


def test_written_inputs() -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            before = y.clone()
            y[1:] += x
            return x.add_(1) * 2, before

    x, y = torch.randn(3, 2), torch.randn(4, 2)
    compiled = unity.compile(Writes(), example_inputs=(x.clone(), y.clone()))
    mine, other = (x.clone(), torch.cat([y, y], 1)[:, :2]), (x.clone(), y.clone())
    same(compiled(*mine), Writes()(*other))
    same(mine, other)


def test_results_do_not_share_memory_with_inputs_or_weights() -> None:
    class Clones(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.ones(3))

        def forward(self, x: Any) -> Any:
            return x.clone(), self.table.clone(), x.reshape(3, 1) + 0, self.table * 2

    model, x = Clones(), torch.zeros(3)
    compiled = unity.compile(model, example_inputs=(x,))
    for value in compiled(x):
        value.fill_(7)
    assert x.tolist() == [0, 0, 0] and model.table.tolist() == [1, 1, 1]
    assert compiled(x)[3].tolist() == [2, 2, 2]  # folded at compile time: a constant of the program


def test_module_with_state_verifies() -> None:
    program = torch.export.export(StaticCache().eval(), (torch.randn(1, 1, 8), torch.tensor([0])))
    mod = from_exported_program(program)
    verify(mod)
    assert [p.name for p in mod["main"].params][:2] == ["x", "at"] and len(mod["main"].params) == 5


class Kind(enum.Enum):
    OLD = 1


@dataclass
class Answer:
    value: Any
    rest: list[Any]
    kind: Kind = Kind.OLD


class Cache:
    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.dtype = torch.float32

    def add(self, x: Any) -> Any:
        self.layers.append(x)
        return sum(self.layers)


class Objects(torch.nn.Module):
    def forward(self, x: Any, cache: Any) -> Any:
        y = cache.add(x * 2)
        return Answer(y, [{"cache": cache}, None, 3])


def test_objects_in_and_out() -> None:
    def cache() -> Any:
        made = Cache()
        made.add(torch.ones(2))
        return made

    x = torch.randn(2)
    compiled = unity.compile(Objects(), example_inputs=(x, cache()))
    found, expected = compiled(x, cache()), Objects()(x, cache())
    assert type(found) is Answer and found.kind is Kind.OLD and found.rest[1:] == [None, 3]
    same(found.value, expected.value)
    assert type(found.rest[0]["cache"]) is Cache and found.rest[0]["cache"].dtype is torch.float32
    same(found.rest[0]["cache"].layers, expected.rest[0]["cache"].layers)
    with pytest.raises(unity.UnityError, match="E017"):
        compiled(x, Cache())


class Counter:
    """A state with a number that a program is exported for."""

    def __init__(self, steps: int) -> None:
        self.layers = [{"steps": steps, "value": torch.ones(2)}]


class Counts(torch.nn.Module):
    def forward(self, x: Any, state: Any) -> Any:
        return x + state.layers[0]["value"] * state.layers[0]["steps"]


def test_another_number_in_an_object_is_named() -> None:
    x = torch.randn(2)
    compiled = unity.compile(Counts(), example_inputs=(x, Counter(2)))
    same(compiled(x, Counter(2)), x + 2)
    with pytest.raises(unity.UnityError, match="steps is 3, not 2"):
        compiled(x, Counter(3))


def test_objects_of_programs_that_are_traced_again() -> None:
    """torch copies the structure of results where it decomposes a program: here for the write to a view."""

    class Writes(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            cache = Cache()
            cache.add(torch.zeros_like(x))
            cache.layers[0][1:] = x[1:]
            return cache

    x = torch.randn(3)
    found = unity.compile(Writes(), example_inputs=(x,))(x)
    assert type(found) is Cache
    same(found.layers, Writes()(x).layers)
    template = flatten(found)[1]
    assert unflatten([x], copy.deepcopy(template)).layers == [x]


def test_objects_that_hold_no_data() -> None:
    made = Cache()
    made.layers.append(torch.nn.Linear(1, 1))
    with pytest.raises(unity.UnityError, match="holds a Linear") as caught:
        flatten(made)
    assert caught.value.code == "E961"
    leaves, template = flatten(Answer(torch.ones(1), [2]))
    assert unflatten(leaves, template) == Answer(leaves[0], [2])


class Twice(torch.nn.Module):
    """Tensors that are attributes of an object and buffers too, as the static caches of models made for export."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Cache()
        self.held.layers = [torch.zeros(3, 2), torch.zeros((), dtype=torch.int64)]
        self.register_buffer("rows", self.held.layers[0], persistent=False)
        self.register_buffer("count", self.held.layers[1])

    def forward(self, x: Any, at: Any) -> Any:
        rows, count = self.held.layers
        rows.index_copy_(0, at, x)
        count.add_(1)
        return rows * count


def test_a_tensor_held_twice_is_one_state() -> None:
    model, reference = Twice(), Twice()
    compiled = unity.compile(model, example_inputs=(torch.ones(1, 2), torch.tensor([1])))
    for buffer in model.buffers():
        buffer.zero_()  # torch runs writes to an attribute while it exports
    for row in range(3):
        x, at = torch.randn(1, 2), torch.tensor([row])
        same(compiled(x, at), reference(x, at))
        same(list(model.buffers()), list(reference.buffers()))


def test_an_exported_program_stays_as_it_was_given() -> None:
    program = torch.export.export(Twice(), (torch.ones(1, 2), torch.tensor([1])))
    before = str(program.graph), str(program.graph_signature), set(program.constants)
    unity.frontend.from_exported_program(program)
    assert before == (str(program.graph), str(program.graph_signature), set(program.constants))
