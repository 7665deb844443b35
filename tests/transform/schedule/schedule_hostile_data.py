"""Programs that run as data says: gathers, scattered stores, conditions and bounds that read buffers, loops with a state, updates in
place, tuples that are reduced together. Script by name."""

from __future__ import annotations

from schedule_text import alloc, buffers, nest, program

# fmt: off
HOSTILE_DATA = {
    "argmax": program(
        'I0: T.Buffer((5, 8), "int32"), V: T.Buffer((5, 8), "float32"), O0: T.Buffer((5,), "int32"), O1: T.Buffer((5,), "float32")',
        nest("argmax", "i k", "5, 8", "SR", "T.reads(I0[vi, vk], V[vi, vk])", "T.writes(O0[vi], O1[vi])",
            "a = T.Select(O1[vi] >= V[vi, vk], O0[vi], I0[vi, vk])", "b = T.Select(O1[vi] >= V[vi, vk], O1[vi], V[vi, vk])",
            "O0[vi] = a", "O1[vi] = b", init=("O0[vi] = -1", "O1[vi] = T.float32(-1000)")),
    ),
    "gather": program(
        'A: T.Buffer((9, 4), "float32"), X: T.Buffer((6,), "int32"), B: T.Buffer((6, 4), "float32")',
        alloc("C", "9, 4"),
        alloc("G", "6, 4"),
        nest("C", "i j", "9, 4", "SS", "C[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest("G", "i j", "6, 4", "SS", "G[vi, vj] = C[X[vi], vj] * T.float32(2)"),
        nest("B", "i j", "6, 4", "SS", "B[vi, vj] = G[vi, 3 - vj] + C[X[vi], 0]"),
    ),
    "inplace": program(
        buffers(A="8, 6", B="8, 6"),
        nest("A1", "i j", "8, 6", "SS", "A[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest("B", "i j", "8, 6", "SS", "B[vi, vj] = A[vi, vj] * T.float32(2)"),
        nest("A2", "i j", "8, 6", "SS", "A[vi, vj] = A[vi, vj] * B[7 - vi, vj]"),
    ),
    "scan": program(
        buffers(A="10", B="10"),
        nest("z", "i", "10", "S", "B[vi] = A[vi]"),
        nest("s", "i", "9", "S", "T.reads(B[vi], B[vi + 1])", "T.writes(B[vi + 1])", "B[vi + 1] = B[vi + 1] + B[vi]"),
    ),
    "scatter": program(
        'A: T.Buffer((6,), "float32"), X: T.Buffer((6,), "int32"), B: T.Buffer((8,), "float32")',
        alloc("Z", "6", "int32"),
        nest("B0", "i", "8", "S", "B[vi] = T.float32(0)"),
        nest("Z", "i", "6", "S", "Z[vi] = X[vi] % 8"),
        nest("B1", "i", "6", "S", "B[Z[vi]] = A[vi]"),
    ),
    "cond": program(
        buffers(A="8, 6", B="8, 6"),
        alloc("C", "8, 6"),
        nest("C", "i j", "8, 6", "SS", "C[vi, vj] = T.float32(1)", "if A[vi, vj] > T.float32(0):", "    C[vi, vj] = A[vi, vj]"),
        nest("B", "i j", "8, 6", "SS", "if vi < 4:", "    B[vi, vj] = C[vi, vj]", "else:", "    B[vi, vj] = C[vi - 4, vj]"),
    ),
    "datapred": program(
        buffers("int32", A="8", B="8", S="1"),
        nest("B", "i", "8", "S", "T.where(A[i] > 2)", "B[vi] = A[vi] * 2"),
        nest("S", "i", "8", "R", "T.where(i > 2)", "S[0] = S[0] + B[vi]"),
    ),
    "war": program(
        buffers(A="8", B="8", C="8"),
        alloc("T1", "8"),
        nest("T1", "i", "8", "S", "T1[vi] = A[vi] + T.float32(1)"),
        nest("B", "i", "8", "S", "B[vi] = T1[vi] * T.float32(2)"),
        nest("T2", "i", "8", "S", "T1[vi] = B[7 - vi] + T.float32(3)"),
        nest("C", "i", "8", "S", "C[vi] = T1[vi] + A[vi]"),
    ),
    "inputwrite": program(
        buffers(A="6, 4", B="6, 4"),
        alloc("C", "6, 4"),
        nest("C", "i j", "6, 4", "SS", "C[vi, vj] = A[vi, vj]"),
        nest("A", "i j", "6, 4", "SS", "A[vi, vj] = C[vi, 3 - vj] + T.float32(1)"),
        nest("B", "i j", "6, 4", "SS", "B[vi, vj] = A[vi, vj] + C[vi, vj]"),
    ),
    "predread": program(
        buffers("int32", A="8", C="8", D="8"),
        alloc("B", "8", "int32"),
        nest("B", "i", "8", "S", "B[vi] = A[vi] * 2"),
        nest("C", "i", "8", "S", "T.where(B[7 - i] > 5)", "C[vi] = A[vi] + 1"),
        nest("D", "i", "8", "S", "D[vi] = C[vi] + B[vi]"),
    ),
    "bindread": program(
        buffers("int32", A="8", X="8", C="8", D="8"),
        alloc("B", "8", "int32"),
        nest("B", "i", "8", "S", "B[vi] = X[vi] % 8"),
        """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, B[i])
        C[vi] = A[vi] + 1
""",
        nest("D", "i", "8", "S", "D[vi] = C[vi] + B[vi]"),
    ),
    "ifaround": program(
        buffers("int32", A="8, 4", C="8, 4", D="8, 4"),
        alloc("B", "8, 4", "int32"),
        nest("B", "i j", "8, 4", "SS", "B[vi, vj] = A[vi, vj] * 2"),
        """
for i in range(8):
    if i < 5:
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1
""",
        nest("D", "i j", "8, 4", "SS", "D[vi, vj] = C[vi, vj] + B[7 - vi, vj]"),
    ),
    "ifdata": program(
        buffers("int32", A="8, 4", C="8, 4", D="8, 4"),
        alloc("B", "8, 4", "int32"),
        nest("B", "i j", "8, 4", "SS", "B[vi, vj] = A[vi, vj] * 2"),
        """
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
""",
        nest("D", "i j", "8, 4", "SS", "D[vi, vj] = C[vi, vj] + 1"),
    ),
    "looplen": program(
        buffers("int32", A="8, 4", X="8", D="8"),
        alloc("B", "8", "int32"),
        nest("B", "i", "8", "S", "B[vi] = X[vi] % 4"),
        """
for i in range(8):
    for j in range(B[i]):
        with T.block("D"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                D[vi] = 0
            D[vi] = D[vi] + A[vi, vj]
""",
    ),
    "tri": program(
        buffers(A="8, 8", D="8"),
        alloc("B", "8, 8"),
        nest("B", "i j", "8, 8", "SS", "B[vi, vj] = A[vi, vj] + T.float32(1)"),
        """
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
    "letbind": program(
        buffers("int32", A="8", D="8"),
        alloc("B", "8", "int32"),
        nest("B", "i", "8", "S", "B[vi] = A[vi] * 2"),
        """
for i in range(8):
    x = B[i] + 1
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = x + A[vi]
""",
    ),
    "opaque": program(
        buffers(A="8", D="8"),
        alloc("B", "8"),
        """
for i in range(8):
    with T.block("B"):
        vi = T.axis.opaque(8, i)
        B[vi] = A[vi] * T.float32(2)
""",
        """
for i in T.serial(8):
    with T.block("D"):
        vi = T.axis.scan(8, i)
        D[vi] = T.if_then_else(vi > 0, D[vi - 1], T.float32(0)) + B[vi]
""",
    ),
    "countdown": program(
        buffers("int32", A="6", B="6", C="6"),
        nest("B", "i", "6", "S", 'n = T.alloc_buffer((1,), "int32")', "n[0] = A[vi]", "B[vi] = 0", "while n[0] > 0:",
            "    n[0] = n[0] - 2", "    B[vi] = B[vi] + n[0]"),
        nest("C", "i", "6", "S", "C[vi] = B[vi] + B[5 - vi]"),
    ),
    "lets": program(
        buffers(A="6, 4", B="6, 4", C="6"),
        alloc("D", "6, 4"),
        nest("D", "i j", "6, 4", "SS", "x = A[vi, vj] * T.float32(2)", "y = x + A[vi, 3 - vj]", "D[vi, vj] = T.max(x, y)"),
        nest("B", "i j", "6, 4", "SS", "t = D[vi, vj]", "if t > T.float32(0):", "    B[vi, vj] = t", "else:",
            "    B[vi, vj] = t * A[vi, vj]"),
        nest("C", "i j", "6, 4", "SR", "C[vi] = C[vi] + B[vi, vj] * D[5 - vi, vj]", init="C[vi] = T.float32(0)"),
    ),
    "nearest": program(
        buffers(A="5, 8") + ", " + buffers("int32", I="5") + ", " + buffers(V="5"),
        nest("near", "i r s", "5, 4, 2", "SRR", "T.reads(A[vi, vr * 2 + vs])", "T.writes(I[vi], V[vi])",
            'x = T.Select(A[vi, vr * 2 + vs] < V[vi], T.cast(vr * 2 + vs, "int32"), I[vi])',
            "y = T.Select(A[vi, vr * 2 + vs] < V[vi], A[vi, vr * 2 + vs], V[vi])", "I[vi] = x", "V[vi] = y",
            init=("I[vi] = -1", "V[vi] = T.float32(1000)")),
    ),
}
