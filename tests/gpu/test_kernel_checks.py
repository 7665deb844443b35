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


@pytest.mark.parametrize("check, said", [
    ("C[t] = T.floordiv(A[t], B[t])", "integer division by zero"), ('assert B[t] > 0, "no factor"', "no factor"),
])  # fmt: skip
def test_all_threads_fail_together(check: str, said: str) -> None:
    """They store the same number, which is no race; the error names the kernel, and the line where it is known."""
    module = parse(QUOTIENT.replace("C[t] = T.floordiv(A[t], B[t])", check))
    with device_or_emulated():
        machine = unity.VirtualMachine(unity.compile(module, target="cuda"), unity.cuda(0))
        given = [unity.tensor(np.zeros(64, "int32"), device=unity.cuda(0)) for _ in range(3)]
        machine["main"](*given)
        with pytest.raises(unity.UnityError, match=f"cuda:0: kernel main_kernel: {said}") as failed:
            unity.cuda(0).sync()
        places = [note.message for note in failed.value.notes]
        assert places == ([] if "zero" in said else ["checked at <script>:5"])


SIZES = """
@T.prim_func
def main(x: T.handle, y: T.handle):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (m,), "float32")
"""
RELYING = {
    "nest": """
    for i in range(m):
        with T.block("b"):
            v = T.axis.spatial(m, i)
            Y[v] = X[v]
""",
    "threads": """
    for b in T.thread_binding(m, "blockIdx.x"):
        for t in T.thread_binding(1, "threadIdx.x"):
            Y[b + t] = X[b + t]
""",
    "one thread": """
    for i in range(m):
        Y[i] = X[i]
        Y[0] = X[0]
""",
    "asserted after a kernel": """
    for i in range(m):
        Y[i] = T.float32(0)
    assert m <= n, "too long"
    for i in range(m):
        Y[i] = Y[i] + X[i]
""",
    "asserted in a case": """
    if m > 3:
        assert m <= n, "too long"
        for i in range(m):
            Y[i] = X[i]
    else:
        for i in range(m):
            Y[i] = X[0]
""",
}


@pytest.mark.parametrize("mode", ["native", "bytecode"])
@pytest.mark.parametrize("body", RELYING.values(), ids=RELYING)
def test_sizes_are_checked_before_the_kernels_that_rely_on_them(body: str, mode: str) -> None:
    """A kernel that ran nevertheless would lose the context of the device."""
    compiled = unity.compile(parse(SIZES + body), target="cuda")
    with device_or_emulated():
        machine = unity.VirtualMachine(compiled, unity.cuda(0), exec_mode=mode)
        for _ in range(2):
            long = unity.tensor(np.zeros(1 << 12, "float32"), device=unity.cuda(0))
            with pytest.raises(unity.UnityError, match=r"(too long|unless).*m = 4096") as failed:
                machine["main"](np.ones(4, "float32"), long)
            assert failed.value.code == "E614"
            y = np.zeros(8, "float32")
            machine["main"](np.arange(8, dtype="float32"), y)
            assert (y == np.arange(8)).all()
