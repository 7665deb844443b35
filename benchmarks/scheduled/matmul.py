"""The float32 matrix product as a schedule would leave it: tiles in registers, the right operand packed in panels of 64 columns.

``matmul(m, n, k)`` gives script. The accumulator is declared over the whole output and shrinks to one tile in lowering, as after
``cache_write`` and ``compute_at``; sizes that no tile divides carry predicates, as after a split that does not divide.
"""

from __future__ import annotations

ROWS, COLUMNS = 6, 64


def _where(*conditions: str) -> str:
    kept = [c for c in conditions if c]
    return f"T.where({' and '.join(kept)})" if kept else "pass"


def matmul(m: int, n: int, k: int, parallel: bool = True) -> str:
    """Script of ``C = A @ B`` for A (m, k), B (k, n)."""
    tiles, panels = -(-m // ROWS), -(-n // COLUMNS)
    row = f"io * {ROWS} + ii < {m}" if m % ROWS else ""
    column = f"jo * {COLUMNS} + ji < {n}" if n % COLUMNS else ""
    unroll = 4 if k % 4 == 0 else 2 if k % 2 == 0 else 1
    loop = "T.parallel" if parallel else "T.serial"
    packed = f"B[vk, vo * {COLUMNS} + vi]"
    if column:
        packed = f"T.if_then_else(vo * {COLUMNS} + vi < {n}, {packed}, T.float32(0))"
    return f"""
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True, "tir.is_scheduled": True}})
    Bp = T.alloc_buffer(({panels}, {k}, {COLUMNS}), "float32")
    C_local = T.alloc_buffer(({tiles * ROWS}, {panels * COLUMNS}), "float32", scope="local")
    for jo in {loop}({panels}):
        for kk in T.serial({k}):
            for ji in T.vectorized({COLUMNS}):
                with T.block("pack"):
                    vo, vk, vi = T.axis.remap("SSS", [jo, kk, ji])
                    Bp[vo, vk, vi] = {packed}
    for t in {loop}({panels * tiles}):
        for ii in T.unroll({ROWS}):
            for ji in T.vectorized({COLUMNS}):
                with T.block("init"):
                    vi = T.axis.spatial({tiles * ROWS}, t % {tiles} * {ROWS} + ii)
                    vj = T.axis.spatial({panels * COLUMNS}, t // {tiles} * {COLUMNS} + ji)
                    {_where(row).replace("io", f"t % {tiles}")}
                    C_local[vi, vj] = T.float32(0)
        for ko in T.serial({k // unroll}):
            for ki in T.unroll({unroll}):
                for ii in T.unroll({ROWS}):
                    for ji in T.vectorized({COLUMNS}):
                        with T.block("update"):
                            vi = T.axis.spatial({tiles * ROWS}, t % {tiles} * {ROWS} + ii)
                            vj = T.axis.spatial({panels * COLUMNS}, t // {tiles} * {COLUMNS} + ji)
                            vk = T.axis.reduce({k}, ko * {unroll} + ki)
                            {_where(row).replace("io", f"t % {tiles}")}
                            C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * Bp[vj // {COLUMNS}, vk, vj % {COLUMNS}]
        for ii in T.unroll({ROWS}):
            for ji in T.vectorized({COLUMNS}):
                with T.block("write"):
                    vi = T.axis.spatial({m}, t % {tiles} * {ROWS} + ii)
                    vj = T.axis.spatial({n}, t // {tiles} * {COLUMNS} + ji)
                    {_where(row, column).replace("io", f"t % {tiles}").replace("jo", f"t // {tiles}")}
                    C[vi, vj] = C_local[vi, vj]
"""
