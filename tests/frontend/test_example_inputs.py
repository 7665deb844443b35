"""Example inputs and sizes as promises: tensors given twice, shared memory, ranges of ``Dim``, squeezed axes, shapes that clash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.export import Dim  # noqa: E402
from torch_models import same  # noqa: E402

import unity  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Weighted(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a + 2 * b


class Accumulate(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a.add_(b)


class Squeeze(torch.nn.Module):
    def forward(self, a: Any) -> Any:
        return a.squeeze(0) * 2


def message(run: Callable[[], Any]) -> str:
    with pytest.raises(unity.UnityError) as caught:
        run()
    return str(caught.value)


def test_one_tensor_given_twice_stands_for_two() -> None:
    x, a, b = (torch.randn(3) for _ in range(3))
    same(unity.compile(Weighted().eval(), example_inputs=(x, x))(a, b), a + 2 * b)
    linear = torch.nn.Linear(4, 3, bias=False).eval()
    compiled = unity.compile(linear, example_inputs=(linear.weight,))
    other = torch.randn(3, 4)
    same(compiled(other), linear(other).detach())


def test_written_inputs_that_share_memory_are_refused() -> None:
    compiled = unity.compile(Accumulate().eval(), example_inputs=(torch.ones(3), torch.ones(3)))
    both = torch.ones(6)
    assert "E970" in message(lambda: compiled(both[:3], both[1:4]))
    compiled(both[:3], both[3:])
    same(both, torch.tensor([2.0, 2, 2, 1, 1, 1]))


class Added(torch.nn.Module):
    """Adds to its input, then reads a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return self.weight * 3 + x


def test_written_inputs_in_the_memory_of_weights_are_refused() -> None:
    model = Added().eval()
    compiled = unity.compile(model, example_inputs=(torch.ones(3),))
    assert "its weight weight" in message(lambda: compiled(model.weight.data))
    same(model.weight.detach(), torch.ones(3))
    same(compiled(torch.zeros(3)), torch.full((3,), 4.0))


class Counter(torch.nn.Module):
    """Adds to a buffer before it reads its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(6))

    def forward(self, a: Any) -> Any:
        self.state.add_(1)
        return a[:2] + 10 * self.state[:2]


@pytest.mark.parametrize("rows", [slice(None), slice(1, 5), slice(0, 6, 2)], ids=["all", "part", "strides"])
def test_an_input_in_the_memory_of_a_written_buffer_is_refused(rows: slice) -> None:
    model = Counter().eval()
    compiled = unity.compile(model, example_inputs=(torch.ones(6)[rows],))
    assert "the model writes to state" in message(lambda: compiled(model.state[rows]))
    same(compiled(model.state[rows].clone()), torch.tensor([21.0, 21]))


def test_a_least_size_of_two_is_a_promise_when_the_user_gives_it() -> None:
    x = torch.randn(4, 3)
    shapes: Any = ({0: Dim("batch", min=2, max=8)}, {0: Dim("batch", min=2, max=8)})
    compiled = unity.compile(Weighted().eval(), example_inputs=(x, x), dynamic_shapes=shapes)
    compiled(x[:2], x[:2])
    text = message(lambda: compiled(x[:1], x[:1]))
    assert "a.shape[0] must be at least 2 and at most 8, got 1" in text
    free = unity.compile(Weighted().eval(), example_inputs=(x, x), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    same(free(x[:1], x[:1]), 3 * x[:1])


def test_a_squeezed_axis_of_symbolic_size_may_not_be_one() -> None:
    compiled = unity.compile(Squeeze().eval(), example_inputs=(torch.randn(4, 3),), dynamic_shapes=({0: Dim("n")},))
    assert compiled(torch.ones(2, 3)).shape == (2, 3)
    assert "expected a.shape[0] != 1" in message(lambda: compiled(torch.ones(1, 3)))


def test_two_dimensions_that_must_be_equal() -> None:
    x = torch.randn(4, 3)
    options: Any = {"example_inputs": (x, x), "dynamic_shapes": ({0: Dim("m")}, {0: Dim("n")})}
    text = message(lambda: unity.compile(Weighted().eval(), **options))
    assert "must always be equal" in text and "the same torch.export.Dim" in text


def test_shapes_that_clash_inside_a_module_of_torch_name_it() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Sequential(torch.nn.Linear(4, 4)))
    text = message(lambda: unity.compile(model.eval(), example_inputs=(torch.randn(3, 4),)))
    assert "it fails in 1.0 (Linear)" in text
    meta = torch.nn.Linear(4, 4, device="meta")
    assert "to_empty" in message(lambda: unity.compile(meta.eval(), example_inputs=(torch.randn(3, 4),)))
