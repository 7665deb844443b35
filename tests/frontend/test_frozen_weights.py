"""``torch.compile`` keeps weights packed and sees every change of them: writes, replacements, ``.data``, layers that share one graph."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch_models import same  # noqa: E402

from unity.frontend import unity_backend  # noqa: E402
from unity.frontend.torch import dynamo, frozen_weights  # noqa: E402
from unity.frontend.torch.frozen_weights import PATIENCE, SHORT_LIFE, FrozenWeights  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
nn = torch.nn


class Net(nn.Module):
    """A folded convolution, a packed matrix, a bias read as it is, and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16)
        self.last = nn.Linear(16 * 36, 64)
        self.table = nn.Parameter(torch.randn(64))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm(self.conv(x)))
        return self.last(y.flatten(1)) + self.table


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[FrozenWeights[Any]]:
    """The graphs with frozen weights that a test makes."""
    made: list[FrozenWeights[Any]] = []

    class Noted(FrozenWeights[Any]):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.extend([self] if self.params else [])

    monkeypatch.setattr(dynamo, "FrozenWeights", Noted)
    torch._dynamo.reset()
    torch.manual_seed(0)
    return made


def packed(graph: FrozenWeights[Any]) -> bool:
    """Does the last call run with its weights in the program?"""
    return graph.last is not None and graph.last.program is not None


def load(net: Any) -> None:
    net.load_state_dict({k: v + 0.1 if v.is_floating_point() else v for k, v in net.state_dict().items()})


def replace(net: Any) -> None:
    net.last.weight = nn.Parameter(net.last.weight * 1.5)


def assign(net: Any) -> None:
    net.load_state_dict({k: v * 1.5 if v.is_floating_point() else v for k, v in net.state_dict().items()}, assign=True)


def data_replaced(net: Any) -> None:
    net.last.weight.data = net.last.weight.data * 2


def data_written(net: Any) -> None:
    net.conv.weight.data += 0.25


def merged(net: Any) -> None:
    net.last.weight.data += torch.randn(64, 2) @ torch.randn(2, net.last.in_features)


def one_element(net: Any) -> None:
    with torch.no_grad():
        net.last.weight[5, 7] += 100


def read_in_place(net: Any) -> None:
    net.table.data[3] += 7


def statistics(net: Any) -> None:
    net.norm.running_var.mul_(3)


def train(net: Any) -> None:
    net.train()
    net(torch.randn(2, 3, 8, 8)).square().mean().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    net.zero_grad()
    net.eval()


CHANGES = [load, replace, assign, data_replaced, data_written, merged, one_element, read_in_place, statistics, train]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_every_change_shows(mode: Callable[[], Any], graphs: list[FrozenWeights[Any]]) -> None:
    net, x = Net().eval(), torch.randn(2, 3, 8, 8)
    run = torch.compile(net, backend=unity_backend)
    for change in CHANGES:
        before = net(x).detach()
        with mode():
            same(run(x), before)
        change(net)
        with mode():
            expected = net(x)
            assert not torch.allclose(expected, before)
            for _ in range(SHORT_LIFE):
                same(run(x), expected)
    assert len(graphs) == 1 and packed(graphs[0]), "every change is packed anew, by one build"


def test_weights_are_packed_not_read(graphs: list[FrozenWeights[Any]]) -> None:
    """The conditions under which the other tests test something."""
    net, x = Net().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        same(torch.compile(net, backend=unity_backend)(x), net(x))
    (graph,) = graphs
    assert packed(graph) and graph.last is not None
    watched = len(graph.last.samples)
    assert 0 < watched < len(graph.params), "some weights are packed, others read where torch has them"


def test_training_graphs_and_the_option_keep_weights_as_inputs(graphs: list[FrozenWeights[Any]]) -> None:
    net, x = Net().eval(), torch.randn(2, 3, 8, 8)
    same(torch.compile(net, backend=unity_backend)(x), net(x))
    torch._dynamo.reset()
    with torch.no_grad():
        same(torch.compile(net, backend=unity_backend, options={"freezing": False})(x), net(x))
    assert not graphs


def test_weights_that_change_at_every_call_become_inputs_until_they_rest(graphs: list[FrozenWeights[Any]]) -> None:
    net, x = nn.Linear(64, 64), torch.randn(4, 64)
    run = torch.compile(net, backend=unity_backend)
    with torch.no_grad():
        for _ in range(PATIENCE + 3):
            net.weight.mul_(1.01)
            same(run(x), net(x))
        assert not packed(graphs[0])
        for _ in range(100):
            same(run(x), net(x))
        assert packed(graphs[0])


class Layer(nn.Module):
    """One of many that torch compiles once and calls with the weights of each."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(48, 48)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.inner(x))


def test_one_graph_for_many_layers(graphs: list[FrozenWeights[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_weights, "MOST_SETS", 3)
    net, x = nn.Sequential(*[Layer() for _ in range(4)]), torch.randn(4, 48)
    with torch.no_grad():
        expected = net(x)
        for layer in net:
            layer.compile(backend=unity_backend)
        for _ in range(2):
            same(net(x), expected)
        net[1].inner.weight.zero_()
        got = net(x)
        for layer in net:
            layer._compiled_call_impl = None
        same(got, net(x))
    (graph,) = graphs
    assert [s.program is not None for s in graph.sets.values()] == [True] * 3 and not packed(graph)


class Halves(nn.Module):
    """Two graphs that read one weight, with a break between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        x = self.layer(x)
        torch._dynamo.graph_break()
        return self.layer(torch.relu(x))


def test_graphs_share_packed_weights(graphs: list[FrozenWeights[Any]]) -> None:
    net, x = Halves(), torch.randn(4, 64)
    run = torch.compile(net, backend=unity_backend)
    with torch.no_grad():
        for _ in range(2):
            same(run(x), net(x))
            first, second = [g.last.program.constants for g in graphs if g.last and g.last.program]
            assert len(first & second) >= 1
            net.layer.weight.mul_(2)


def test_tied_weights(graphs: list[FrozenWeights[Any]]) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(40, 32), nn.Linear(32, 40, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: Any) -> Any:
            return self.head(self.table(ids))

    net, ids = Tied(), torch.randint(0, 40, (2, 5))
    run = torch.compile(net, backend=unity_backend)
    with torch.no_grad():
        same(run(ids), net(ids))
        net.table.weight[:, 1] = 3
        same(run(ids), net(ids))
        net.table.weight.data.mul_(-1)
        same(run(ids), net(ids))
        net.head.weight = nn.Parameter(torch.randn(40, 32))  # two tensors now: torch traces another graph
        same(run(ids), net(ids))


def test_memory_is_given_back(graphs: list[FrozenWeights[Any]]) -> None:
    net, x = nn.Linear(256, 256), torch.randn(8, 256)
    run = torch.compile(net, backend=unity_backend)
    with torch.no_grad():
        gc.collect()
        before = len(frozen_weights._MADE)
        for _ in range(3):
            same(run(x), net(x))
            gc.collect()
            assert len(frozen_weights._MADE) == before + 1, "one copy, of the present weights"
            net.weight.mul_(2)
        (graph,) = graphs
        kept = weakref.ref(net.weight)
    del net, run
    gc.collect()
    assert kept() is None and graph.last is None and not graph.sets and len(frozen_weights._MADE) == before


def test_threads(graphs: list[FrozenWeights[Any]]) -> None:
    nets, x = [nn.Linear(64, 64) for _ in range(2)], torch.randn(4, 64)
    runs = [torch.compile(net, backend=unity_backend) for net in nets]
    wrong: list[BaseException] = []
    with torch.no_grad():
        for run in runs:
            run(x)

    def work(k: int) -> None:
        try:
            with torch.no_grad():
                for step in range(30):
                    if step % 10 == 9:
                        nets[k].weight.mul_(1.1)
                    same(runs[k](x), nets[k](x))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_weights_in_other_layouts_and_types(graphs: list[FrozenWeights[Any]]) -> None:
    net = Net().eval().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            net, x = net.to(dtype), torch.randn(2, 3, 8, 8).to(dtype)
            run = torch.compile(net, backend=unity_backend)
            for _ in range(2):
                torch.testing.assert_close(run(x), net(x), rtol=3e-2, atol=3e-2)
                net.conv.weight.mul_(2)
            net.conv.weight.mul_(0.25)
