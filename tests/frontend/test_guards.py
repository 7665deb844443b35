"""Conditions of an export that the module checks, and those it has no words for."""

from __future__ import annotations

import math
import random
import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.arith.evaluate import evaluate  # noqa: E402
from unity.frontend.torch.capture.guards import guard_conditions, holds_in_range  # noqa: E402
from unity.frontend.torch.context.report import FallbackWarning, Gap  # noqa: E402
from unity.ir.expr import Var  # noqa: E402
from unity.ir.types import Expr, prim_type  # noqa: E402
from unity.ir.walk import free_vars  # noqa: E402
from unity.support.errors import VMError  # noqa: E402

N, M = "L['x'].size()[0]", "L['x'].size()[1]"
FLOAT = "torch.sym_float(L['x'].size()[0])"


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
    "text",
    [
        f"{N} ** 2 < 100",
        f"math.trunc(0.7 * {FLOAT}) == {M}",
        f"{N} > 2 and 0.7 * {FLOAT} + torch.sym_float({M}) < 4.0",
        f"{FLOAT} - 0.5 * torch.sym_float({N} * {N}) > 1.0",
        f"2.0 ** {FLOAT} < 9.0",
        f"7.0 / ({FLOAT} - 5.0) < 1.0",
        f"(3.0 - {FLOAT}) * ({FLOAT} - 9.0) < 1.0",
        "torch.sym_float(L['n']) ** 0.5 > 2.0",
        f"0.5 * torch.sym_float(L['n']) + {FLOAT} > 3.0",
    ],
)
def test_a_condition_without_words_is_told(text) -> None:
    with pytest.warns(FallbackWarning, match="not checked: " + re.escape(text)):
        assert not conditions(text)


def held(condition: Expr, **sizes: int) -> bool:
    found = evaluate(condition, {n: sizes[n.name] for n in free_vars(condition)})
    assert found is not None
    return bool(found)


def in_torch(text: str, n: int, m: int = 0) -> bool:
    """What torch says of a condition at sizes, by Python's own floats."""
    names = {"math": math, "torch": SimpleNamespace(sym_float=float, _sym_sqrt=math.sqrt)}
    return bool(eval(text.replace(N, str(n)).replace(M, str(m)), names))


@pytest.mark.parametrize("rounding", ["math.trunc", "math.floor", "math.ceil", "round", ""])
@pytest.mark.parametrize("relation", ["==", "!=", "<", "<=", ">", ">="])
def test_a_float_of_a_size_is_a_range_of_it(rounding, relation) -> None:
    """As torch's floats say for every size, also where they differ from the real numbers (``10 * 0.7`` is 7, ``3 * 0.1`` more than 0.3)."""
    rises = (
        f"0.7 * {FLOAT}",
        f"{FLOAT} * 0.1",
        f"{FLOAT} / 3 + 0.5",
        f"2 * {FLOAT} / 0.3",
        f"{N} / 4",
        f"{FLOAT} ** 0.5",
    )
    for inner in (*rises, f"-0.3 * {FLOAT} + 5.0", f"torch._sym_sqrt(torch.sym_float({N} * {N} + 3))"):
        for number in (0, 1, 2, 7):
            for text in (
                f"{rounding}({inner}) {relation} {number}",
                f"{number} {relation} 3 - max(1, {rounding}({inner}))",
            ):
                (found,) = conditions(text)
                for size in range(40):
                    assert held(found, n0=size) == in_torch(text, size), (text, size)


@pytest.mark.parametrize("rounding", ["math.trunc", "math.floor", "math.ceil", "round", ""])
@pytest.mark.parametrize("relation", ["==", "!=", "<", "<=", ">", ">="])
def test_a_float_of_an_integer_input_is_a_range_of_it(rounding, relation) -> None:
    """An input may be negative."""
    count, given = "torch.sym_float(L['n'])", "L['n']"
    for inner in (
        f"0.7 * {count}",
        f"{given} / 4",
        f"{count} * 0.1 - 0.3",
        f"2.5 - {count} / 3",
        f"max(0.5 * {count}, 1.5)",
    ):
        for number in (-3, 0, 2):
            text = f"{rounding}({inner}) {relation} {number}"
            (found,) = conditions(text)
            for value in range(-20, 20):
                assert held(found, n0=value) == in_torch(text.replace(given, f"({value})"), 0), (text, value)


@pytest.mark.parametrize(
    "text", ["L['flag'] == 3", "L['kind'] is None", "len(L['parts']) == 2", "L['x'].stride()[0] == 4"]
)
def test_conditions_of_objects_and_strides_are_passed_over(text) -> None:
    """Objects are compared with the example's elsewhere, and inputs are made compact."""

    def size(name: str, axis: int | None) -> Expr:
        raise Gap(name)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not guard_conditions(SimpleNamespace(_guards_code=[text]), size)


class Chooses(torch.nn.Module):
    def forward(self, x, n):
        return x * 2 if n * 0.5 > 3.0 else x - 1


def test_the_branch_that_an_integer_input_decided() -> None:
    vary = {"x": None, "n": torch.export.Dim.DYNAMIC}
    f, x = unity.compile(Chooses(), example_inputs=(torch.ones(4), 8), dynamic_shapes=vary), torch.ones(4)
    torch.testing.assert_close(f(x, 7), Chooses()(x, 7))
    for n in (6, 0, -9):
        with pytest.raises(VMError) as caught:
            f(x, n)
        assert caught.value.code == "E635"


def test_floats_within_larger_conditions_are_ranges_too() -> None:
    chance = random.Random(7)

    def condition(depth: int) -> str:
        if depth:
            first, second = condition(depth - 1), condition(chance.randrange(depth))
            return chance.choice([f"({first} and {second})", f"({first} or {second})", f"(not {first})"])
        relation, other = [chance.choice(["==", "!=", "<", "<=", ">", ">="]) for _ in range(2)]
        rounded, number = chance.choice(["math.trunc", "math.floor", "math.ceil", ""]), chance.randrange(9)
        float_ = f"{rounded}({chance.choice([0.7, 0.5, 0.1, 1.3])} * torch.sym_float({chance.choice([N, M])}))"
        plain = f"{N} % 3 {other} {M} - 2"
        return chance.choice(
            [f"({float_} {relation} {number})", f"(1 {other} {float_} {relation} {number})", f"({plain})"]
        )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in [condition(depth) for depth in (1, 2, 3) for _ in range(20)]:
            (found,) = conditions(text)
            for n, m in [(chance.randrange(12), chance.randrange(12)) for _ in range(20)]:
                assert held(found, n0=n, n1=m) == in_torch(text, n, m), (text, n, m)


@pytest.mark.parametrize("rounding", ["trunc", "floor", "ceil"])
def test_an_exact_quotient_of_several_sizes_is_a_formula(rounding) -> None:
    for inner in (f"({N} - {M}) / 3", f"0.25 * {FLOAT}", f"1.5 * {FLOAT}"):
        text = f"math.{rounding}({inner}) + {M} == 4"
        (found,) = conditions(text)
        for n in range(12):
            for m in range(12):
                assert held(found, n0=n, n1=m) == in_torch(text, n, m), (text, n, m)


@pytest.mark.parametrize(
    "text",
    [f"{N} % 2 != 0", f"{N} // 2 > 1", f"{N} - {M} > 1", f"{N} + -1*{M} >= 2", f"{N} // {M} != 1", f"{N} % 3 != 1"],
)
def test_only_a_size_itself_is_known_to_be_neither_zero_nor_one(text) -> None:
    assert [c for c in conditions(text) if "!= T.int64(0)" not in str(c)]
    assert not conditions(f"{N} != 1") and not conditions(f"2 <= {N}") and not conditions(f"{N} * {M} != 0")


class ByParity(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] % 2 == 0 else x - 1


def test_a_branch_by_a_remainder_is_checked() -> None:
    f = unity.compile(ByParity(), example_inputs=(torch.zeros(5, 2),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert (f(torch.zeros(7, 2)) == -1).all()
    with pytest.raises(VMError, match="E635"):
        f(torch.zeros(4, 2))


class Share(torch.nn.Module):
    def forward(self, x):
        return x[: int(x.shape[0] * 0.7)]


def test_a_size_that_torch_fixed_by_a_float_is_checked() -> None:
    f = unity.compile(Share(), example_inputs=(torch.randn(4, 8),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert f(torch.randn(4, 8)).shape == (2, 8) and f(torch.randn(3, 8)).shape == (2, 8)
    for size in (2, 5, 10):
        with pytest.raises(VMError, match="E635"):
            f(torch.randn(size, 8))


class Grid(torch.nn.Module):
    def forward(self, x):
        side = int(x.shape[0] ** 0.5)
        return x.sum(0) * side if (x.shape[0] > 2) & (0.7 * x.shape[0] < 8) else x.sum(0)


def test_a_condition_around_floats_is_checked() -> None:
    vary = ({0: torch.export.Dim.AUTO},)
    f = unity.compile(Grid(), example_inputs=(torch.randn(9, 8),), dynamic_shapes=vary)
    for size in (9, 11):
        x = torch.randn(size, 8)
        torch.testing.assert_close(f(x), Grid()(x))
    with pytest.raises(VMError, match="E635"):
        f(torch.randn(12, 8))


def test_what_holds_for_all_sizes_says_nothing() -> None:
    one = f"max(1, math.trunc(1.7*torch.sym_float({N})))"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not conditions(f"{one}*max(1, {M}) >= {one}")
    with pytest.warns(FallbackWarning, match="not checked"):
        conditions(f"{one}*{M} >= {one}")


def test_a_condition_on_strides_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not conditions("L['x'].stride()[0] == L['x'].size()[1]")


class Longer(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x, x[:, : x.shape[1] // 2]], 1) * 2


class Orders(torch.nn.Module):
    def forward(self, x):
        y = torch.ones(3, x.shape[0] // 2, x.shape[1] // 2)
        return y.permute(1, 2, 0) + y.reshape(*y.shape[1:], 3)


class Unequal(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] != x.shape[1] else x


def test_a_condition_that_torch_needs_for_layouts_says_nothing() -> None:
    vary = (dict.fromkeys(range(2), torch.export.Dim.AUTO),)
    f = unity.compile(Longer(), example_inputs=(torch.randn(3, 6),), dynamic_shapes=vary)
    for shape in ((2, 1), (1, 1), (4, 7)):  # torch asks whether half of a row is as long as the row
        x = torch.randn(shape)
        torch.testing.assert_close(f(x), Longer()(x))
    even = ({axis: torch.export.Dim(f"n{axis}", min=1, max=99) * 2 for axis in range(2)},)
    h = unity.compile(Orders(), example_inputs=(torch.randn(8, 14),), dynamic_shapes=even)
    for shape in ((2, 2), (2, 6), (6, 6), (6, 2)):
        torch.testing.assert_close(h(torch.ones(shape)), Orders()(torch.ones(shape)))
    g = unity.compile(Unequal(), example_inputs=(torch.randn(3, 4),), dynamic_shapes=vary)
    with pytest.raises(VMError, match=r"expected x\.shape\[0\] != x\.shape\[1\]"):
        g(torch.randn(5, 5))


class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=2.0) + x.repeat_interleave(2, 2)


@pytest.mark.parametrize("guard, low, high, holds", [
    ("2*N == math.trunc(2.0*torch.sym_float(N))", "8", "99", True), ("(2 % (2 + 2*(N // 32))) != 0", "64", "", True),
    ("(2 % (2 + 2*(N // 32))) != 0", "2", "", False), ("N // 2 > 3", "8", "9", True), ("N // 2 > 3", "7", "9", False),
    ("N % 2 == 0", "4", "8", False), ("math.trunc(1.5*torch.sym_float(N)) > N", "", "", True), ("N % (N - 4) >= 0", "", "", False),
    ("L['x'].stride()[0] == N", "", "", False),
])  # fmt: skip
def test_a_condition_that_holds_in_all_of_a_range(guard: str, low: str, high: str, holds: bool) -> None:
    assert holds_in_range(guard.replace("N", "L['x'].size()[1]"), low, high) == holds


def test_a_named_size_keeps_its_range_where_a_condition_always_holds() -> None:
    vary = ({2: torch.export.Dim("length", min=3, max=40)},)
    f = unity.compile(Twice(), example_inputs=(torch.randn(1, 2, 5),), dynamic_shapes=vary)
    for length in (3, 8, 40):
        x = torch.randn(1, 2, length)
        torch.testing.assert_close(f(x), Twice()(x))
    with pytest.raises(VMError, match="E635"):
        f(torch.randn(1, 2, 41))


@pytest.mark.parametrize(
    ("how", "least"),
    [
        (lambda x, n: torch.zeros(int(n * 0.7)), 2),
        (lambda x, n: torch.zeros(int(math.sqrt(n))), 2),
        (lambda x, n: x * math.sqrt(n) / float(n), 2),
        (lambda x, n: x[: int(n * 0.5)] * 2, 4),
    ],
)
def test_a_number_that_python_makes_of_a_named_size(how: Any, least: int) -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            return how(x, x.shape[0])

    vary = ({0: torch.export.Dim("n", min=least, max=100)},)
    f = unity.compile(Model(), example_inputs=(torch.randn(6, 3),), dynamic_shapes=vary)
    for n in (least, 9, 100):
        x = torch.randn(n, 3)
        torch.testing.assert_close(f(x), how(x, n))


def test_a_condition_on_strides_of_unit_axes_says_nothing() -> None:
    half = "(L['x'].size()[1] // 2)"
    assert not conditions(f"2*(2*{half}) != 2*{half}*(2*L['x'].size()[0])", f"L['x'].size()[0]*{half} != {half}")
    assert len(conditions(f"2*{half} != 4*{half}*L['x'].size()[0]", f"L['x'].size()[0] != {half}")) == 2


@pytest.mark.parametrize(
    "how, words",
    [
        (lambda x: x[: int(x.shape[0] * 0.7)], r"n \* 7 // 10"),
        (lambda x: x * math.log(x.shape[0]), r"torch\.log\(torch\.tensor\(n\)\)"),
        (lambda x: torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 4)).view(-1, 4, 6).amax(1), r"Dim\.AUTO"),
    ],
    ids=["int", "log", "multiple"],
)
def test_what_torch_fixes_of_a_named_size_is_refused_with_a_way_out(how: Any, words: str) -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return how(x)

    with pytest.raises(unity.UnityError, match=rf"E016[^$]*help: .*({words})"):
        unity.compile(
            Fixed(), example_inputs=(torch.randn(10, 6),), dynamic_shapes=({0: torch.export.Dim("n", min=4, max=100)},)
        )


@pytest.mark.parametrize(
    "how",
    [
        lambda x: x[: x.shape[0] * 7 // 10],
        lambda x: x * torch.log(torch.tensor(x.shape[0])),
    ],
)
def test_the_ways_out_for_fixed_sizes_are_ways(how: Any) -> None:
    class Open(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return how(x)

    size = torch.export.Dim("n", min=4, max=100)
    made = unity.compile(Open(), example_inputs=(torch.randn(10, 6),), dynamic_shapes=({0: size},))
    for n in (4, 33, 100):
        x = torch.randn(n, 6)
        torch.testing.assert_close(made(x), how(x))
