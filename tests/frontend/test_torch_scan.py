"""``scan`` and ``map`` become functions that call themselves and write one row in each step; ``associative_scan`` is taken apart by torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import associative_scan, map as rows_map, scan  # noqa: E402

import unity  # noqa: E402
from unity.frontend import from_exported_program  # noqa: E402
from unity.ir.interpret import run  # noqa: E402
from unity.ir.structural import structural_equal  # noqa: E402
from unity.ir.verifier.verifier import verify  # noqa: E402
from unity.script import parse  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def plain_scan(step: Any, init: Any, xs: Any, dim: int = 0, reverse: bool = False) -> Any:
    """What torch's scan means."""
    made, carry = [], init
    for row in reversed(xs) if reverse else xs:
        carry, out = step(carry, row)
        made.append(torch.utils._pytree.tree_flatten(out))
    leaves = [torch.stack([m[0][k] for m in made][:: -1 if reverse else 1]) for k in range(len(made[0][0]))]
    return carry, torch.utils._pytree.tree_unflatten(leaves, made[0][1])


@contextmanager
def plainly() -> Iterator[None]:
    """Models run step by step; torch would compile them for each number of rows."""
    with mock.patch.dict(
        globals(), scan=plain_scan, rows_map=lambda fn, x, y: plain_scan(lambda c, r: (c, fn(r, y)), (), x)[1]
    ):
        yield


def same(found: Any, expected: Any) -> None:
    leaves = torch.utils._pytree.tree_leaves
    torch.testing.assert_close(leaves(found), leaves(expected), rtol=1e-4, atol=1e-5)


class Recurrent(torch.nn.Module):
    """Two values carried, one of them a counter; rows of rank 1 and 0 stacked; weights and a local tensor used inside."""

    def __init__(self, reverse: bool = False) -> None:
        super().__init__()
        self.linear, self.reverse = torch.nn.Linear(3, 3), reverse

    def forward(self, x: Any, init: Any) -> Any:
        scale = torch.full((3,), 0.5)

        def step(carry: Any, row: Any) -> Any:
            h, count = carry
            h = torch.tanh(self.linear(h)) + row * scale
            return (h, count + 1), {"y": h.sin(), "total": row.sum()}

        return scan(step, (init, torch.zeros((), dtype=torch.int64)), x, dim=0, reverse=self.reverse)


class Mapped(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return rows_map(lambda row, other: (row.cumsum(0) * other, row.max()), x, y)


@pytest.mark.parametrize("make", [Recurrent, lambda: Recurrent(reverse=True), Mapped])
def test_any_number_of_rows(make: Any) -> None:
    model = make().eval()
    compiled = unity.compile(
        model, example_inputs=(torch.ones(4, 3), torch.ones(3)), dynamic_shapes=({0: torch.export.Dim("t")}, None),
        strict=True,
    )  # fmt: skip
    for rows in (1, 2, 7, 400):
        x, y = torch.randn(rows, 3), torch.randn(3)
        with plainly():
            expected = model(x, y)
        same(compiled(x, y), expected)
        same(compiled(x, y), expected)


@pytest.mark.parametrize("keep", [False, True])
def test_the_module_is_a_program(keep: bool) -> None:
    model, x, init = Recurrent().eval(), torch.randn(5, 3), torch.randn(3)
    mod = from_exported_program(torch.export.export(model, (x, init)), strict=True, keep_params_as_input=keep)
    verify(mod)
    mod, params = unity.frontend.detach_params(mod)
    assert structural_equal(parse(mod.script()), mod)
    given = [v.numpy() for v in params.get("main", ())]
    with plainly():
        expected = torch.utils._pytree.tree_leaves(model(x, init))
    same([torch.tensor(np.asarray(v)) for v in run(mod, "main", x.numpy(), init.numpy(), *given)], expected)
    made = unity.VirtualMachine(unity.compile(mod), exec_mode="bytecode")["main"](x, init, *given)
    same([v.torch() for v in made], expected)


class Nested(torch.nn.Module):
    """A scan in each step of a scan, and a branch."""

    def forward(self, x: Any, init: Any) -> Any:
        def outer(total: Any, rows: Any) -> Any:
            inner, partial = scan(lambda c, v: (c + v, c * v), total, rows, dim=0)
            inner = torch.cond(inner.sum() > 0, lambda v: v * 0.5, lambda v: v - 1.0, (inner,))
            return inner, partial.sum(0)

        return scan(outer, init, x, dim=0)


def test_nested() -> None:
    model, x, init = Nested().eval(), torch.randn(4, 3, 2), torch.randn(2)
    compiled = unity.compile(model, example_inputs=(x, init), strict=True)
    with plainly():
        same(compiled(x, init), model(x, init))


def test_two_stacks_of_one_type_and_integers() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return scan(lambda c, v: (c + v, (c - v, c * v)), x[0] * 0, x, dim=0)

    model, x = Net(), torch.randint(-9, 9, (6, 2))
    compiled = unity.compile(model, example_inputs=(x,), strict=True)
    with plainly():
        same(compiled(x), model(x))


def test_associative_scan() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic")

    model, x = Net(), torch.randn(7, 3)
    same(unity.compile(model, example_inputs=(x,), strict=True)(x), x.cumprod(0))
