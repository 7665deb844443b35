"""Tensor expressions and the schedule of their program: every name has its type."""

from typing import assert_type

import unity
from unity import te
from unity.ir import IRModule, PrimFunc
from unity.transform.schedule import BlockRV, LoopRV

n = te.size_var("n")
k = te.reduce_axis((0, 128), "k")
A = te.placeholder((n, 128), "float32", "A")
B = te.compute((n, 128), lambda i, j: te.exp(A[i, j]) + 1.0, "B")
least, most = te.compute((n,), lambda i: (A[i, 0], A[i, 127]), "ends")
S = te.compute((n,), lambda i: te.sum(B[i, k] * (most[i] - least[i]), axis=k), "S")
assert_type(S, te.Tensor)
scale = te.create_prim_func([A, S])
assert_type(scale, PrimFunc)

sch = unity.Schedule(scale, seed=0)
block = sch.get_block("B")
assert_type(block, BlockRV)
i, j = sch.get_loops(block)
tile = sch.sample_perfect_tile(j, n=2, max_innermost_factor=16)
outer, inner = sch.split(j, tile)
assert_type(outer, LoopRV)
sch.reorder(outer, i)
sch.parallel(sch.fuse(outer, i, preserve_unit_iters=False))
sch.vectorize(inner)
sch.annotate("S", "note", {"of": [1, 2]})
M: IRModule = sch.mod
