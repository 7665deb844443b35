"""Checks inside kernels are told at the next synchronisation or copy to the host, once."""

from __future__ import annotations

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.script import parse

pytestmark = pytest.mark.gpu
QUOTIENT = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for t in T.thread_binding(64, "threadIdx.x"):
        C[t] = T.floordiv(A[t], B[t])
"""


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_a_division_by_zero_in_a_kernel(mode: str) -> None:
    a, one = np.arange(64, dtype="int32"), np.ones(64, "int32")
    zero = np.where(np.arange(64) == 40, 0, 1).astype("int32")
    with device_or_emulated():
        machine = unity.VirtualMachine(unity.compile(parse(QUOTIENT), target="cuda"), unity.cuda(0), exec_mode=mode)
        on_device = [unity.tensor(x, device=unity.cuda(0)) for x in (a, one, zero, a)]
        machine["main"](on_device[0], on_device[2], on_device[3])  # nothing waits for the kernel yet
        with pytest.raises(unity.UnityError, match="integer division by zero") as failed:
            unity.cuda(0).sync()
        assert failed.value.code == "E614"
        machine["main"](on_device[0], on_device[1], on_device[3])
        assert (on_device[3].numpy() == a).all()
        machine["main"](on_device[0], on_device[2], on_device[3])
        with pytest.raises(unity.UnityError, match="integer division by zero"):
            on_device[3].numpy()
