"""Tensor programs without a schedule, as operators are lowered to."""

from __future__ import annotations


def plain_matmul(m: int, n: int, k: int, transposed: bool = False) -> str:
    """Three loops; ``transposed``: the right operand is (n, k)."""
    shape, place = (f"({n}, {k})", "vj, vk") if transposed else (f"({k}, {n})", "vk, vj")
    return f"""
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer({shape}, "float32"), C: T.Buffer(({m}, {n}), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[{place}]
"""


def plain_row_sums(m: int, n: int) -> str:
    """Sums of rows."""
    return f"""
@T.prim_func
def main(A: T.Buffer(({m}, {n}), "float32"), S: T.Buffer(({m},), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i, k in T.grid({m}, {n}):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
"""


def plain_softmax(m: int, n: int) -> str:
    """Softmax of rows: greatest value, exponentials, their sum, quotients."""
    return f"""
@T.prim_func
def main(A: T.Buffer(({m}, {n}), "float32"), Y: T.Buffer(({m}, {n}), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    M = T.alloc_buffer(({m},), "float32")
    E = T.alloc_buffer(({m}, {n}), "float32")
    S = T.alloc_buffer(({m},), "float32")
    for i, k in T.grid({m}, {n}):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32("-inf")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid({m}, {n}):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.exp(A[vi, vj] - M[vi])
    for i, k in T.grid({m}, {n}):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + E[vi, vk]
    for i, j in T.grid({m}, {n}):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = E[vi, vj] / S[vi]
"""
