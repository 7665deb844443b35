"""verify_memory and verify_gpu_code: programs that no device can run are refused with the step that mends them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.support.errors import PassError
from unity.target import GPU_PIPELINE, Target
from unity.transform.tir.threads.verify_gpu_code import verify_gpu_code
from unity.transform.tir.threads.verify_memory import verify_memory

PLAIN = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((64, 8), "float32"), Y: T.Buffer((64, 8), "float32")):
        for i, j in T.grid(64, 8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] + T.float32(1)
"""
LIMITS = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((64,), "float32")):
        for b in T.thread_binding({blocks}, thread="blockIdx.y"):
            for z in T.thread_binding({z}, thread="threadIdx.z"):
                for t in T.thread_binding({threads}, thread="threadIdx.x"):
                    S = T.alloc_buffer(({size},), "float32", scope="{scope}")
                    for v in T.vectorized({lanes}):
                        S[v] = T.float32(0)
                        S[{size} - 8 + v] = T.float32(0)
                    if t < {lanes}:
                        X[t] = S[t]
"""


def test_what_the_host_touches_names_the_step() -> None:
    with pytest.raises(PassError, match=r"E374.*did you forget to bind") as caught:
        GPU_PIPELINE(parse(PLAIN))
    step = str(caught.value.help)
    assert step == 'sch.bind(sch.get_loops("Y")[0], "blockIdx.x"); sch.bind(sch.get_loops("Y")[1], "threadIdx.x")'
    sch = unity.Schedule(parse(PLAIN))
    exec(step, {"sch": sch})  # what it says is what to do
    x, y = np.ones((64, 8), "float32"), np.zeros((64, 8), "float32")
    assert unity.check_gpu(sch.mod, x, y, pipeline=GPU_PIPELINE).ok and (y == 2).all()


def test_one_loop_is_split_first() -> None:
    text = (
        PLAIN.replace("i, j in T.grid(64, 8)", "i in range(64)").replace("(64, 8)", "(64,)").replace("[vi, vj]", "[vi]")
    )
    text = text.replace('vi, vj = T.axis.remap("SS", [i, j])', "vi = T.axis.spatial(64, i)")
    with pytest.raises(PassError, match="E374") as caught:
        verify_memory(parse(text))
    sch = unity.Schedule(parse(text))
    exec(str(caught.value.help), {"sch": sch})
    assert verify_memory(sch.mod) is sch.mod


def test_programs_of_processors_are_theirs() -> None:
    mod = parse(
        PLAIN.replace("        for i, j", '        T.func_attr({"target": T.target("llvm")})\n        for i, j')
    )
    assert verify_memory(mod) is mod


@pytest.mark.parametrize("given,message", [
    ({"threads": 2048}, "threadIdx.x has the extent 2048"), ({"z": 65, "threads": 1}, "threadIdx.z has the extent 65"),
    ({"z": 64}, "2048 threads, the device takes at most 1024"), ({"blocks": 70000}, "blockIdx.y has the extent 70000"),
    ({"size": 20000}, "80000 bytes of static shared memory"), ({"size": 80000, "scope": "shared.dyn"}, "320000 bytes of shared memory"),
])  # fmt: skip
def test_limits(given: dict[str, Any], message: str) -> None:
    fields = {"blocks": 2, "z": 1, "threads": 32, "size": 64, "scope": "shared", "lanes": 4, **given}
    with pytest.raises(PassError, match=f"E375.*{message}"):
        GPU_PIPELINE(parse(LIMITS.format(**fields)))


def test_limits_of_a_target_and_of_vectors() -> None:
    fields = {"blocks": 2, "z": 1, "threads": 256, "size": 64, "scope": "shared", "lanes": 8}
    mod = parse(LIMITS.format(**fields))
    GPU_PIPELINE(mod)
    with Target("cuda -max_threads_per_block=128"), pytest.raises(PassError, match=r"E375.*256 threads.*at most 128"):
        GPU_PIPELINE(mod)
    before = GPU_PIPELINE.without("verify_gpu_code", "split_host_device", "split_wide_vectors")(mod)
    with pytest.raises(PassError, match=r"E375.*an access of S is 32 bytes wide"):
        verify_gpu_code.with_options(max_vector_bytes=16)(before)
