"""Reading script: CPU time per 1,000 lines, by length. Run by hand: ``python benchmarks/bench_parse.py``."""

from __future__ import annotations

import time

from unity.script import parse

UNIT = """
    @T.prim_func
    def mm{k}(x: T.handle, w: T.handle, y: T.handle):
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
    def main{k}(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            lv0 = R.call_dps(mm{k}, (x, w), R.Tensor((n, m), "float32"))
            lv1 = R.flatten(lv0)
            gv0 = R.exp(lv1)
            R.output(gv0)
        R.call_packed("custom_inplace_update", gv0)
        return gv0
"""


def main() -> None:
    """Print one row per length."""
    parse("@R.function\ndef f(x: R.Object):\n    return x\n")  # loads the grammar
    print("lines   read, s   read and verify, s   read, ms per 1,000 lines")
    for count in (10, 40, 160, 640):
        text = "@I.ir_module\nclass M:\n" + "".join([UNIT.replace("{k}", str(k)) for k in range(count)])
        lines = text.count("\n")
        times = []
        for check in (False, True):
            start = time.process_time()
            parse(text, check=check)
            times.append(time.process_time() - start)
        print(f"{lines:6d}  {times[0]:8.3f}  {times[1]:19.3f}  {times[0] / lines * 1e6:25.0f}")


if __name__ == "__main__":
    main()
