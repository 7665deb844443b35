"""The main job as text: the module of ``examples/main_job.py``, its spellings of other years, and what is printed of it."""

import re
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "main_job.py"
CANONICAL = re.search(r"^@I\.ir_module\n.*?return gv0\n", EXAMPLE.read_text(), re.MULTILINE | re.DOTALL).group()
PRINTED = (
    re.sub(r" +#.*", "", CANONICAL)
    .replace('(("k", "m"), "float32")):', '(("k", "m"), "float32")) -> R.Tensor(("n * m",), "float32"):')
    .replace("lv1 =", 'lv1: R.Tensor((n * m,), "float32") =')
    .replace("gv0 =", 'gv0: R.Tensor((n * m,), "float32") =')
)

YEAR_2021 = """
@tvm.script.ir_module
class MyIRModule:
    @T.prim_func
    def tir_mm(x: T.handle, w: T.handle, y: T.handle):
        n, k, m = T.var("int64"), T.var("int64"), T.var("int64")
        X = T.match_buffer(x, (n, k), "float32")
        W = T.match_buffer(w, (k, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for i, j, p in T.grid(n, m, k):
            with T.block("mm"):
                vi, vj, vp = T.axis.remap("SSR", [i, j, p])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vp] * W[vp, vj]

    @R.function
    def main(x: R.Tensor[(n, k), "f32"], w: R.Tensor[(k, m), "f32"]):
        with R.dataflow():
            lv0 = R.call_dps((n, m), tir_mm, [x, w])
            lv1 = R.flatten(lv0)
            gv0 = R.exp(lv1)
            R.output(gv0)
        R.call_packed("custom_inplace_update", gv0)
        return gv0
"""

YEAR_2026 = """
@I.ir_module
class MyIRModule:
    @T.prim_func(s_tir=True)
    def tir_mm(x: T.handle, w: T.handle, y: T.handle):
        n = T.int64()
        k = T.int64()
        m = T.int64()
        X = T.match_buffer(x, (n, k), "float32")
        W = T.match_buffer(w, (k, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for i, j, p in T.grid(n, m, k):
            with T.sblock("mm"):
                vi, vj, vp = T.axis.remap("SSR", [i, j, p])
                with T.init():
                    Y[vi, vj] = T.float32(0.0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vp] * W[vp, vj]

    @R.function(pure=False)
    def main(x: R.Tensor(("n", "k"), dtype="float32"), w: R.Tensor(("k", "m"), dtype="float32")):
        n = T.int64()
        m = T.int64()
        cls = MyIRModule
        with R.dataflow():
            lv0 = R.call_tir(cls.tir_mm, (x, w), out_ty=R.Tensor((n, m), dtype="float32"))
            lv1 = R.flatten(lv0)
            gv0 = R.exp(lv1)
            R.output(gv0)
        _ = R.call_packed("custom_inplace_update", gv0)
        return gv0
"""
