"""Conditions of an export that the module checks, and those it has no words for."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from unity.frontend.guards import guard_conditions
from unity.frontend.report import FallbackWarning
from unity.ir.expr import Var
from unity.ir.types import Expr, prim_type


def conditions(*texts: str) -> list[Expr]:
    sizes = {axis: Var(f"n{axis}", prim_type("int64")) for axis in range(3)}
    return guard_conditions(SimpleNamespace(_guards_code=list(texts)), lambda name, axis: sizes[axis or 0])


def test_a_condition_of_two_sizes_is_checked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(conditions("L['x'].size()[0] == 2*L['x'].size()[1]")) == 1


def test_a_condition_without_words_is_told() -> None:
    with pytest.warns(FallbackWarning, match=r"not checked: L\['x'\]\.size\(\)\[0\] \*\* 2 < 100"):
        assert not conditions("L['x'].size()[0] ** 2 < 100")


def test_a_condition_on_strides_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not conditions("L['x'].stride()[0] == L['x'].size()[1]")


def test_a_condition_on_strides_of_unit_axes_says_nothing() -> None:
    half = "(L['x'].size()[1] // 2)"
    assert not conditions(f"2*(2*{half}) != 2*{half}*(2*L['x'].size()[0])", f"L['x'].size()[0]*{half} != {half}")
    assert len(conditions(f"2*{half} != 4*{half}*L['x'].size()[0]", f"L['x'].size()[0] != {half}")) == 2
