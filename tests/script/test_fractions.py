"""A fraction is never cut off where an integer constant is written; a cast says that it may be."""

import numpy as np
import pytest

from unity import relax, te, tensor, tir
from unity.ffi.dtype import DataType, dtype_names
from unity.op import OPERATORS
from unity.script import from_source
from unity.support.errors import UnityError

INTEGERS = [name for name in dtype_names() if not DataType(name).is_float]
CONSTRUCTORS = {
    "tir.const": lambda v, d: tir.const(v, d), "tir.IntImm": lambda v, d: tir.IntImm(d, v), "te.const": lambda v, d: te.const(v, d),
    "relax.const": lambda v, d: relax.const(v, d), "relax.const of a list": lambda v, d: relax.const([1, v], d),
    "numpy": lambda v, d: tir.const(np.float32(v), d), "tensor": lambda v, d: tensor([v], d),
}  # fmt: skip
PROGRAM = """
from unity.script import tir as T
@T.prim_func
def f(s: T.DTYPE, B: T.Buffer((4,), "DTYPE")):
    for i in range(4):
        LINE
"""
GRAPH = """
from unity.script import relax as R
@R.function
def f(x: R.Tensor((4,), "DTYPE")):
    y = LINE
    return y
"""
WRITTEN = (
    "B[i] = T.DTYPE(LIT)",
    "B[i] = LIT",
    'B[i] = T.IntImm("DTYPE", LIT)',
    "B.vstore([i], LIT)",
    "v: T.DTYPE = LIT\n        B[i] = v",
)
CAST = ('B[i] = T.cast(LIT, "DTYPE")', 'B[i] = T.Cast("DTYPE", LIT)', 'B[i] = (LIT).astype("DTYPE")')
IN_GRAPH = ('R.const(LIT, "DTYPE")', 'R.const([1, LIT], "DTYPE")', 'R.add(x, R.const(LIT, "DTYPE"))')


def text(form, line, value, dtype):
    return form.replace("LINE", line).replace("LIT", repr(value)).replace("DTYPE", dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("value", [2.7, 0.5, float("nan"), float("inf")])
def test_refused(dtype, value):
    for name, make in CONSTRUCTORS.items():
        with pytest.raises(UnityError, match=dtype):
            print(name, make(value, dtype))
    if value == value and abs(value) < 10:
        for form, lines in ((PROGRAM, WRITTEN), (GRAPH, IN_GRAPH)):
            for line in lines:
                with pytest.raises(UnityError, match=rf"(?s){dtype}.*:\d+:\d+"):
                    from_source(text(form, line, value, dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_numbers_and_casts(dtype):
    for make in CONSTRUCTORS.values():
        make(1.0, dtype)
    for line in WRITTEN:
        from_source(text(PROGRAM, line, 1.0, dtype))
    for line in CAST:
        shown = from_source(text(PROGRAM, line, 2.7, dtype)).script()
        assert f"T.{dtype}({'True' if dtype == 'bool' else 2})" in shown or "= 2" in shown
    if dtype != "bool":
        assert OPERATORS["R.full"]((2,), 2.7, dtype=dtype).ty.dtype.name == dtype
