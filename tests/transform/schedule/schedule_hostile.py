"""Programs with what schedules trip over: sizes that may be zero, stencils, layouts with holes, nested blocks, narrow numbers,
strides, predicates. Script by name; those that run as data says stand in ``schedule_hostile_data.py``."""

from __future__ import annotations

from schedule_hostile_data import HOSTILE_DATA
from schedule_text import alloc, buffers, match, nest, program

# fmt: off
HOSTILE = {
    "symmm": program(
        "a: T.handle, b: T.handle, c: T.handle",
        "n, m, k = T.int64(), T.int64(), T.int64()",
        match("A", "a", "n, k"),
        match("B", "b", "k, m"),
        match("D", "c", "n, m"),
        alloc("C", "n, m"),
        """
for i, j, r in T.grid(n, m, k):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, r])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
        nest("D", "i j", "n, m", "SS", "D[vi, vj] = C[vi, vj] + A[vi, 0]"),
    ),
    "symsoft": program(
        "a: T.handle, b: T.handle",
        "n = T.int64()",
        match("A", "a", "n, 6"),
        match("B", "b", "n, 6"),
        alloc("M", "n"),
        alloc("S", "n"),
        nest("M", "i j", "n, 6", "SR", "M[vi] = T.max(M[vi], A[vi, vj])", init="M[vi] = T.float32(-1000)"),
        nest("S", "i j", "n, 6", "SR", "S[vi] = S[vi] + (A[vi, vj] - M[vi])", init="S[vi] = T.float32(0)"),
        nest("B", "i j", "n, 6", "SS", "B[vi, vj] = A[vi, vj] - M[vi] + S[vi]"),
    ),
    "pad": program(
        buffers(A="5, 6", W="3, 3", B="5, 6"),
        alloc("Q", "7, 8"),
        nest("Q", "i j", "7, 8", "SS",
            "Q[vi, vj] = T.if_then_else(1 <= vi and vi < 6 and 1 <= vj and vj < 7, A[vi - 1, vj - 1], T.float32(0))"),
        nest("B", "i j r s", "5, 6, 3, 3", "SSRR", "B[vi, vj] = B[vi, vj] + Q[vi + vr, vj + vs] * W[vr, vs]",
            init="B[vi, vj] = T.float32(0)"),
    ),
    "f16": program(
        'A: T.Buffer((4, 6), "float16"), B: T.Buffer((6, 5), "float16"), C: T.Buffer((4, 5), "float32")',
        nest("C", "i j k", "4, 5, 6", "SSR",
            'C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")',
            init="C[vi, vj] = T.float32(0)"),
    ),
    "bmm": program(
        buffers("int32", A="2, 4, 6", B="2, 5, 6", D="2, 4, 5"),
        alloc("C", "2, 4, 5", "int32"),
        nest("C", "b i j k", "2, 4, 5, 6", "SSSR", "C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vb, vj, vk]",
            init="C[vb, vi, vj] = 0"),
        nest("D", "b i j", "2, 4, 5", "SSS", "D[vb, vi, vj] = C[vb, vi, vj] * 2 + 1"),
    ),
    "twoout": program(
        buffers(A="8, 6", B="8, 6", C="8"),
        alloc("M", "8, 6"),
        alloc("N", "8, 6"),
        nest("MN", "i j", "8, 6", "SS", "M[vi, vj] = A[vi, vj] + T.float32(1)", "N[vi, vj] = A[vi, vj] * T.float32(3)"),
        nest("B", "i j", "8, 6", "SS", "B[vi, vj] = M[vi, vj] - N[vi, vj]"),
        nest("C", "i j", "8, 6", "SR", "C[vi] = C[vi] + M[vi, vj]", init="C[vi] = T.float32(0)"),
    ),
    "concat": program(
        buffers(A="5, 4", B="7, 4", D="12, 4"),
        alloc("C", "12, 4"),
        nest("C1", "i j", "5, 4", "SS", "C[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest("C2", "i j", "7, 4", "SS", "C[vi + 5, vj] = B[vi, vj]"),
        nest("D", "i j", "12, 4", "SS", "D[vi, vj] = C[11 - vi, vj]"),
    ),
    "strided": program(
        buffers(A="12", B="12", D="6"),
        alloc("C", "12"),
        nest("C", "i", "12", "S", "C[vi] = A[vi] * T.float32(2)"),
        nest("D", "i", "6", "S", "D[vi] = C[vi * 2] + C[vi * 2 + 1]"),
        nest("B", "i", "12", "S", "B[vi] = C[vi // 3] + C[vi % 3] + D[vi // 2]"),
    ),
    "stencil": program(
        buffers(A="14, 5", D="10, 5"),
        alloc("B", "12, 5"),
        nest("B", "i j", "12, 5", "SS", "B[vi, vj] = A[vi, vj] + A[vi + 1, vj] + A[vi + 2, vj]"),
        nest("D", "i j", "10, 5", "SS", "D[vi, vj] = B[vi, vj] + B[vi + 1, vj] - B[vi + 2, 4 - vj]"),
    ),
    "reducers": program(
        'A: T.Buffer((6, 8), "int32"), S: T.Buffer((6,), "int32"), X: T.Buffer((1,), "int32"), E: T.Buffer((6,), "bool")',
        alloc("Q", "6", "int32"),
        nest("Q", "i k", "6, 8", "SR", "Q[vi] = T.min(A[vi, vk], Q[vi])", init="Q[vi] = 100"),
        nest("S", "i k", "6, 8", "SR", "S[vi] = S[vi] * (A[vi, vk] + Q[vi])", init="S[vi] = 1"),
        nest("E", "i k", "6, 8", "SR", "E[vi] = E[vi] and A[vi, vk] > 1", init="E[vi] = T.bool(True)"),
        nest("X", "u i", "1, 6", "SR", "X[0] = X[0] + S[vi]", init="X[0] = 3"),
    ),
    "noinit": program(
        buffers(A="6, 8", C="6", D="6"),
        nest("init", "i", "6", "S", "C[vi] = T.float32(3)"),
        nest("upd", "i k", "6, 8", "SR", "C[vi] = C[vi] + A[vi, vk]"),
        nest("D", "i", "6", "S", "D[vi] = C[vi]"),
    ),
    "nonzero": program(
        buffers(A="16", B="16", C="16"),
        """
for i in range(2, 14):
    with T.block("B"):
        vi = T.axis.spatial((2, 14), i)
        B[vi] = A[vi] + T.float32(1)
""",
        """
for i in range(12):
    with T.block("C"):
        vi = T.axis.spatial((2, 14), i + 2)
        C[vi] = B[vi] + B[15 - vi]
""",
    ),
    "zerodim": program(
        "a: T.handle, b: T.handle",
        "n = T.int64()",
        match("A", "a", "n, 4"),
        match("D", "b", "4"),
        alloc("C", "4"),
        nest("C", "j i", "4, n", "SR", "C[vj] = C[vj] + A[vi, vj]", init="C[vj] = T.float32(5)"),
        nest("D", "j", "4", "S", "D[vj] = C[vj] * T.float32(2)"),
    ),
    "nested2": program(
        buffers(A="8, 8", B="8, 8", D="8, 8"),
        alloc("C", "8, 8"),
        nest("Co", "i j k", "2, 2, 2", "SSR",
            "T.reads(A[vi * 4:vi * 4 + 4, vk * 4:vk * 4 + 4], B[vk * 4:vk * 4 + 4, vj * 4:vj * 4 + 4])",
            "T.writes(C[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])", "for x, y, z in T.grid(4, 4, 4):", '    with T.block("Ci"):',
            '        vx, vy, vz = T.axis.remap("SSR", [x, y, z])',
            "        C[vi * 4 + vx, vj * 4 + vy] = C[vi * 4 + vx, vj * 4 + vy] + A[vi * 4 + vx, vk * 4 + vz] * B[vk * 4 + vz, vj * 4 + vy]",
            init=("for x, y in T.grid(4, 4):", '    with T.block("Ci0"):', '        vx, vy = T.axis.remap("SS", [x, y])', "        C[vi * 4 + vx, vj * 4 + vy] = T.float32(0)")),
        nest("D", "i j", "8, 8", "SS", "D[vi, vj] = C[vi, vj] + T.float32(1)"),
    ),
    "chain": program(
        buffers(A="6, 8", D="8, 6", E="6, 8"),
        alloc("B", "6, 8"),
        alloc("C", "48"),
        nest("B", "i j", "6, 8", "SS", "B[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest("C", "i", "48", "S", "C[vi] = B[vi // 8, vi % 8] * T.float32(2)"),
        nest("D", "i j", "8, 6", "SS", "D[vi, vj] = C[vj * 8 + vi]"),
        nest("E", "i j", "6, 8", "SS", "E[vi, vj] = C[vi * 8 + vj] + B[vi, vj]"),
    ),
    "dw": program(
        buffers(X="1, 3, 6, 6", W="3, 2, 2", Y="1, 3, 3, 3"),
        nest("Y", "n c y x r s", "1, 3, 3, 3, 2, 2", "SSSSRR",
            "Y[vn, vc, vy, vx] = Y[vn, vc, vy, vx] + X[vn, vc, vy * 2 + vr, vx * 2 + vs] * W[vc, vr, vs]",
            init="Y[vn, vc, vy, vx] = T.float32(0)"),
    ),
    "sympred": program(
        "a: T.handle, b: T.handle",
        "n = T.int64()",
        match("A", "a", "n"),
        match("B", "b", "n"),
        alloc("C", "n"),
        """
for io, ii in T.grid((n + 3) // 4, 4):
    with T.block("C"):
        v = T.axis.spatial(n, io * 4 + ii)
        T.where(io * 4 + ii < n)
        C[v] = A[v] + T.float32(1)
""",
        """
for i in range(n):
    with T.block("B"):
        v = T.axis.spatial(n, i)
        B[v] = C[n - 1 - v]
""",
    ),
    "matchbuf": program(
        buffers(A="8, 8", D="8, 8"),
        alloc("B", "8, 8"),
        nest("B", "i j", "2, 2", "SS", "T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])",
            "T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])",
            'S = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32", strides=["s0", "s1"], offset_factor=1)',
            'U = T.match_buffer(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32", strides=["t0", "t1"], offset_factor=1)',
            "for x, y in T.grid(4, 4):", "    U[x, y] = S[x, y] + T.float32(1)"),
        nest("D", "i j", "8, 8", "SS", "D[vi, vj] = B[vi, 7 - vj]"),
    ),
    "wholebuf": program(
        buffers(A="4, 6", D="4, 6", E="4"),
        alloc("B", "4, 6"),
        nest("B", "i", "4", "S", "for j in range(6):", "    B[vi, j] = A[vi, j] * T.float32(2)"),
        nest("E", "i", "4", "S", "E[vi] = T.float32(0)", "for j in range(6):", "    E[vi] = E[vi] + B[vi, j]"),
        nest("D", "i", "4", "S", "for j in range(6):", "    D[vi, j] = B[vi, j] - E[3 - vi]"),
    ),
    "overlap": program(
        buffers(A="16", D="16"),
        alloc("B", "16"),
        nest("B0", "i", "16", "S", "B[vi] = T.float32(0)"),
        nest("B", "i", "7", "S", "for j in range(4):", '    B[vi * 2 + j] = A[vi * 2 + j] + T.cast(vi, "float32")'),
        nest("D", "i", "16", "S", "D[vi] = B[vi]"),
    ),
    "shift": program(
        buffers(A="10, 3", D="8, 3"),
        alloc("B", "10, 3"),
        alloc("C", "9, 3"),
        nest("B", "i j", "10, 3", "SS", "B[vi, vj] = A[vi, vj] * T.float32(2)"),
        nest("C", "i j", "9, 3", "SS", "C[vi, vj] = B[vi, vj] - B[vi + 1, vj]"),
        nest("D", "i j", "8, 3", "SS", "D[vi, vj] = C[vi, vj] - C[vi + 1, vj] + B[vi, 2 - vj]"),
    ),
    "f16red": program(
        'A: T.Buffer((4, 6), "bfloat16"), D: T.Buffer((4,), "float16"), E: T.Buffer((4,), "float16")',
        alloc("B", "4", "float16"),
        nest("B", "i k", "4, 6", "SR", 'B[vi] = B[vi] + T.cast(A[vi, vk], "float16")', init="B[vi] = T.float16(0)"),
        nest("E", "i k", "4, 6", "SR", 'E[vi] = T.max(E[vi], T.cast(A[vi, 5 - vk], "float16"))',
            init="E[vi] = T.float16(-100)"),
        nest("D", "i", "4", "S", "D[vi] = B[vi] + E[vi] + T.float16(1)"),
    ),
    "symouts": program(
        "a: T.handle, b: T.handle, c: T.handle, d: T.handle",
        "n, m = T.int64(), T.int64()",
        match("A", "a", "n, m"),
        match("B", "b", "n"),
        match("C", "c", "m"),
        match("D", "d", "n, m"),
        alloc("E", "n, m"),
        nest("E", "i j", "n, m", "SS", "E[vi, vj] = A[vi, vj] * T.float32(2)"),
        nest("B", "i j", "n, m", "SR", "B[vi] = B[vi] + E[vi, vj]", init="B[vi] = T.float32(0)"),
        nest("C", "j i", "m, n", "SR", "C[vj] = T.max(C[vj], E[vi, vj])", init="C[vj] = T.float32(-1000)"),
        nest("D", "i j", "n, m", "SS", "D[vi, vj] = E[vi, vj] + B[vi] - C[vj]"),
    ),
    "sympad": program(
        "a: T.handle, w: T.handle, b: T.handle",
        "n = T.int64()",
        match("A", "a", "n"),
        match("W", "w", "3"),
        match("B", "b", "n"),
        alloc("P", "n + 2"),
        nest("P", "i", "n + 2", "S", "P[vi] = T.if_then_else(1 <= vi and vi < n + 1, A[vi - 1], T.float32(0))"),
        nest("B", "i r", "n, 3", "SR", "B[vi] = B[vi] + P[vi + vr] * W[vr]", init="B[vi] = T.float32(0)"),
    ),
    "symhalves": program(
        "a: T.handle, b: T.handle",
        "n = T.int64()",
        match("A", "a", "n * 2"),
        match("B", "b", "n"),
        alloc("C", "n, 2"),
        nest("C", "i j", "n, 2", "SS", "C[vi, vj] = A[vj * n + vi]"),
        nest("B", "i j", "n, 2", "SR", "B[vi] = B[vi] + C[vi, vj]", init="B[vi] = T.float32(0)"),
    ),
    "tworeductions": program(
        buffers("int32", A="4, 5, 6", S="4", M="4"),
        alloc("P", "4, 5", "int32"),
        nest("S", "i r s", "4, 5, 6", "SRR", "S[vi] = S[vi] + A[vi, vr, vs]", init="S[vi] = 7"),
        nest("P", "i r s", "4, 5, 6", "SSR", "P[vi, vr] = T.max(P[vi, vr], A[vi, vr, 5 - vs])", init="P[vi, vr] = -9"),
        nest("M", "i r", "4, 5", "SR", "M[vi] = T.min(M[vi], P[vi, vr] - S[vi])", init="M[vi] = 1000"),
    ),
    "pooled": program(
        buffers(X="8, 8", Y="4, 4", Z="4, 4"),
        alloc("A", "4, 4"),
        nest("A", "i j r s", "4, 4, 2, 2", "SSRR", "A[vi, vj] = A[vi, vj] + X[vi * 2 + vr, vj * 2 + vs]",
            init="A[vi, vj] = T.float32(0)"),
        nest("Y", "i j", "4, 4", "SS", "Y[vi, vj] = A[vi, vj] * T.float32(0.25)"),
        nest("Z", "i j", "4, 4", "SS", "Z[vi, vj] = Y[3 - vi, vj] - A[vi, 3 - vj]"),
    ),
    "bytes": program(
        buffers("uint8", A="4, 8") + ", " + buffers("int8", B="5, 8", Q="4, 5") + ", " + buffers("int32", C="4, 5"),
        nest("C", "i j k", "4, 5, 8", "SSR", 'C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")',
            init="C[vi, vj] = 0"),
        nest("Q", "i j", "4, 5", "SS", 'Q[vi, vj] = T.cast(T.max(T.min(C[vi, vj] // 8, 127), -128), "int8")'),
    ),
    "bf16": program(
        buffers("bfloat16", A="4, 6", B="6, 5", D="4, 5"),
        alloc("C", "4, 5"),
        nest("C", "i j k", "4, 5, 6", "SSR",
            'C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")',
            init="C[vi, vj] = T.float32(0)"),
        nest("D", "i j", "4, 5", "SS", 'D[vi, vj] = T.cast(C[vi, vj], "bfloat16")'),
    ),
    "rows": program(
        "a: T.handle, b: T.handle",
        'A = T.match_buffer(a, (6, 8), "float32", strides=[8, 1])',
        'B = T.match_buffer(b, (6, 8), "float32", elem_offset=0)',
        'C = T.alloc_buffer((6, 8), "float32", strides=[9, 1])',
        'D = T.alloc_buffer((8, 6), "float32", strides=[1, 8])',
        nest("C", "i j", "6, 8", "SS", "C[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest("D", "i j", "6, 8", "SS", "D[vj, vi] = C[vi, 7 - vj]"),
        nest("B", "i j", "6, 8", "SS", "B[vi, vj] = C[vi, vj] * D[vj, 5 - vi]"),
    ),
    "where": program(
        buffers("int32", A="10, 6", B="10", C="10"),
        nest("B", "i k", "12, 8", "SR", "B[vi] = B[vi] + A[vi, vk]", init="B[vi] = 1", where="i < 10 and k < 6"),
        nest("C", "i", "10", "S", "C[vi] = B[9 - vi] + A[vi, 5]"),
    ),
    **HOSTILE_DATA,
}
