"""One module with a tensor program, a graph function and a Python function, compiled once and run on any shape."""

import numpy as np

import unity
from unity.script import ir as I, relax as R, tir as T


@unity.register_func("custom_inplace_update")
def custom_inplace_update(t):  # t: unity.Tensor, zero-copy
    np.asarray(t)[...] += 1.0


@I.ir_module
class MyIRModule:
    @T.prim_func
    def tir_mm(x: T.handle, w: T.handle, y: T.handle):
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

    @R.function(pure=False)
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            lv0 = R.call_dps(tir_mm, (x, w), R.Tensor((n, m), "float32"))
            lv1 = R.flatten(lv0)  # type deduced: R.Tensor((n * m,), "float32")
            gv0 = R.exp(lv1)
            R.output(gv0)
        R.call_packed("custom_inplace_update", gv0)
        return gv0


def main():
    ex = unity.compile(MyIRModule, target="llvm")
    vm = unity.VirtualMachine(ex)
    rng = np.random.default_rng(0)
    for n, k, m in [(2, 3, 4), (5, 1, 7), (64, 128, 32)]:
        x = rng.standard_normal((n, k), dtype=np.float32) * 0.1
        w = rng.standard_normal((k, m), dtype=np.float32) * 0.1
        y = vm["main"](x, w)
        expected = np.exp(x @ w).reshape(-1) + 1.0
        error = float(np.abs(np.asarray(y) - expected).max())
        print(f"n={n:3} k={k:3} m={m:3}  result {y.shape} {y.dtype}  largest difference to numpy {error:.1e}")
        assert error < 1e-5


if __name__ == "__main__":
    main()
