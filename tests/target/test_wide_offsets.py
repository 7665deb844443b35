"""Offsets of elements behind the first 2**31, of buffers whose sizes, strides and loops have 32 bits."""

import mmap

import numpy as np
import pytest

import unity
from unity.script import parse

ROWS, COLUMNS = 2049, 1 << 20
PROGRAMS = {
    "shape": ("n, m = T.int32(), T.int32()\n    A = T.match_buffer(a, (n, m), 'int8')", "B[v] = A[v, 5] + T.int8(1)"),
    "strides": (
        "s = T.int32()\n    A = T.match_buffer(a, (2049, 8), 'int8', strides=(s, 1))",
        "B[v] = A[v, 5] + T.int8(1)",
    ),
    "constant": ("A = T.match_buffer(a, (2049, 1048576), 'int8')", "B[v] = A[v, 5] + T.int8(1)"),
    "view": (
        "n, m = T.int32(), T.int32()\n    A = T.match_buffer(a, (n, m), 'int8')",
        "C = T.match_buffer(A[v, 0:8], (8,), offset_factor=1)\n            B[v] = C[5] + T.int8(1)",
    ),
    "address": (
        "m = T.int32()\n    A = T.match_buffer(a, (2049, m), 'int8')",
        "T.evaluate(T.call_extern('int32', 'memset', T.address_of(A[v, 6]), 41, T.int64(1)))\n            B[v] = A[v, 5] + T.int8(1)",
    ),
}
TEXT = """
@T.prim_func
def f(a: T.handle, B: T.Buffer((2049,), "int8")):
    {}
    for i in range(2049):
        with T.block("b"):
            v = T.axis.spatial(2049, i)
            {}
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_row(name: str, level) -> None:
    given = np.frombuffer(mmap.mmap(-1, ROWS * COLUMNS), "int8").reshape(
        ROWS, COLUMNS
    )  # only touched pages take memory
    given[2048, 5] = 41
    found = np.zeros(ROWS, "int8")
    built = unity.compile(parse(TEXT.format(*PROGRAMS[name])))
    level.require()
    unity.VirtualMachine(built)["f"](given[:, :8] if name == "strides" else given, found)
    assert found[2048] == 42 and (found[:2048] == 1).all()
