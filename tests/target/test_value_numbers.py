"""Code generation writes a pure instruction once per block, and never reuses a value from a block that may not have run."""

import numpy as np

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


def test_offsets_are_written_once_in_a_block():
    text = write_module(lower_prim_funcs({"main": parse(TEXT)}), target("llvm"))[0]
    body = text[text.index("define i32 @unity.kernel.main") :]
    products = [line for line in body.splitlines() if " mul nsw i64 " in line]
    assert len(products) == 3  # the block before the condition, the one inside it, the one behind it


def test_divisions_are_written_once_in_a_block():
    stores = "".join([f"    B[i // 5, {k}] = A[i // 5, {k}] + T.float32(i % 5)\n" for k in range(16)])
    text = write_module(lower_prim_funcs({"main": parse(TEXT[: TEXT.index("    B[")] + stores)}), target("llvm"))[0]
    assert [text.count(f"= {name} i64 ") for name in ("sdiv", "srem")] == [1, 1]


def test_loads_and_other_blocks_are_not_reused():
    a = np.arange(128, dtype="float32").reshape(8, 16) - 60
    for row in (0, 5):
        given, b = a.copy(), np.zeros_like(a)
        unity.VirtualMachine(unity.compile(parse(TEXT)))["main"](given, b, row)
        expected = np.zeros(16, "float32")
        expected[:5] = a[row, 0] + 1, a[row, 1] + 2, max(a[row, 2], 0) * a[row, 2], a[row, 2] ** 2, a[row, 1] + 2
        np.testing.assert_array_equal(b[row], expected)
