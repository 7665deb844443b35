"""compact_thread_buffers and the lowering for devices: caches of whole tensors become what a block or a thread needs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from unity.ir.stmt import AllocBuffer
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import InterpreterError
from unity.target import GPU_PIPELINE, check_gpu
from unity.transform import Pipeline

COMPACTED = Pipeline(GPU_PIPELINE.passes[: [p.name for p in GPU_PIPELINE].index("compact_thread_buffers") + 1])
"""As far as the pass."""

MATMUL = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32"), C: T.Buffer((N, N), "float32")):
        C_local = T.alloc_buffer((N, N), "float32", scope="local")
        A_shared = T.alloc_buffer((N, N), "float32", scope="shared")
        B_shared = T.alloc_buffer((N, N), "float32", scope="shared")
        for i0 in T.thread_binding(N // 16, thread="blockIdx.y"):
            for j0 in T.thread_binding(N // 16, thread="blockIdx.x"):
                for i1 in T.thread_binding(8, thread="threadIdx.y"):
                    for j1 in T.thread_binding(8, thread="threadIdx.x"):
                        for i2, j2 in T.grid(2, 2):
                            with T.block("init"):
                                vi = T.axis.spatial(N, i0 * 16 + i1 * 2 + i2)
                                vj = T.axis.spatial(N, j0 * 16 + j1 * 2 + j2)
                                C_local[vi, vj] = T.float32(0)
                        for k0 in range(N // 8):
                            for a in range(2):
                                for ty in T.thread_binding(8, thread="threadIdx.y"):
                                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                                        with T.block("A_shared"):
                                            v0 = T.axis.spatial(N, i0 * 16 + a * 8 + ty)
                                            v1 = T.axis.spatial(N, k0 * 8 + tx)
                                            A_shared[v0, v1] = A[v0, v1]
                            for b in range(2):
                                for ty in T.thread_binding(8, thread="threadIdx.y"):
                                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                                        with T.block("B_shared"):
                                            v0 = T.axis.spatial(N, k0 * 8 + ty)
                                            v1 = T.axis.spatial(N, j0 * 16 + b * 8 + tx)
                                            B_shared[v0, v1] = B[v0, v1]
                            for k1, i2, j2 in T.grid(8, 2, 2):
                                with T.block("update"):
                                    vi = T.axis.spatial(N, i0 * 16 + i1 * 2 + i2)
                                    vj = T.axis.spatial(N, j0 * 16 + j1 * 2 + j2)
                                    vk = T.axis.reduce(N, k0 * 8 + k1)
                                    C_local[vi, vj] = C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
                        for i2, j2 in T.grid(2, 2):
                            with T.block("write"):
                                vi = T.axis.spatial(N, i0 * 16 + i1 * 2 + i2)
                                vj = T.axis.spatial(N, j0 * 16 + j1 * 2 + j2)
                                C[vi, vj] = C_local[vi, vj]
"""


def sizes(mod: object) -> dict[str, tuple[int, ...]]:
    found = collect(mod, AllocBuffer)  # type: ignore[arg-type]
    return {a.buffer.name: tuple([e.value for e in a.buffer.shape]) for a in found}


@pytest.mark.parametrize("n", [16, 64])
def test_a_scheduled_matrix_product(n: int) -> None:
    mod = parse(MATMUL.replace("N", str(n)))
    lowered = GPU_PIPELINE(mod)
    assert sizes(COMPACTED(mod)) == {"C_local": (2, 2), "A_shared": (16, 8), "B_shared": (8, 16)}
    x, y = np.random.default_rng(n).standard_normal((2, n, n)).astype("float32")
    out = np.zeros((n, n), "float32")
    report = check_gpu(lowered, x, y, out)
    assert report.ok, str(report)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-4)
    assert report.barriers == 2 * n // 8 * report.launches or n == 16
    before = check_gpu(mod, x, y, np.zeros_like(out))
    assert {f.code for f in before.findings} == {"E360"}, "without the pipeline there are no barriers"


def test_whole_tensors_do_not_fit() -> None:
    mod = parse(MATMUL.replace("N", "2048"))
    arrays = [np.zeros((2048, 2048), "float32") for _ in range(3)]
    with pytest.raises(InterpreterError, match="E368"):
        check_gpu(mod, *arrays)
    assert sizes(COMPACTED(mod))["C_local"] == (2, 2)


def test_cells_of_virtual_threads_and_other_threads_stay_apart() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((128,), "int32"), Y: T.Buffer((128,), "int32")):
        own = T.alloc_buffer((128,), "int32", scope="local")
        S = T.alloc_buffer((128,), "int32", scope="shared")
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                for vx in T.thread_binding(4, thread="vthread.x"):
                    own[bx * 64 + vx * 16 + tx] = X[bx * 64 + vx * 16 + tx]
                for vx in T.thread_binding(4, thread="vthread.x"):
                    S[bx * 64 + vx * 16 + tx] = own[bx * 64 + vx * 16 + tx]
                for k in range(4):
                    Y[bx * 64 + k * 16 + tx] = S[bx * 64 + 63 - k * 16 - tx]
"""
    lowered = GPU_PIPELINE(parse(text))
    assert sizes(lowered) == {"own": (49,), "S": (64,)}
    x, y = np.arange(128, dtype="int32"), np.zeros(128, "int32")
    assert check_gpu(lowered, x, y).ok
    np.testing.assert_array_equal(y, x.reshape(2, 64)[:, ::-1].ravel())


def test_what_is_kept_between_turns_is_kept() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(Y: T.Buffer((32,), "int32")):
        L = T.alloc_buffer((32, 8), "int32", scope="local")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            L[tx, 0] = 1
            for k in range(7):
                L[tx, k + 1] = L[tx, k] * 2
            Y[tx] = L[tx, 7]
"""
    lowered = GPU_PIPELINE(parse(text))
    assert sizes(lowered) == {"L": (8,)}
    y = np.zeros(32, "int32")
    assert check_gpu(lowered, y).ok and (y == 128).all()


@pytest.mark.parametrize("rows", [3, 4, 7])
def test_registers_have_constant_indices(rows: int) -> None:
    """Cells of a thread that reach from its own to the end of the buffer are as relative to its first cell as others."""
    program = parse(f"""
@I.ir_module
class Module:
  @T.prim_func
  def main(X: T.Buffer(({rows}, 32), "float32"), Y: T.Buffer(({rows}, 32), "float32")):
      kept = T.alloc_buffer(({rows}, 32), "float32", scope="local")
      for ty in T.thread_binding(2, thread="threadIdx.y"):
          for tx in T.thread_binding(32, thread="threadIdx.x"):
              for i in T.unroll({(rows + 1) // 2}):
                  if i * 2 + ty < {rows}:
                      kept[i * 2 + ty, tx] = X[i * 2 + ty, tx]
              for i in T.unroll({(rows + 1) // 2}):
                  if i * 2 + ty < {rows}:
                      Y[i * 2 + ty, tx] = kept[i * 2 + ty, tx] + T.float32(1)
""")
    lowered = GPU_PIPELINE(program)
    places = set(re.findall(r"kept\[(.*?)\]", lowered.script()))
    assert places and not [place for place in places if "threadIdx" in place]
    x, y = np.random.default_rng(0).random((2, rows, 32), "float32")
    assert check_gpu(lowered, x, y).ok and (y == x + 1).all()
