"""Programs of thousands of operations: right, and compiled in time that grows with their length."""

from __future__ import annotations

import re

import numpy as np
import pytest
from growth import assert_grows_at_most

import unity
from unity.ir import IRModule
from unity.script import parse
from unity.target.cpu.codegen import MANY_BRANCHES, MANY_CHOICES, MANY_LINES, compile_options, text_options
from unity.transform.relax.fusion.auto_inline import MOST_INLINED, auto_inline


def divisions(count: int) -> str:
    """Division after division by numbers that only a call gives: each may be zero."""
    names = [f"d{k % 40}" for k in range(count)]
    lines = [f"        v{k + 1}: T.int64 = v{k} // ({name} + {k // 40})" for k, name in enumerate(names)]
    return "\n".join([
        "@T.prim_func",
        f"def main(A: T.Buffer((3,), 'int64'), B: T.Buffer((3,), 'int64'), {', '.join([f'd{k}: T.int64' for k in range(40)])}):",
        "    for i in range(3):",
        "        v0: T.int64 = A[i]",
        *lines,
        f"        B[i] = v{count}",
    ])  # fmt: skip


def choices(count: int) -> str:
    """A chain of lazy choices."""
    lines = [
        f"        v{k + 1}: T.float32 = T.if_then_else(A[i] < T.float32({k}), v{k}, A[i] + T.float32({k % 7}))"
        for k in range(count)
    ]
    return "\n".join([
        "@T.prim_func",
        "def main(A: T.Buffer((3,), 'float32'), B: T.Buffer((3,), 'float32')):",
        "    for i in range(3):",
        "        v0: T.float32 = A[i]",
        *lines,
        f"        B[i] = v{count}",
    ])  # fmt: skip


def chain(step: str, count: int) -> str:
    """``step``, of ``x`` and the number ``k``, again and again."""
    steps = [re.sub(r"\bx\b", f"v{k}", step).replace("#", str(k)) for k in range(count)]
    lines = [f"        v{k + 1}: T.int64 = {text}" for k, text in enumerate(steps)]
    return "\n".join([
        "@T.prim_func",
        "def main(A: T.Buffer((3,), 'int64'), B: T.Buffer((3,), 'int64'), C: T.Buffer((16,), 'int64')):",
        "    for i in range(3):",
        "        v0: T.int64 = A[i]",
        *lines,
        f"        B[i] = v{count}",
    ])  # fmt: skip


CHAINS = {
    "x // C[# % 16]": lambda x, k: x // (k % 16 + 1),
    "T.if_then_else(x > #, x - 1, x + 2)": lambda x, k: np.where(x > k, x - 1, x + 2),
    "T.truncdiv(x, C[# % 16]) + #": lambda x, k: np.trunc(x / (k % 16 + 1)).astype("int64") + k,
    "T.Cast('int64', T.Cast('float32', x)) + #": lambda x, k: x.astype("float32").astype("int64") + k,
    "T.max(x, C[# % 16]) - #": lambda x, k: np.maximum(x, k % 16 + 1) - k,
}
"""Steps that depend on the one before, and nothing else in the kernel: what LLVM's passes ask about each leads through all before."""


@pytest.mark.parametrize("step", CHAINS)
def test_chains_of_one_step(step, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", "off")
    made = {}

    def build(count):
        made[count] = unity.VirtualMachine(unity.compile(parse(chain(step, count))))

    assert_grows_at_most(9, lambda: build(200), lambda: build(800))
    for count, vm in made.items():
        expected, out = np.array([10**6, -7, 5]), np.zeros(3, "int64")
        vm["main"](expected, out, np.arange(1, 17))
        for k in range(count):
            expected = CHAINS[step](expected, k)
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("step", ["T.pow(x, T.float32(1.5))", "T.sigmoid(x) * T.float32(2)", "T.sin(x) + x"])
def test_chains_of_functions(step, monkeypatch):
    """What is inlined a thousand times makes a function of a hundred thousand instructions."""
    monkeypatch.setenv("UNITY_CACHE", "off")
    made = {}

    def build(count):
        text = chain(step, count).replace("int64", "float32")
        made[count] = unity.VirtualMachine(unity.compile(parse(text)))

    assert_grows_at_most(9, lambda: build(150), lambda: build(900))
    for count, vm in made.items():
        out = np.zeros(3, "float32")
        vm["main"](np.array([1.0, 0.99, 1.01], "float32"), out, np.arange(1, 17).astype("float32"))
        expected = np.array([1.0, 0.99, 1.01])
        for _ in range(count):
            if "pow" in step:
                with np.errstate(over="ignore"):
                    expected = expected**1.5
            else:
                expected = 2 / (1 + np.exp(-expected)) if "sigmoid" in step else np.sin(expected) + expected
        np.testing.assert_allclose(out, expected, rtol=1e-2)


def check_divisions(vm, count):
    a, out = np.array([10**9, -7, 5]), np.zeros(3, "int64")
    vm["main"](a, out, *[2 + k for k in range(40)])
    for k in range(count):
        a = a // (2 + k % 40 + k // 40)
    assert out.tolist() == a.tolist()
    with pytest.raises(unity.UnityError, match="division by zero"):
        vm["main"](a, out, *[0] * 40)


def check_choices(vm, count):
    x, out = np.array([0.5, 100.5, 1e6], "float32"), np.zeros(3, "float32")
    vm["main"](x, out)
    expected = x.copy()
    for k in range(count):
        expected = np.where(x < k, expected, x + np.float32(k % 7))
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(("write", "check"), [(divisions, check_divisions), (choices, check_choices)])
def test_time_grows_with_the_length(write, check, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", "off")
    made = {}

    def build(count):
        made[count] = unity.VirtualMachine(unity.compile(parse(write(count))))

    assert_grows_at_most(9, lambda: build(400), lambda: build(1600))
    for count, vm in made.items():
        check(vm, count)


def test_short_kernels_keep_their_options():
    target = unity.Target("llvm")
    few, many = [
        "define i32 @f() {\n" + "  br i1 %a, label %b, label %c\n" * k + "}\n"
        for k in (MANY_BRANCHES, MANY_BRANCHES + 1)
    ]
    assert text_options(few + "\n" + few, target) == compile_options(target)
    assert text_options(many, target).pipeline == "long"
    choices = "define i32 @f() {\n" + "  %x = select i1 %a, i64 %b, i64 %c\n" * (MANY_CHOICES + 1) + "}\n"
    assert text_options(choices, target).pipeline == "long"
    long = "define i32 @f() {\n" + "  %x = add i32 1, 2\n" * MANY_LINES + "}\n"
    assert text_options(long, target).pipeline == "long"


def test_a_chain_of_blocks_is_inlined_in_pieces():
    count = 300
    allocations = [f"    B{k} = T.alloc_buffer((5,), 'float32')" for k in range(count - 1)]
    blocks = [
        f"    for i in range(5):\n        with T.block('b{k}'):\n            v = T.axis.spatial(5, i)\n"
        f"            B{k}[v] = {f'B{k - 1}' if k else 'A'}[v] * T.float32({k % 3}) + T.float32(1)"
        for k in range(count)
    ]
    head = f"@T.prim_func\ndef main(A: T.Buffer((5,), 'float32'), B{count - 1}: T.Buffer((5,), 'float32')):"
    func = parse("\n".join([head, *allocations, *blocks]))
    assert str(auto_inline(IRModule.from_expr(func))).count("T.block(") == -(-count // MOST_INLINED)
    x = np.array([0, 1, -2, 0.5, 3], "float32")
    out, expected = np.zeros(5, "float32"), x
    unity.compile(func)["main"](x, out)
    for k in range(count):
        expected = expected * np.float32(k % 3) + np.float32(1)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
