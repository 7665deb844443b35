"""Arithmetic on pairs of numbers of eight bits, overflow and underflow among them: what the reference interpreter says."""

import ml_dtypes  # noqa: F401 - numpy learns the narrow types
import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType, dtype_names
from unity.ir.interpret import run
from unity.script import parse

OPERATIONS = (
    "A[i] + B[i]", "A[i] - B[i]", "A[i] * B[i]", "A[i] / B[i]", "T.max(A[i], B[i])", "T.pow(A[i], B[i])",
)  # fmt: skip
CODES = [0, 1, 2, 3, 7, 8, 56, 63, 64, 100, 119, 126, 127, 128, 129, 150, 191, 192, 250, 252, 254, 255]
COUNT = len(CODES) ** 2
NARROW = [name for name in dtype_names() if name.startswith("float8")]


@pytest.mark.parametrize("dtype", NARROW)
def test_pairs(dtype: str, level: str) -> None:
    lines = [f"        C[i, {k}] = {text}" for k, text in enumerate(OPERATIONS)]
    shape = f'({COUNT},), "{dtype}"'
    head = f'@T.prim_func\ndef f(A: T.Buffer({shape}), B: T.Buffer({shape}), C: T.Buffer(({COUNT}, 6), "{dtype}")):\n'
    mod = parse(head + f"    for i in range({COUNT}):\n" + "\n".join(lines))
    left, right = [x.ravel().view(DataType(dtype).numpy) for x in np.meshgrid(*[np.array(CODES, "uint8")] * 2)]
    found, wanted = [np.zeros((COUNT, 6), left.dtype) for _ in range(2)]
    run(mod, None, left, right, wanted)
    unity.VirtualMachine(unity.compile(mod))["f"](left, right, found)
    numbers = ~(np.isnan(found.astype("float32")) & np.isnan(wanted.astype("float32")))
    wrong = np.argwhere(numbers & (found.view("uint8") != wanted.view("uint8")))
    assert not len(wrong), [(OPERATIONS[k], left[i], right[i], found[i, k], wanted[i, k]) for i, k in wrong[:5]]
