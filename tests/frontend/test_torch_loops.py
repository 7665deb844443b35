"""``while_loop`` becomes a function that calls itself; it runs any number of times, with symbolic sizes, weights and nested loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch_models import same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import from_exported_program  # noqa: E402
from unity.ir.interpret import run  # noqa: E402
from unity.ir.structural import structural_equal  # noqa: E402
from unity.ir.verifier.verifier import verify  # noqa: E402
from unity.script import parse  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Repeated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any, n: Any) -> Any:
        def cond(i: Any, y: Any) -> Any:
            return i < n

        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.tanh(self.linear(y)) + x

        return while_loop(cond, body, (torch.zeros((), dtype=torch.int64), x * 1))


def test_any_number_of_times() -> None:
    model = Repeated().eval()
    compiled = unity.compile(model, example_inputs=(torch.ones(2, 4), torch.tensor(2)), strict=True)
    assert [name for name, fn in compiled.module.functions.items()] == ["while_loop", "main"]
    assert compiled.module["while_loop"].pure and compiled.module["main"].pure
    x = torch.randn(2, 4)
    for times in (0, 1, 5, 3000):
        n = torch.tensor(times)
        same(list(compiled(x, n)), [v.detach() for v in model(x, n)])
    wanted = [v.detach() for v in model(x, torch.tensor(6))]
    found = run(compiled.module, "main", x.numpy(), np.array(6))
    same([torch.tensor(np.asarray(v)) for v in found], wanted)


@pytest.mark.parametrize("keep", [False, True])
def test_symbolic_sizes_and_weights_as_inputs(keep: bool) -> None:
    model = Repeated().eval()
    shapes = {"x": {0: torch.export.Dim("b")}, "n": None}
    program = torch.export.export(model, (torch.ones(2, 4), torch.tensor(2)), dynamic_shapes=shapes)
    mod = from_exported_program(program, strict=True, keep_params_as_input=keep)
    verify(mod)
    mod, params = unity.frontend.detach_params(mod)
    assert structural_equal(parse(mod.script()), mod)
    machine = unity.VirtualMachine(unity.compile(mod))
    for batch in (1, 3):
        x, n = torch.randn(batch, 4), torch.tensor(4)
        found = machine["main"](x, n, *params.get("main", ()))
        same([torch.tensor(v.numpy()) for v in found], [v.detach() for v in model(x, n)])


class Nested(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        def outer(i: Any, y: Any) -> Any:
            inner = while_loop(lambda j, z: j < 3, lambda j, z: (j + 1, z * 1.5), (i * 0, y))
            return i + 1, torch.cond(inner[1].sum() > 10, lambda z: z - 5, lambda z: z + 1, (inner[1],))

        return while_loop(lambda i, y: (i < 6) & (y.sum() < 1e3), outer, (torch.zeros((), dtype=torch.int64), x))


def test_a_loop_in_a_loop() -> None:
    model = Nested().eval()
    x = torch.tensor([0.5, -0.25, 2.0])
    compiled = unity.compile(model, example_inputs=(x,), strict=True)
    for value in (x, -x, x * 100):
        same(list(compiled(value)), list(model(value)))


def test_two_loops_have_names_of_their_own() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            (first,) = while_loop(lambda y: y.sum() < 50, lambda y: (y * 2,), (x.abs() + 1,))
            (second,) = while_loop(lambda y: y.max() > 1, lambda y: (y / 3,), (first,))
            return first, second

    compiled = unity.compile(Two(), example_inputs=(torch.ones(3),), strict=True)
    assert len(compiled.module.functions) == 3
    x = torch.tensor([1.0, -7.0, 0.25])
    same(list(compiled(x)), list(Two()(x)))


def test_integers_are_carried_as_numbers() -> None:
    class Counted(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            times, y = while_loop(lambda i, y: i < 6, lambda i, y: (i + 3, y * 2 + i), (1, x))
            more, z = while_loop(lambda i, y: i < 9, lambda i, y: (i * 2, y - i), (2, y))
            return y, z + times, times, more

    model = Counted()
    compiled = unity.compile(model, example_inputs=(torch.ones(3),), strict=True)
    x = torch.randn(3)
    found, wanted = compiled(x), model(x)
    same(list(found[:2]), list(wanted[:2]))
    assert [int(v) for v in found[2:]] == [int(v) for v in wanted[2:]]
