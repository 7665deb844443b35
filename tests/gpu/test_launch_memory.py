"""Shared memory whose size the launch gives, above what a block has without asking; architectures of machine code."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.target.cuda.arch import assembled_archs
from unity.testing import emulated_gpu


@pytest.mark.gpu
@pytest.mark.parametrize("kib", [16, 64, 128])
def test_dynamic_shared_memory(kib: int) -> None:
    count = kib * 256
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer(({count},), "float32"), B: T.Buffer(({count},), "float32")):
    for t in T.thread_binding(256, "threadIdx.x"):
        S = T.alloc_buffer(({count},), "float32", scope="shared.dyn")
        for k in range({count // 256}):
            S[k * 256 + t] = A[k * 256 + t]
        T.tvm_storage_sync("shared.dyn")
        for k in range({count // 256}):
            B[k * 256 + t] = S[{count - 1} - (k * 256 + t)]
""")
    x = np.arange(count, dtype="float32")
    with emulated_gpu() as gpu:
        machine = unity.VirtualMachine(unity.compile(func, target="cuda"), unity.cuda(0))
        a, b = [unity.tensor(array, device=unity.cuda(0)) for array in (x, np.zeros_like(x))]
        machine["main"](a, b)
        assert (b.numpy() == x[::-1]).all() and not gpu.findings
        assert gpu.launches[0].shared == 4 * count


def test_machine_code_for_an_older_architecture_is_refused() -> None:
    """LLVM ends the process over an instruction that an architecture has not."""
    assert [arch.name for arch in assembled_archs(unity.Target("cuda -arch=sm_80 -cubin=sm_80,sm_90a"))] == [
        "sm_80",
        "sm_90a",
    ]
    for text in ("cuda -arch=sm_90a -cubin=sm_80", "cuda -arch=sm_90a -cubin=sm_100a", "cuda -cubin=sm_75"):
        with pytest.raises(unity.UnityError, match="may have instructions") as refused:
            assembled_archs(unity.Target(text))
        assert refused.value.code == "E531"
