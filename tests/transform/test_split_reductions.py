"""Long reductions to few cells: pieces joined in order, the same bits with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.stmt import Block
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse, script
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule.split_reductions import SPLIT


def program(shape, axes, step="C + X", init="0", dtype="float32"):
    """A reduction of X over ``axes``."""
    left = [n for k, n in enumerate(shape) if k not in axes]
    loops = ", ".join([f"i{k}" for k in range(len(shape))])
    at = ", ".join([f"v{k}" for k in range(len(shape)) if k not in axes]) or "()"
    all_at = ", ".join([f"v{k}" for k in range(len(shape))])
    binds = f"[{loops}]" if len(shape) > 1 else "[i0]"
    names = ", ".join([f"v{k}" for k in range(len(shape))])
    kinds = "".join(["R" if k in axes else "S" for k in range(len(shape))])
    value = step.replace("C", f"C[{at}]").replace("X", f"X[{all_at}]")
    return parse(f"""
@T.prim_func
def main(X: T.Buffer({tuple(shape)}, "{dtype}"), C: T.Buffer({tuple(left)}, "{dtype}")):
    for {loops} in T.grid({", ".join([str(n) for n in shape])}):
        with T.block("C"):
            {names} = T.axis.remap("{kinds}", {binds})
            with T.init():
                C[{at}] = T.{dtype}({init})
            C[{at}] = {value}
""")


def values(shape, dtype):
    """Arguments of a program."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal(shape) if dtype.startswith("float") else rng.integers(-9, 9, shape)).astype(dtype)


MACHINE = CPU.machine(unity.Target("llvm"))
CASES = [
    ((40_000,), (0,), "C + X", np.sum, "float32"),
    ((40_037,), (0,), "X + C", np.sum, "float64"),  # one more piece for the rest
    ((190, 211), (0, 1), "C + X", np.sum, "float32"),
    ((3, 20_001), (1,), "T.max(C, X)", np.max, "float32"),
    ((12_000, 4), (0,), "T.min(C, X)", np.min, "float32"),
    ((33_000,), (0,), "C + X", np.sum, "int32"),
    ((2, 150, 150), (0, 2), "T.max(C, X)", None, "float32"),  # 150 cells are enough for the threads
    ((300,), (0,), "C + X", None, "float32"),  # too short
    ((40_000,), (0,), "C - X", None, "float32"),  # not to be joined in another order
    ((40_000,), (0,), "C + X", None, "float16"),  # would round more often
]


@pytest.mark.parametrize("shape, axes, step, meaning, dtype", CASES)
def test_which_reductions_and_what_becomes_of_them(shape, axes, step, meaning, dtype):
    func = program(shape, axes, step, "-3" if "max" in step else "3" if "min" in step else "0", dtype)
    found = SPLIT.apply(func, (), MACHINE)
    if meaning is None:
        assert isinstance(found, str)
        return
    split = found.func
    verify(split, 2)
    assert script(parse(script(split))) == script(split)
    assert isinstance(SPLIT.apply(split, (), MACHINE), str)  # not once more
    x = values(shape, dtype)
    result = np.zeros([n for k, n in enumerate(shape) if k not in axes], dtype)
    run(split, None, x, result)
    start = {np.max: -3, np.min: 3}.get(meaning, 0)
    expected = meaning(x.astype("float64"), axis=axes, initial=start)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "shape, axes", [((200_003,), (0,)), ((1000, 700), (0, 1)), ((5, 90_001), (1,)), ((70_000, 7), (0,))]
)
@pytest.mark.parametrize("step, init", [("C + X", "5"), ("T.max(C, X)", "-1000"), ("C + X * X", "0")])
def test_the_same_bits_with_any_number_of_threads(shape, axes, step, init):
    vm = unity.VirtualMachine(unity.compile(program(shape, axes, step, init)))
    x = values(shape, "float32")
    before = unity.num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 7):
            unity.set_num_threads(threads)
            result = np.zeros([n for k, n in enumerate(shape) if k not in axes], "float32")
            vm["main"](x, result)
            results.append(result)
    finally:
        unity.set_num_threads(before)
    exact = x.astype("float64")
    expected = {"C + X": 5 + exact.sum(axes), "T.max(C, X)": exact.max(axes), "C + X * X": (exact * exact).sum(axes)}[
        step
    ]
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-2)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


SEVERAL = """
@T.prim_func
def main(X: T.Buffer((40_000,), "float32"), Y: T.Buffer((300, 300), "float32"), C: T.Buffer((2,), "float32")):
    T.func_attr({attrs})
    S = T.alloc_buffer((), "float32")
    for i in range(40_000):
        with T.block("S"):
            vi = T.axis.reduce(40_000, i)
            with T.init():
                S[()] = T.float32(0)
            S[()] = S[()] + X[vi]
    for r in range(2):
        for i, j in T.grid(300, 300):
            with T.block("{name}"):
                vi, vj = T.axis.remap("RR", [i, j])
                with T.init():
                    C[r] = S[()]
                C[r] = T.max(C[r], Y[vi, vj])
"""


def test_programs_of_several_nests():
    """Those at the top are split, each by itself; what stands in a loop is repeated, and stays."""
    func = parse(SEVERAL.format(attrs="{}", name="C"))
    found = SPLIT.apply(func, (), MACHINE)
    assert found.reason.startswith("S in ") and [b.name for b in collect(found.func.body, Block)] == [
        "S_rf",
        "S",
        "S_global",
        "C",
    ]
    x, y = values((40_000,), "float32"), values((300, 300), "float32")
    results = [np.zeros(2, "float32") for _ in range(2)]
    for fn, result in zip((func, found.func), results):
        run(fn, None, x, y, result)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
    assert "share memory" in SPLIT.apply(parse(SEVERAL.format(attrs='{"tir.noalias": False}', name="C")), (), MACHINE)
    assert "one name" in SPLIT.apply(parse(SEVERAL.format(attrs="{}", name="S")), (), MACHINE)


def test_nan_and_infinities_reach_the_result():
    vm = unity.VirtualMachine(unity.compile(program((100_001,), (0,))))
    for value, place in ((np.nan, 100_000), (np.inf, 0), (-np.inf, 50_000)):
        x = np.ones(100_001, "float32")
        x[place] = value
        result = np.zeros((), "float32")
        vm["main"](x, result)
        np.testing.assert_array_equal(result, np.float32(value))
