"""Conditions of an export that the module checks, and those it has no words for."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.frontend.torch.capture.guards import guard_conditions  # noqa: E402
from unity.frontend.torch.context.report import FallbackWarning  # noqa: E402
from unity.ir.expr import Var  # noqa: E402
from unity.ir.types import Expr, prim_type  # noqa: E402
from unity.support.errors import VMError  # noqa: E402


def conditions(*texts: str) -> list[Expr]:
    sizes = {axis: Var(f"n{axis}", prim_type("int64")) for axis in range(3)}
    return guard_conditions(SimpleNamespace(_guards_code=list(texts)), lambda name, axis: sizes[axis or 0])


def test_a_condition_of_two_sizes_is_checked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(conditions("L['x'].size()[0] == 2*L['x'].size()[1]")) == 1


class Halves(torch.nn.Module):
    def forward(self, x):
        return torch.cat([part * n for n, part in enumerate(x.chunk(2, 1))], 1)


def test_a_divisor_of_zero_is_a_condition_of_its_own() -> None:
    vary = ({1: torch.export.Dim.AUTO},)
    f = unity.compile(Halves(), example_inputs=(torch.randn(3, 8),), dynamic_shapes=vary)
    torch.testing.assert_close(f(torch.ones(3, 5)), Halves()(torch.ones(3, 5)))
    with pytest.raises(VMError, match=r"expected .* != 0"):
        f(torch.randn(3, 0))


@pytest.mark.parametrize(
    "text", ["L['x'].size()[0] ** 2 < 100", "math.trunc(0.7 * torch.sym_float(L['x'].size()[0])) == 2"]
)
def test_a_condition_without_words_is_told(text) -> None:
    with pytest.warns(FallbackWarning, match="not checked: " + re.escape(text)):
        assert not conditions(text)


def test_a_condition_on_strides_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not conditions("L['x'].stride()[0] == L['x'].size()[1]")


class Longer(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x, x[:, : x.shape[1] // 2]], 1) * 2


class Unequal(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] != x.shape[1] else x


def test_a_condition_that_torch_needs_for_layouts_says_nothing() -> None:
    vary = (dict.fromkeys(range(2), torch.export.Dim.AUTO),)
    f = unity.compile(Longer(), example_inputs=(torch.randn(3, 6),), dynamic_shapes=vary)
    for shape in ((2, 1), (1, 1), (4, 7)):  # torch asks whether half of a row is as long as the row
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), Longer()(x))
    g = unity.compile(Unequal(), example_inputs=(torch.randn(3, 4),), dynamic_shapes=vary)
    with pytest.raises(VMError, match=r"expected x\.shape\[0\] != x\.shape\[1\]"):
        g(torch.randn(5, 5))


def test_a_condition_on_strides_of_unit_axes_says_nothing() -> None:
    half = "(L['x'].size()[1] // 2)"
    assert not conditions(f"2*(2*{half}) != 2*{half}*(2*L['x'].size()[0])", f"L['x'].size()[0]*{half} != {half}")
    assert len(conditions(f"2*{half} != 4*{half}*L['x'].size()[0]", f"L['x'].size()[0] != {half}")) == 2
