"""A GPU kernel tested without a GPU: a tiled matrix product, its missing barrier found, its bank conflicts counted and cured."""

import numpy as np

import unity
from unity.script import tir as T
from unity.transform.tir.threads.thread_sync import thread_sync


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, k), "float32")
    B = T.match_buffer(b, (k, m), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    for by in T.thread_binding((n + 15) // 16, thread="blockIdx.y"):
        for bx in T.thread_binding((m + 15) // 16, thread="blockIdx.x"):
            for ty in T.thread_binding(16, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    A_shared = T.alloc_buffer((16, 16), "float32", scope="shared")
                    B_shared = T.alloc_buffer((16, 16), "float32", scope="shared")
                    total = T.alloc_buffer((1,), "float32", scope="local")
                    total[0] = T.float32(0)
                    for ko in range((k + 15) // 16):
                        A_shared[ty, tx] = T.if_then_else(
                            by * 16 + ty < n and ko * 16 + tx < k, A[by * 16 + ty, ko * 16 + tx], T.float32(0)
                        )
                        B_shared[tx, ty] = T.if_then_else(
                            ko * 16 + ty < k and bx * 16 + tx < m, B[ko * 16 + ty, bx * 16 + tx], T.float32(0)
                        )
                        for ki in range(16):
                            total[0] = total[0] + A_shared[ty, ki] * B_shared[tx, ki]
                    if by * 16 + ty < n and bx * 16 + tx < m:
                        C[by * 16 + ty, bx * 16 + tx] = total[0]


rng = np.random.default_rng(0)
a, b = rng.standard_normal((50, 40)).astype("float32"), rng.standard_normal((40, 70)).astype("float32")
c = np.zeros((50, 70), "float32")

report = unity.check_gpu(matmul, a, b, c)
print(report.races[0])
assert len(report.races) == 4, "both tiles are read too early and overwritten too early"

repaired = thread_sync.on(matmul)
report = unity.check_gpu(repaired, a, b, c).raise_if_failed()
np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
print("\nwith barriers:")
print(report)
assert report.bank_conflicts[0].worst == 8, "neighbouring threads read a column of the tile: 16 words apart, 2 banks"

padded = unity.script.parse(
    repaired.script().replace("B_shared = T.alloc_buffer((16, 16)", "B_shared = T.alloc_buffer((16, 17)")
)
better = unity.check_gpu(padded, a, b, c).raise_if_failed()
before, after = [sum([s.transactions for s in r.sites if s.buffer == "B_shared"]) for r in (report, better)]
print(f"\nrows of 17 floats: {before} passes over the banks become {after}")
assert after * 3 < before
