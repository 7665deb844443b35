"""Programs that call functions of the host, built for a device."""

from __future__ import annotations

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.script import parse

pytestmark = pytest.mark.gpu


@unity.register_func("test.gpu.twice")
def twice(source: unity.Tensor, target: unity.Tensor) -> None:
    np.copyto(target.numpy(), 2 * source.numpy())


def test_a_call_beside_a_kernel_gets_copies() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.call_packed("test.gpu.twice", A.data, B.data)
    for t in T.thread_binding(64, "threadIdx.x"):
        C[t] = B[t] + T.float32(1)
""")
    with device_or_emulated():
        machine = unity.VirtualMachine(unity.compile(func, target="cuda"), unity.cuda(0))
        arrays = [unity.tensor(np.arange(64, dtype="float32"), device=unity.cuda(0)) for _ in range(3)]
        machine["main"](*arrays)
        assert (arrays[2].numpy() == 2 * np.arange(64) + 1).all()
