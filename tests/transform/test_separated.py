"""Windows are reduced axis by axis where that takes fewer steps, with the results of the program as it was."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fuzz import TIMES

import unity
from unity.ir.interpret import run
from unity.ir.stmt import Block
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse, script
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule.separated import SEPARATED

MACHINE = CPU.machine(unity.Target("llvm"))
JOINS = {"+": ("C + X", "0"), "*": ("X * C", "1"), "max": ("T.max(C, X)", "-3"), "min": ("T.min(C, X)", "3")}


def window(sizes, strides, dilation, outputs, join="+", dtype="float32", value="X", channels=3):
    """A reduction over windows of an image with channels first, or last where ``channels`` is negative."""
    rank = len(sizes)
    step, init = JOINS.get(join, (join, "0"))
    shape = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(outputs, strides, sizes, dilation)]
    cells, steps = [f"o{k}" for k in range(rank)], [f"r{k}" for k in range(rank)]
    read = [f"v{o} * {s} + v{r} * {d}" for o, r, s, d in zip(cells, steps, strides, dilation)]

    def around(items, own):
        return [own, *items] if channels > 0 else [*items, own]

    out, image = [around(part, abs(channels)) for part in (outputs, shape)]
    names = around(cells, "c") + steps
    cell = ", ".join([f"v{n}" for n in around(cells, "c")])
    load = f"X[{', '.join(around(read, 'vc'))}]"
    joined = step.replace("C", f"C[{cell}]").replace("X", value.replace("X", load))
    return parse(f"""
@T.prim_func
def main(X: T.Buffer({tuple(image)}, "{dtype}"), C: T.Buffer({tuple(out)}, "{dtype}")):
    for {", ".join(names)} in T.grid({", ".join(map(str, [*out, *sizes]))}):
        with T.block("C"):
            {", ".join([f"v{n}" for n in names])} = T.axis.remap("{"S" * (rank + 1) + "R" * rank}", [{", ".join(names)}])
            with T.init():
                C[{cell}] = T.{dtype}({init})
            C[{cell}] = {joined}
""")


def result(func, x):
    """What the interpreter makes of a program."""
    mod = unity.IRModule({"main": func}, {}, {})
    shape = [extent.value for extent in func.buffer_map[func.params[1]].shape]
    made = np.zeros(shape, x.dtype)
    run(mod, "main", x, made)
    return made


@pytest.mark.parametrize("seed", range(8 * TIMES))
def test_results_are_those_of_the_window(seed):
    rng = random.Random(seed)
    rank = rng.choice((2, 2, 3))
    sizes, outputs = [[rng.randint(1, most) for _ in range(rank)] for most in (5 - rank // 3 * 2, 6)]
    strides, dilation = [[rng.randint(1, 2) for _ in range(rank)] for _ in range(2)]
    join, dtype = rng.choice(list(JOINS)), rng.choice(("float32", "float64", "int32"))
    value = rng.choice(("X", "T.abs(X)"))
    func = window(sizes, strides, dilation, outputs, join, dtype, value, rng.choice((2, -3)))
    given = np.random.default_rng(seed)
    image = [extent.value for extent in func.buffer_map[func.params[0]].shape]
    x = (given.integers(-2, 3, image) if join == "*" else given.integers(-9, 9, image)).astype(dtype)
    separate = func.with_attr("tir.noalias", True)
    sch = unity.Schedule(unity.IRModule({"main": separate}, {}, {}))
    sch.annotate("C", "schedule", {"separate": 1})
    found = SEPARATED.apply(sch.mod["main"], (), MACHINE)
    expected = result(func, x)
    if not isinstance(found, str):
        verify(found.func, 2)
        assert script(parse(script(found.func))) == script(found.func)
        np.testing.assert_array_equal(result(found.func, x), expected)
    built = np.zeros_like(expected)
    unity.build(sch.mod)["main"](x, built)
    np.testing.assert_array_equal(built, expected)


@pytest.mark.parametrize("sizes, strides, parts", [
    ((5, 5), (1, 1), 2), ((9, 9), (1, 1), 2), ((5, 5), (2, 2), 2), ((7, 1), (1, 1), 1), ((3, 3), (2, 2), 1), ((3, 3), (1, 1), 1),
    ((7, 7), (7, 7), 1), ((4, 4, 4), (1, 1, 1), 3),
])  # fmt: skip
def test_which_windows(sizes, strides, parts):
    rank = len(sizes)
    func = window(sizes, strides, (1,) * rank, (20,) * rank)
    found = SEPARATED.apply(func, (), MACHINE)
    blocks = [] if isinstance(found, str) else collect(found.func.body, Block)
    assert max(1, len({block.name for block in blocks if block.name != "root"})) == parts


@pytest.mark.parametrize("join, dtype", [("C - X", "float32"), ("+", "float16"), ("C + X * T.float32(vr0)", "float32")])
def test_what_may_not_be_joined_otherwise_stays(join, dtype):
    func = window((5, 5), (1, 1), (1, 1), (20, 20), join, dtype)
    assert isinstance(SEPARATED.apply(func, (), MACHINE), str)
