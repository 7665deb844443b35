"""A buffer that a statement reads in several lanes is not put in place of its elements."""

import numpy as np
import pytest

import unity
from unity import tir
from unity.script import parse
from unity.support.errors import UnityError

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((3, 4), "float32"), D: T.Buffer((4,), "float32")):
        C = T.alloc_buffer((3, 4), "float32")
        for i, j in T.grid(3, 4):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = VALUE
        for k in range(4):
            with T.block("d"):
                vk = T.axis.spatial(4, k)
                D[vk] = C[0, vk] * A[vk]
        for i in range(3):
            B[i, T.Ramp(0, 1, 4)] = C[i, T.Ramp(0, 1, 4)] * T.Broadcast(A[i], 4)
"""


@pytest.mark.parametrize("value", ["A[3]", "A[vi] + A[vj]"])
def test_lanes_read_what_elements_hold(value: str) -> None:
    mod = parse(TEXT.replace("VALUE", value))
    a, b, d = np.arange(8, dtype="float32"), np.zeros((3, 4), "float32"), np.zeros(4, "float32")
    unity.VirtualMachine(unity.compile(mod))["main"](a, b, d)
    c = np.full((3, 4), 3.0) if value == "A[3]" else a[:3, None] + a[None, :4]
    np.testing.assert_array_equal(b, c * a[:3, None])
    np.testing.assert_array_equal(d, c[0] * a[:4])
    with pytest.raises(UnityError, match="in several lanes"):
        sch = tir.Schedule(mod)
        sch.compute_inline(sch.get_block("c"))
