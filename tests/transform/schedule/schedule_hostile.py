"""Programs with what schedules trip over: tuples, gathers, updates in place, conditions, data-dependent loops, sizes that may be
zero, stencils, layouts with holes, nested blocks, narrow floats. Signature and body by name."""

from __future__ import annotations

import textwrap

_PROGRAMS: dict[str, tuple[str, str]] = {
    "argmax": (
        'I0: T.Buffer((5, 8), "int32"), V: T.Buffer((5, 8), "float32"), O0: T.Buffer((5,), "int32"), O1: T.Buffer((5,), "float32")',
        """
for i, k in T.grid(5, 8):
    with T.block("argmax"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.reads(I0[vi, vk], V[vi, vk])
        T.writes(O0[vi], O1[vi])
        with T.init():
            O0[vi] = -1
            O1[vi] = T.float32(-1000)
        a = T.Select(O1[vi] >= V[vi, vk], O0[vi], I0[vi, vk])
        b = T.Select(O1[vi] >= V[vi, vk], O1[vi], V[vi, vk])
        O0[vi] = a
        O1[vi] = b
""",
    ),
    "gather": (
        'A: T.Buffer((9, 4), "float32"), X: T.Buffer((6,), "int32"), B: T.Buffer((6, 4), "float32")',
        """
C = T.alloc_buffer((9, 4), "float32")
G = T.alloc_buffer((6, 4), "float32")
for i, j in T.grid(9, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(6, 4):
    with T.block("G"):
        vi, vj = T.axis.remap("SS", [i, j])
        G[vi, vj] = C[X[vi], vj] * T.float32(2)
for i, j in T.grid(6, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = G[vi, 3 - vj] + C[X[vi], 0]
""",
    ),
    "inplace": (
        'A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")',
        """
for i, j in T.grid(8, 6):
    with T.block("A1"):
        vi, vj = T.axis.remap("SS", [i, j])
        A[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(2)
for i, j in T.grid(8, 6):
    with T.block("A2"):
        vi, vj = T.axis.remap("SS", [i, j])
        A[vi, vj] = A[vi, vj] * B[7 - vi, vj]
""",
    ),
    "scan": (
        'A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")',
        """
for i in range(10):
    with T.block("z"):
        vi = T.axis.spatial(10, i)
        B[vi] = A[vi]
for i in range(9):
    with T.block("s"):
        vi = T.axis.spatial(9, i)
        T.reads(B[vi], B[vi + 1])
        T.writes(B[vi + 1])
        B[vi + 1] = B[vi + 1] + B[vi]
""",
    ),
    "symmm": (
        "a: T.handle, b: T.handle, c: T.handle",
        """
n, m, k = T.int64(), T.int64(), T.int64()
A = T.match_buffer(a, (n, k), "float32")
B = T.match_buffer(b, (k, m), "float32")
D = T.match_buffer(c, (n, m), "float32")
C = T.alloc_buffer((n, m), "float32")
for i, j, r in T.grid(n, m, k):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, r])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
for i, j in T.grid(n, m):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] + A[vi, 0]
""",
    ),
    "symsoft": (
        "a: T.handle, b: T.handle",
        """
n = T.int64()
A = T.match_buffer(a, (n, 6), "float32")
B = T.match_buffer(b, (n, 6), "float32")
M = T.alloc_buffer((n,), "float32")
S = T.alloc_buffer((n,), "float32")
for i, j in T.grid(n, 6):
    with T.block("M"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            M[vi] = T.float32(-1000)
        M[vi] = T.max(M[vi], A[vi, vj])
for i, j in T.grid(n, 6):
    with T.block("S"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + (A[vi, vj] - M[vi])
for i, j in T.grid(n, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] - M[vi] + S[vi]
""",
    ),
    "pad": (
        'A: T.Buffer((5, 6), "float32"), W: T.Buffer((3, 3), "float32"), B: T.Buffer((5, 6), "float32")',
        """
Q = T.alloc_buffer((7, 8), "float32")
for i, j in T.grid(7, 8):
    with T.block("Q"):
        vi, vj = T.axis.remap("SS", [i, j])
        Q[vi, vj] = T.if_then_else(1 <= vi and vi < 6 and 1 <= vj and vj < 7, A[vi - 1, vj - 1], T.float32(0))
for i, j, r, s in T.grid(5, 6, 3, 3):
    with T.block("B"):
        vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
        with T.init():
            B[vi, vj] = T.float32(0)
        B[vi, vj] = B[vi, vj] + Q[vi + vr, vj + vs] * W[vr, vs]
""",
    ),
    "f16": (
        'A: T.Buffer((4, 6), "float16"), B: T.Buffer((6, 5), "float16"), C: T.Buffer((4, 5), "float32")',
        """
for i, j, k in T.grid(4, 5, 6):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")
""",
    ),
    "bmm": (
        'A: T.Buffer((2, 4, 6), "int32"), B: T.Buffer((2, 5, 6), "int32"), D: T.Buffer((2, 4, 5), "int32")',
        """
C = T.alloc_buffer((2, 4, 5), "int32")
for b, i, j, k in T.grid(2, 4, 5, 6):
    with T.block("C"):
        vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
        with T.init():
            C[vb, vi, vj] = 0
        C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vb, vj, vk]
for b, i, j in T.grid(2, 4, 5):
    with T.block("D"):
        vb, vi, vj = T.axis.remap("SSS", [b, i, j])
        D[vb, vi, vj] = C[vb, vi, vj] * 2 + 1
""",
    ),
    "twoout": (
        'A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((8,), "float32")',
        """
M = T.alloc_buffer((8, 6), "float32")
N = T.alloc_buffer((8, 6), "float32")
for i, j in T.grid(8, 6):
    with T.block("MN"):
        vi, vj = T.axis.remap("SS", [i, j])
        M[vi, vj] = A[vi, vj] + T.float32(1)
        N[vi, vj] = A[vi, vj] * T.float32(3)
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = M[vi, vj] - N[vi, vj]
for i, j in T.grid(8, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            C[vi] = T.float32(0)
        C[vi] = C[vi] + M[vi, vj]
""",
    ),
    "concat": (
        'A: T.Buffer((5, 4), "float32"), B: T.Buffer((7, 4), "float32"), D: T.Buffer((12, 4), "float32")',
        """
C = T.alloc_buffer((12, 4), "float32")
for i, j in T.grid(5, 4):
    with T.block("C1"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(7, 4):
    with T.block("C2"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi + 5, vj] = B[vi, vj]
for i, j in T.grid(12, 4):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[11 - vi, vj]
""",
    ),
    "strided": (
        'A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32"), D: T.Buffer((6,), "float32")',
        """
C = T.alloc_buffer((12,), "float32")
for i in range(12):
    with T.block("C"):
        vi = T.axis.spatial(12, i)
        C[vi] = A[vi] * T.float32(2)
for i in range(6):
    with T.block("D"):
        vi = T.axis.spatial(6, i)
        D[vi] = C[vi * 2] + C[vi * 2 + 1]
for i in range(12):
    with T.block("B"):
        vi = T.axis.spatial(12, i)
        B[vi] = C[vi // 3] + C[vi % 3] + D[vi // 2]
""",
    ),
    "stencil": (
        'A: T.Buffer((14, 5), "float32"), D: T.Buffer((10, 5), "float32")',
        """
B = T.alloc_buffer((12, 5), "float32")
for i, j in T.grid(12, 5):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + A[vi + 1, vj] + A[vi + 2, vj]
for i, j in T.grid(10, 5):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = B[vi, vj] + B[vi + 1, vj] - B[vi + 2, 4 - vj]
""",
    ),
    "reducers": (
        'A: T.Buffer((6, 8), "int32"), S: T.Buffer((6,), "int32"), X: T.Buffer((1,), "int32"), E: T.Buffer((6,), "bool")',
        """
Q = T.alloc_buffer((6,), "int32")
for i, k in T.grid(6, 8):
    with T.block("Q"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            Q[vi] = 100
        Q[vi] = T.min(A[vi, vk], Q[vi])
for i, k in T.grid(6, 8):
    with T.block("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = 1
        S[vi] = S[vi] * (A[vi, vk] + Q[vi])
for i, k in T.grid(6, 8):
    with T.block("E"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            E[vi] = T.bool(True)
        E[vi] = E[vi] and A[vi, vk] > 1
for u, i in T.grid(1, 6):
    with T.block("X"):
        vu, vi = T.axis.remap("SR", [u, i])
        with T.init():
            X[0] = 3
        X[0] = X[0] + S[vi]
""",
    ),
    "scatter": (
        'A: T.Buffer((6,), "float32"), X: T.Buffer((6,), "int32"), B: T.Buffer((8,), "float32")',
        """
Z = T.alloc_buffer((6,), "int32")
for i in range(8):
    with T.block("B0"):
        vi = T.axis.spatial(8, i)
        B[vi] = T.float32(0)
for i in range(6):
    with T.block("Z"):
        vi = T.axis.spatial(6, i)
        Z[vi] = X[vi] % 8
for i in range(6):
    with T.block("B1"):
        vi = T.axis.spatial(6, i)
        B[Z[vi]] = A[vi]
""",
    ),
    "cond": (
        'A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")',
        """
C = T.alloc_buffer((8, 6), "float32")
for i, j in T.grid(8, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.float32(1)
        if A[vi, vj] > T.float32(0):
            C[vi, vj] = A[vi, vj]
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        if vi < 4:
            B[vi, vj] = C[vi, vj]
        else:
            B[vi, vj] = C[vi - 4, vj]
""",
    ),
    "datapred": (
        'A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")',
        """
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.where(A[i] > 2)
        B[vi] = A[vi] * 2
for i in range(8):
    with T.block("S"):
        vi = T.axis.reduce(8, i)
        T.where(i > 2)
        S[0] = S[0] + B[vi]
""",
    ),
    "noinit": (
        'A: T.Buffer((6, 8), "float32"), C: T.Buffer((6,), "float32"), D: T.Buffer((6,), "float32")',
        """
for i in range(6):
    with T.block("init"):
        vi = T.axis.spatial(6, i)
        C[vi] = T.float32(3)
for i, k in T.grid(6, 8):
    with T.block("upd"):
        vi, vk = T.axis.remap("SR", [i, k])
        C[vi] = C[vi] + A[vi, vk]
for i in range(6):
    with T.block("D"):
        vi = T.axis.spatial(6, i)
        D[vi] = C[vi]
""",
    ),
    "nonzero": (
        'A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")',
        """
for i in range(2, 14):
    with T.block("B"):
        vi = T.axis.spatial((2, 14), i)
        B[vi] = A[vi] + T.float32(1)
for i in range(12):
    with T.block("C"):
        vi = T.axis.spatial((2, 14), i + 2)
        C[vi] = B[vi] + B[15 - vi]
""",
    ),
    "zerodim": (
        "a: T.handle, b: T.handle",
        """
n = T.int64()
A = T.match_buffer(a, (n, 4), "float32")
D = T.match_buffer(b, (4,), "float32")
C = T.alloc_buffer((4,), "float32")
for j, i in T.grid(4, n):
    with T.block("C"):
        vj, vi = T.axis.remap("SR", [j, i])
        with T.init():
            C[vj] = T.float32(5)
        C[vj] = C[vj] + A[vi, vj]
for j in range(4):
    with T.block("D"):
        vj = T.axis.spatial(4, j)
        D[vj] = C[vj] * T.float32(2)
""",
    ),
    "nested2": (
        'A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")',
        """
C = T.alloc_buffer((8, 8), "float32")
for i, j, k in T.grid(2, 2, 2):
    with T.block("Co"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        T.reads(A[vi * 4:vi * 4 + 4, vk * 4:vk * 4 + 4], B[vk * 4:vk * 4 + 4, vj * 4:vj * 4 + 4])
        T.writes(C[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
        with T.init():
            for x, y in T.grid(4, 4):
                with T.block("Ci0"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    C[vi * 4 + vx, vj * 4 + vy] = T.float32(0)
        for x, y, z in T.grid(4, 4, 4):
            with T.block("Ci"):
                vx, vy, vz = T.axis.remap("SSR", [x, y, z])
                C[vi * 4 + vx, vj * 4 + vy] = C[vi * 4 + vx, vj * 4 + vy] + A[vi * 4 + vx, vk * 4 + vz] * B[vk * 4 + vz, vj * 4 + vy]
for i, j in T.grid(8, 8):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] + T.float32(1)
""",
    ),
    "chain": (
        'A: T.Buffer((6, 8), "float32"), D: T.Buffer((8, 6), "float32"), E: T.Buffer((6, 8), "float32")',
        """
B = T.alloc_buffer((6, 8), "float32")
C = T.alloc_buffer((48,), "float32")
for i, j in T.grid(6, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i in range(48):
    with T.block("C"):
        vi = T.axis.spatial(48, i)
        C[vi] = B[vi // 8, vi % 8] * T.float32(2)
for i, j in T.grid(8, 6):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vj * 8 + vi]
for i, j in T.grid(6, 8):
    with T.block("E"):
        vi, vj = T.axis.remap("SS", [i, j])
        E[vi, vj] = C[vi * 8 + vj] + B[vi, vj]
""",
    ),
    "dw": (
        'X: T.Buffer((1, 3, 6, 6), "float32"), W: T.Buffer((3, 2, 2), "float32"), Y: T.Buffer((1, 3, 3, 3), "float32")',
        """
for n, c, y, x, r, s in T.grid(1, 3, 3, 3, 2, 2):
    with T.block("Y"):
        vn, vc, vy, vx, vr, vs = T.axis.remap("SSSSRR", [n, c, y, x, r, s])
        with T.init():
            Y[vn, vc, vy, vx] = T.float32(0)
        Y[vn, vc, vy, vx] = Y[vn, vc, vy, vx] + X[vn, vc, vy * 2 + vr, vx * 2 + vs] * W[vc, vr, vs]
""",
    ),
    "war": (
        'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
        """
T1 = T.alloc_buffer((8,), "float32")
for i in range(8):
    with T.block("T1"):
        vi = T.axis.spatial(8, i)
        T1[vi] = A[vi] + T.float32(1)
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = T1[vi] * T.float32(2)
for i in range(8):
    with T.block("T2"):
        vi = T.axis.spatial(8, i)
        T1[vi] = B[7 - vi] + T.float32(3)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = T1[vi] + A[vi]
""",
    ),
    "sympred": (
        "a: T.handle, b: T.handle",
        """
n = T.int64()
A = T.match_buffer(a, (n,), "float32")
B = T.match_buffer(b, (n,), "float32")
C = T.alloc_buffer((n,), "float32")
for io, ii in T.grid((n + 3) // 4, 4):
    with T.block("C"):
        v = T.axis.spatial(n, io * 4 + ii)
        T.where(io * 4 + ii < n)
        C[v] = A[v] + T.float32(1)
for i in range(n):
    with T.block("B"):
        v = T.axis.spatial(n, i)
        B[v] = C[n - 1 - v]
""",
    ),
    "inputwrite": (
        'A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32")',
        """
C = T.alloc_buffer((6, 4), "float32")
for i, j in T.grid(6, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj]
for i, j in T.grid(6, 4):
    with T.block("A"):
        vi, vj = T.axis.remap("SS", [i, j])
        A[vi, vj] = C[vi, 3 - vj] + T.float32(1)
for i, j in T.grid(6, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + C[vi, vj]
""",
    ),
    "predread": (
        'A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")',
        """
B = T.alloc_buffer((8,), "int32")
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] * 2
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        T.where(B[7 - i] > 5)
        C[vi] = A[vi] + 1
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = C[vi] + B[vi]
""",
    ),
    "bindread": (
        'A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")',
        """
B = T.alloc_buffer((8,), "int32")
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = X[vi] % 8
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, B[i])
        C[vi] = A[vi] + 1
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = C[vi] + B[vi]
""",
    ),
    "ifaround": (
        'A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32"), D: T.Buffer((8, 4), "int32")',
        """
B = T.alloc_buffer((8, 4), "int32")
for i, j in T.grid(8, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * 2
for i in range(8):
    if i < 5:
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1
for i, j in T.grid(8, 4):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] + B[7 - vi, vj]
""",
    ),
    "ifdata": (
        'A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32"), D: T.Buffer((8, 4), "int32")',
        """
B = T.alloc_buffer((8, 4), "int32")
for i, j in T.grid(8, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * 2
for i in range(8):
    if B[i, 0] < 5:
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + 1
    else:
        for j in range(4):
            with T.block("C2"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + 7
for i, j in T.grid(8, 4):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] + 1
""",
    ),
    "looplen": (
        'A: T.Buffer((8, 4), "int32"), X: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")',
        """
B = T.alloc_buffer((8,), "int32")
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = X[vi] % 4
for i in range(8):
    for j in range(B[i]):
        with T.block("D"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                D[vi] = 0
            D[vi] = D[vi] + A[vi, vj]
""",
    ),
    "tri": (
        'A: T.Buffer((8, 8), "float32"), D: T.Buffer((8,), "float32")',
        """
B = T.alloc_buffer((8, 8), "float32")
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i in range(8):
    for j in range(i + 1):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.reduce(8, j)
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + B[vi, vj]
""",
    ),
    "letbind": (
        'A: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")',
        """
B = T.alloc_buffer((8,), "int32")
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] * 2
for i in range(8):
    x = B[i] + 1
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = x + A[vi]
""",
    ),
    "opaque": (
        'A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")',
        """
B = T.alloc_buffer((8,), "float32")
for i in range(8):
    with T.block("B"):
        vi = T.axis.opaque(8, i)
        B[vi] = A[vi] * T.float32(2)
for i in T.serial(8):
    with T.block("D"):
        vi = T.axis.scan(8, i)
        D[vi] = T.if_then_else(vi > 0, D[vi - 1], T.float32(0)) + B[vi]
""",
    ),
    "matchbuf": (
        'A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")',
        """
B = T.alloc_buffer((8, 8), "float32")
for i, j in T.grid(2, 2):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
        T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
        S = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32", strides=["s0", "s1"], offset_factor=1)
        U = T.match_buffer(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32", strides=["t0", "t1"], offset_factor=1)
        for x, y in T.grid(4, 4):
            U[x, y] = S[x, y] + T.float32(1)
for i, j in T.grid(8, 8):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = B[vi, 7 - vj]
""",
    ),
    "wholebuf": (
        'A: T.Buffer((4, 6), "float32"), D: T.Buffer((4, 6), "float32"), E: T.Buffer((4,), "float32")',
        """
B = T.alloc_buffer((4, 6), "float32")
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        for j in range(6):
            B[vi, j] = A[vi, j] * T.float32(2)
for i in range(4):
    with T.block("E"):
        vi = T.axis.spatial(4, i)
        E[vi] = T.float32(0)
        for j in range(6):
            E[vi] = E[vi] + B[vi, j]
for i in range(4):
    with T.block("D"):
        vi = T.axis.spatial(4, i)
        for j in range(6):
            D[vi, j] = B[vi, j] - E[3 - vi]
""",
    ),
    "overlap": (
        'A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")',
        """
B = T.alloc_buffer((16,), "float32")
for i in range(16):
    with T.block("B0"):
        vi = T.axis.spatial(16, i)
        B[vi] = T.float32(0)
for i in range(7):
    with T.block("B"):
        vi = T.axis.spatial(7, i)
        for j in range(4):
            B[vi * 2 + j] = A[vi * 2 + j] + T.cast(vi, "float32")
for i in range(16):
    with T.block("D"):
        vi = T.axis.spatial(16, i)
        D[vi] = B[vi]
""",
    ),
    "shift": (
        'A: T.Buffer((10, 3), "float32"), D: T.Buffer((8, 3), "float32")',
        """
B = T.alloc_buffer((10, 3), "float32")
C = T.alloc_buffer((9, 3), "float32")
for i, j in T.grid(10, 3):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(2)
for i, j in T.grid(9, 3):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] - B[vi + 1, vj]
for i, j in T.grid(8, 3):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] - C[vi + 1, vj] + B[vi, 2 - vj]
""",
    ),
    "f16red": (
        'A: T.Buffer((4, 6), "bfloat16"), D: T.Buffer((4,), "float16"), E: T.Buffer((4,), "float16")',
        """
B = T.alloc_buffer((4,), "float16")
for i, k in T.grid(4, 6):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float16(0)
        B[vi] = B[vi] + T.cast(A[vi, vk], "float16")
for i, k in T.grid(4, 6):
    with T.block("E"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            E[vi] = T.float16(-100)
        E[vi] = T.max(E[vi], T.cast(A[vi, 5 - vk], "float16"))
for i in range(4):
    with T.block("D"):
        vi = T.axis.spatial(4, i)
        D[vi] = B[vi] + E[vi] + T.float16(1)
""",
    ),
}


def text(name: str) -> str:
    """Script of a program."""
    signature, body = _PROGRAMS[name]
    inner = textwrap.indent('T.func_attr({"global_symbol": "main"})' + body.rstrip(), " " * 8)
    return f"@I.ir_module\nclass M:\n    @T.prim_func\n    def main({signature}):\n{inner}\n"


HOSTILE = {name: text(name) for name in _PROGRAMS}
"""Script by name."""
