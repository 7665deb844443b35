"""Matrix fragments are filled with values of any type, which become that of the fragment."""

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.script import parse

TEXT = """
@T.prim_func
def main(Y: T.Buffer((16, 16), "{dtype}")):
    for t in T.thread_binding(32, "threadIdx.x"):
        C = T.alloc_buffer((256,), "{dtype}", scope="wmma.{part}")
        T.tvm_fill_fragment(C.data, 16, 16, 16, 0, {value})
        T.tvm_store_matrix_sync(C.data, 16, 16, 16, 0, Y.data, 16, "row_major")
"""


@pytest.mark.gpu
@pytest.mark.parametrize("value", ["T.float32(3)", "T.int64(3)", "T.float16(3)"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_values_of_other_types(dtype: str, value: str) -> None:
    y = np.zeros((16, 16), dtype)
    compiled = unity.compile(parse(TEXT.format(dtype=dtype, value=value, part="accumulator")), target="cuda")
    with device_or_emulated(traffic=False):
        unity.VirtualMachine(compiled, unity.cuda(0))["main"](y)
    assert (y == 3).all()


def test_operands_are_not_filled() -> None:
    with pytest.raises(unity.UnityError, match="accumulators only") as refused:
        unity.compile(parse(TEXT.format(dtype="float16", value="T.float16(0)", part="matrix_a")), target="cuda")
    assert refused.value.code == "E526"
