import numpy as np
import pytest

from unity.ir import Call, Function, collect
from unity.ir.interpret import run
from unity.ir.verify import verify
from unity.script import parse
from unity.transform.relax.lambda_lift import lambda_lift

X = np.arange(3, dtype="float32")

CALLED = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()

        @R.function
        def inner(y: R.Tensor((n,), "float32")):
            z = R.add(x, y)
            return z

        a = inner(x)
        b = inner(a)
        return b
"""
CHAIN = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        @R.function
        def one(y: R.Tensor((3,), "float32")):
            z = R.add(x, y)
            return z

        @R.function
        def two(y: R.Tensor((3,), "float32")):
            z = one(y)
            w = R.multiply(z, y)
            return w

        b = two(x)
        return b
"""


@pytest.mark.parametrize("text", [CALLED, CHAIN], ids=["called", "chain"])
def test_local_functions_move_out(text):
    mod = parse(text)
    made = lambda_lift(mod)
    verify(made)
    assert len(made.functions) > 1
    for fn in made.graph_functions().values():
        assert [f for f in collect(fn, Function) if f is not fn] == []
    np.testing.assert_array_equal(np.asarray(run(made, "main", X)), np.asarray(run(mod, "main", X)))
    assert lambda_lift(made) is made


def test_function_as_value_becomes_a_closure():
    text = CALLED.replace("a = inner(x)\n        b = inner(a)\n        return b", "return inner")
    made = lambda_lift(parse(text))
    calls = [c.op.name for c in collect(made["main"], Call)]
    assert calls == ["R.make_closure"]
