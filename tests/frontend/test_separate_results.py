"""Results share memory where torch's do, and nowhere else: writing to one shows in no other, in no input and in no weight."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.frontend import unity_backend  # noqa: E402


def compiled(model: Any, x: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=unity_backend)


def exported(model: Any, x: Any) -> Any:
    return unity.compile(model, example_inputs=(x,))


class Copies(torch.nn.Module):
    """A clone, a value computed twice, views made compact, an input unchanged, a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1, 5), requires_grad=False)

    def forward(self, x: Any) -> Any:
        y = x * 2
        return y, y.clone(), x * 2, x.clone(), y.reshape(5).clone(), y[:1].clone(), self.weight.clone()


class Nested(Copies):
    def forward(self, x: Any) -> Any:
        return {"all": super().forward(x)}


@pytest.mark.parametrize("how", [compiled, exported])
@pytest.mark.parametrize("kind", [Copies, Nested])
def test_writing_to_one_shows_nowhere_else(how: Any, kind: Any) -> None:
    model, x = kind(), torch.randn(1, 5)
    f = how(model, x)
    before = x.clone(), model.weight.clone()
    made = torch.utils._pytree.tree_leaves(f(x))
    for count, tensor in enumerate(made):
        tensor.fill_(count + 100.0)
    assert [float(t.min()) for t in made] == [float(t.max()) for t in made] == [n + 100.0 for n in range(len(made))]
    assert torch.equal(x, before[0]) and torch.equal(model.weight, before[1])


class Twice(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = x + 1
        return {"last": y, "all": [x * 3, y, True, 1], "flag": True}


@pytest.mark.parametrize("how", [compiled, exported])
def test_one_tensor_given_twice_is_one(how: Any) -> None:
    x = torch.randn(3)
    made = how(Twice(), x)(x)
    made["last"].zero_()
    assert torch.equal(made["all"][1], torch.zeros(3)) and torch.equal(made["all"][0], x * 3)
    assert made["all"][2:] == [True, 1] and type(made["all"][3]) is int and made["flag"] is True


class Broken(torch.nn.Module):
    """torch cuts this in two graphs; the second one writes to what the first one gave."""

    def forward(self, x: Any, mask: Any) -> Any:
        x = x.clone()
        x[mask] = 0
        z = x.clone()
        z[x > 0.5] *= 2
        return x, z


@pytest.mark.filterwarnings("ignore")
def test_a_graph_writes_to_results_of_another() -> None:
    x = torch.linspace(-1, 2, 12).reshape(3, 4)
    for made, wanted in zip(compiled(Broken(), x)(x, x > 1.5), Broken()(x, x > 1.5), strict=True):
        torch.testing.assert_close(made, wanted)
