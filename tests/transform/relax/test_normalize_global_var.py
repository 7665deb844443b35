"""Public functions take the names of their symbols; whoever calls them follows."""

import numpy as np

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.transform import normalize_global_var

TEXT = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        B = T.match_buffer(b, (4,), "float32")
        for i in range(4):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + T.float32(1)

    @R.function
    def entry(x: R.Tensor((4,), "float32")):
        R.func_attr({"global_symbol": "main"})
        with R.dataflow():
            y = R.call_dps(main, (x,), R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""
X = np.arange(4, dtype="float32")


def test_names_follow_symbols():
    mod = parse(TEXT)
    made = normalize_global_var(mod)
    verify(made)
    assert list(made.functions) == ["main1", "main"]
    np.testing.assert_array_equal(run(mod, "entry", X), run(made, "main", X))
    np.testing.assert_array_equal(unity.compile(made)["main"](X).numpy(), X + 1)
    assert normalize_global_var(made) is made
