"""``script(dialect="tvm")`` against TVM itself, where the ``apache-tvm`` wheel is installed (a development extra)."""

from __future__ import annotations

import pytest

from unity.script import parse, script

tvm = pytest.importorskip("tvm")
tvm_ffi = pytest.importorskip("tvm_ffi")
from_source = pytest.importorskip("tvm.script").from_source

KERNEL = """
    @T.prim_func(s_tir=True)
    def mm(x: T.handle, w: T.handle, y: T.handle):
        n, k, m = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (n, k), "float32")
        W = T.match_buffer(w, (k, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for i, j, p in T.grid(n, m, k):
            with T.sblock("mm"):
                vi, vj, vp = T.axis.remap("SSR", [i, j, p])
                T.reads(X[vi, vp], W[vp, vj])
                T.writes(Y[vi, vj])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vp] * W[vp, vj]
"""

PROGRAMS = {
    "main job": f"""
@I.ir_module
class Module:
{KERNEL}
    @R.function(pure=False)
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")) -> R.Tensor(("n * m",), "float32"):
        n, m = T.int64(), T.int64()
        cls = Module
        with R.dataflow():
            lv0 = R.call_tir(cls.mm, (x, w), out_ty=R.Tensor((n, m), "float32"))
            lv1 = R.flatten(lv0)
            gv0 = R.exp(lv1)
            R.output(gv0)
        _ = R.call_packed("custom_inplace_update", gv0, ty_args=(R.Any,))
        return gv0
""",
    "graph": """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), t: R.Tuple(R.Tensor((2,), "int32"), R.Any)) -> R.Any:
    n = T.int64()
    s = R.shape([n, n * 2])
    if c:
        y = R.add(x, R.const(1.5, "float32"))
        z = R.nn.softmax(y, axis=-1)
    else:
        z = R.multiply(x, x)
    a = t[0]
    p = R.call_dps_packed("my.f", (z, a), out_ty=R.Tensor((n, 4), "float32"))
    return (p, a, s)
""",
    "memory of a program, sizes of 32 bits": """
@T.prim_func(s_tir=True)
def main(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("m",), "float32")):
    n, m = T.int32(), T.int32()
    C = T.sblock_alloc_buffer((n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[vj])
            T.writes(C[vi, vj])
            D = T.sblock_alloc_buffer((T.int64(1),), "float32")
            C[vi, vj] = B[vj]
    for i, j in T.grid(n, m):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(C[vi, vj])
            T.writes(A[vi, vj])
            A[vi, vj] = C[vi, vj]
""",
    "tensor forms": """
@T.prim_func(s_tir=True)
def f(A: T.Buffer((T.int64(16), T.int64(16)), "float32"), n: T.int64):
    T.func_attr({"tirx.noalias": True})
    for i in T.parallel(n):
        for j in T.serial(T.int64(2), T.int64(10), annotations={"a": 1}):
            if i < j and not i == T.int64(3):
                A[i, j] = T.max(A[i, j], T.float32(0.1)) / T.float32("inf")
            else:
                A[i, T.int64(0)] = T.if_then_else(j < n, T.exp(A[i, j]), T.Cast("float32", i // j % n))
    for k in T.thread_binding(T.int64(8), thread="threadIdx.x"):
        with T.sblock("b"):
            v = T.axis.spatial(T.int64(8), k)
            T.reads()
            T.writes(A[v, T.int64(0):T.int64(4)])
            T.sblock_attr({"tiling": "SSR"})
            A[v, T.int64(0)] = T.float32(1)
""",
}  # fmt: skip


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_tvm_reads_what_we_print(name: str) -> None:
    ours = parse(PROGRAMS[name])
    text = script(ours, "tvm")
    assert tvm_ffi.structural_equal(from_source(text), from_source(PROGRAMS[name])), text


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_we_read_what_tvm_prints(name: str) -> None:
    theirs = from_source(PROGRAMS[name]).script()
    parse(theirs)
