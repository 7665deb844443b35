"""Tensor programs as script, and their arguments, for the tests of lowering passes."""

from __future__ import annotations

import numpy as np

from unity.ffi.dtype import DataType

HEADER = "from unity.script import ir as I, tir as T\n\n"

PROGRAMS: dict[str, str] = {
    "matmul": """
@T.prim_func
def main(x: T.handle, w: T.handle, y: T.handle):
    n, k, m = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, k), "float32")
    W = T.match_buffer(w, (k, m), "float32")
    Y = T.match_buffer(y, (n, m), "float32")
    for i, j, p in T.grid(n, m, k):
        with T.block("mm"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vp] * W[vp, vj]
""",
    "softmax": """
@T.prim_func
def main(A: T.Buffer((5, 17), "float32"), C: T.Buffer((5, 17), "float32")):
    with T.block("root"):
        M = T.alloc_buffer((5,), "float32")
        E = T.alloc_buffer((5, 17), "float32")
        S = T.alloc_buffer((5,), "float32")
        for i, j in T.grid(5, 17):
            with T.block("max"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], A[vi, vj])
        for i, j in T.grid(5, 17):
            with T.block("exp"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = T.exp(A[vi, vj] - M[vi])
        for i, j in T.grid(5, 17):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + E[vi, vj]
        for i, j in T.grid(5, 17):
            with T.block("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = E[vi, vj] / S[vi]
""",
    "split_reduction": """
@T.prim_func
def main(A: T.Buffer((6, 20), "float32"), C: T.Buffer((6,), "float32")):
    for i in T.parallel(6):
        for jo, ji in T.grid(3, 8):
            with T.block("sum"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.reduce(20, jo * 8 + ji)
                T.where(jo * 8 + ji < 20)
                with T.init():
                    C[vi] = T.float32(1)
                C[vi] = C[vi] + A[vi, vj]
""",
    "transpose": """
@T.prim_func
def main(A: T.Buffer((7, 9), "int32"), C: T.Buffer((9, 7), "int32")):
    for i, j in T.grid(7, 9):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj, vi] = A[vi, vj] * 3 - vi
""",
    "matched": """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(2, 4):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4:vi * 4 + 4, vj * 2:vj * 2 + 2])
            T.writes(C[vi * 4:vi * 4 + 4, vj * 2:vj * 2 + 2])
            P = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 2:vj * 2 + 2], (4, 2), offset_factor=1)
            Q = T.match_buffer(C[vi * 4:vi * 4 + 4, vj * 2:vj * 2 + 2], (4, 2), offset_factor=1)
            for a, b in T.grid(4, 2):
                Q[a, b] = P[3 - a, b] + T.float32(1)
""",
    "vectorized": """
@T.prim_func
def main(A: T.Buffer((50,), "float32"), C: T.Buffer((50,), "float32")):
    for io in T.serial(4):
        for ii in T.vectorized(16):
            if io * 16 + ii < 50:
                C[io * 16 + ii] = T.if_then_else(A[io * 16 + ii] > T.float32(0), T.sqrt(A[io * 16 + ii]), T.float32(-1))
""",
    "loops": """
@T.prim_func
def main(A: T.Buffer((40,), "int32"), C: T.Buffer((40,), "int32")):
    for i in T.serial(2, 40, step=3):
        for u in T.unroll(3):
            if i + u < 40:
                C[i + u] = A[i + u] * 2 + u
    for one in range(1):
        C[one] = A[0] + 7
    for none in range(0):
        C[none] = 99
""",
    "narrow": """
@T.prim_func
def main(A: T.Buffer((33,), "bfloat16"), B: T.Buffer((33,), "bfloat16"), C: T.Buffer((33,), "bfloat16")):
    for i in range(33):
        with T.block("c"):
            vi = T.axis.spatial(33, i)
            C[vi] = T.max(A[vi] * B[vi], T.bfloat16(0.5))
""",
    "shift": """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.block("c"):
            vi = T.axis.spatial(12, i)
            C[vi] = T.if_then_else(vi >= 1, A[vi - 1], T.float32(0)) + T.Select(vi >= 3, A[vi], A[11 - vi])
""",
    "in_place": """
@T.prim_func
def main(A: T.Buffer((6, 6), "int32")):
    for i, j in T.grid(5, 6):
        with T.block("prefix"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj] + A[vi + 1, vj]
""",
    "pool": """
@T.prim_func
def main(A: T.Buffer((3, 8, 8), "float32"), C: T.Buffer((3, 4, 4), "float32")):
    for c, y, x, r, s in T.grid(3, 4, 4, 2, 2):
        with T.block("pool"):
            vc, vy, vx, vr, vs = T.axis.remap("SSSRR", [c, y, x, r, s])
            with T.init():
                C[vc, vy, vx] = T.float32(-1000)
            C[vc, vy, vx] = T.max(C[vc, vy, vx], A[vc, vy * 2 + vr, vx * 2 + vs])
""",
    "local": """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            L = T.alloc_buffer((6,), "float32")
            for j in range(6):
                L[j] = A[vi, 5 - j]
            for j in range(6):
                C[vi, j] = L[j] + T.float32(1)
""",
}


SHAPES: dict[str, str] = {
    "matmul": "float32 5x7 7x9 5x9", "softmax": "float32 5x17 5x17", "split_reduction": "float32 6x20 6",
    "transpose": "int32 7x9 9x7", "matched": "float32 8x8 8x8", "vectorized": "float32 50 50", "loops": "int32 40 40",
    "narrow": "bfloat16 33 33 33", "shift": "float32 12 12", "in_place": "int32 6x6", "pool": "float32 3x8x8 3x4x4",
    "local": "float32 4x6 4x6",
}  # fmt: skip
"""Element type and shapes of each program's arguments."""


def arguments(name: str, seed: int = 0) -> list[np.ndarray]:
    """Random arguments of a program."""
    dtype, *shapes = SHAPES[name].split()
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal([int(n) for n in shape.split("x")]) * 10 for shape in shapes]
    return [array.astype(DataType(dtype).numpy) for array in arrays]
