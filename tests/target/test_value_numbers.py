"""Code generation writes a pure instruction once on a way, and never reuses a value from a block that may not have run."""

import re

import numpy as np
from lowering import LOOPS

import unity
from unity.ffi.targets.target import target
from unity.script import parse
from unity.target.cpu.codegen import write_module
from unity.transform.tir.pipeline import lower_prim_funcs

TEXT = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), i: T.int64):
    B[i, 0] = A[i, 0] + T.float32(1)
    B[i, 1] = A[i, 1] + T.float32(2)
    if A[i, 2] > T.float32(0):
        B[i, 2] = A[i, 2] * A[i, 2]
    B[i, 3] = A[i, 2] * A[i, 2]
    A[i, 0] = B[i, 1]
    B[i, 4] = A[i, 0]
"""


def products(text):
    text = write_module(lower_prim_funcs({"main": parse(text)}, LOOPS), target("llvm"))[0]
    body = text[text.index("define i32 @unity.kernel.main") :]
    return [line for line in body.splitlines() if " mul nsw i64 " in line]


def test_offsets_are_written_once():
    assert len(products(TEXT)) == 1  # before the condition, for what is inside it and behind it as well


def test_values_of_a_branch_and_of_a_loop_stay_there():
    """One product for what comes before, one on each side of the condition, one in the loop, one behind them."""
    place, inside = "    B[0, i * {}] = T.float32(1)\n", "        B[0, i * 3] = T.float32(1)\n"
    condition = f"    if A[0, 2] > T.float32(0):\n{inside}    else:\n{inside}"
    loop = (
        "    for k in range(i):\n        B[k, i * 5] = A[k, i * 2]\n        if A[k, 3] > A[k, 4]:\n            break\n"
    )
    parts = (TEXT[: TEXT.index("    B[")], place.format(2), condition, place.format(3), loop, place.format(5))
    text = "".join(parts)
    found = [line.rpartition(", ")[2] for line in products(text) if "%p2" in line]
    assert found == ["2", "3", "3", "3", "5", "5"]


def test_divisions_are_written_once_in_a_block():
    stores = "".join([f"    B[i // 5, {k}] = A[i // 5, {k}] + T.float32(i % 5)\n" for k in range(16)])
    text = write_module(
        lower_prim_funcs({"main": parse(TEXT[: TEXT.index("    B[")] + stores)}, LOOPS), target("llvm")
    )[0]
    assert [text.count(f"= {name} i64 ") for name in ("sdiv", "srem")] == [1, 1]


def test_loads_and_other_blocks_are_not_reused():
    a = np.arange(128, dtype="float32").reshape(8, 16) - 60
    for row in (0, 5):
        given, b = a.copy(), np.zeros_like(a)
        unity.VirtualMachine(unity.compile(parse(TEXT)))["main"](given, b, row)
        expected = np.zeros(16, "float32")
        expected[:5] = a[row, 0] + 1, a[row, 1] + 2, max(a[row, 2], 0) * a[row, 2], a[row, 2] ** 2, a[row, 1] + 2
        np.testing.assert_array_equal(b[row], expected)


def test_memory_that_nothing_writes_is_read_once():
    """A value is read once where it is known; memory that the program writes, or that may be another parameter's, each time."""
    head = '@T.prim_func\ndef main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), i: T.int64):\n'
    body = "    B[i, 0] = A[i, 1]\n    B[i, 2] = A[i, 1] * A[i, 1]\n"
    may_alias = '    T.func_attr({"tir.noalias": False})\n'
    for text, reads in (
        (head + body, 1),
        (head + may_alias + body, 3),
        (head + body + "    A[i, 1] = T.float32(0)\n", 3),
        (head + body + '    T.evaluate(T.call_extern("int32", "free", A.data))\n', 3),
        (head + "    if i < T.int64(2):\n" + body.replace("    ", "        ") + body, 2),
        (head + "    for k in range(i):\n        B[k, 0] = A[i, 1]\n    B[i, 0] = A[i, 1]\n", 2),
        (head + "    for k in T.vectorized(16):\n        B[i, k] = A[i, k] + A[i, k]\n", 1),
    ):
        written = write_module(lower_prim_funcs({"main": parse(text)}, LOOPS), target("llvm"))[0]
        assert len(re.findall(r"= load [<\w ]*float", written)) == reads, text


def test_neighbours_differ_in_a_constant():
    """One sum for all cells around a place, which are as far from it as their constants say."""
    places = ["i * 3 + 2 + k", "2 + i * 3 + k - 5", "(i * 3 + k) - 1", "4 + (i * 3 + k)", "i * 3 - k"]
    stores = "".join([f"    B[{n}] = A[{place}]\n" for n, place in enumerate(places)])
    func = parse(
        '@T.prim_func\ndef main(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32"), i: T.int64, k: T.int32):\n'
        + stores
    )
    text = write_module({"main": func}, target("llvm"))[0]
    assert len(re.findall(" (?:add|sub) nsw i64 ", text)) == 2
    a, b = np.arange(64, dtype="float32"), np.zeros(8, "float32")
    unity.VirtualMachine(unity.compile(func))["main"](a, b, 5, 4)
    assert b[:5].tolist() == [21, 16, 18, 23, 11]
