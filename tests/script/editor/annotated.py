"""Signatures a type checker takes as they are: types stand in Annotated."""

from typing import Annotated, Any

from unity.script import ir as I, relax as R, tir as T


@T.prim_func
def scale(a: T.handle, B: Annotated[Any, T.Buffer((4, 4), "float32")], k: T.int32) -> None:
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    C = T.alloc_buffer((4, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(vi < 4)
            with T.init():
                B[vi, vj] = T.float32(0)
            x: T.float32 = A[vi, vj] * T.float32(2)
            B[vi, vj] = B[vi, vj] + T.max(x + T.exp(x), T.Cast("float32", k + 1))
    for t in T.serial(4):
        C[t, 0] = T.call_extern("float32", "f", t)


@I.ir_module
class M:
    I.module_attrs({"x": 1})

    @R.function(pure=False)
    def main(x: Annotated[Any, R.Tensor(("n", 4), "float32")]):
        n = T.int64()
        with R.dataflow():
            y = R.call_dps("f", (x,), R.Tensor((n, 4), "float32"))
            z = R.nn.relu(y + x)
            w = R.sum(z, axis=[0], keepdims=True)
            R.output(w)
        return w
