import numpy as np
import pytest

import unity
from unity.ir import Call, Function, collect, free_vars
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.transform.relax.interprocedural.lambda_lift import lambda_lift

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


LOOP = """
@I.ir_module
class M:
    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        @R.function
        def loop(i: R.Tensor((), "int64"), acc: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            c = R.less(i, n)
            if c:
                j = R.add(i, R.const(1, "int64"))
                b = R.add(acc, x)
                r = loop(j, b)
            else:
                r = acc
            return r
        z = loop(R.const(0, "int64"), x)
        return z
"""
CHOICE = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
        @R.function
        def p(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            b = R.add(a, x)
            return b
        @R.function
        def q(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            b = R.subtract(a, x)
            return b
        if c:
            g = p
        else:
            g = q
        y = g(x)
        return y
"""


@pytest.mark.parametrize(
    "text, args, wanted",
    [
        (LOOP, (np.array(4), X), 5 * X),
        (LOOP, (np.array(0), X), X),
        (CHOICE, (X, np.array(True)), 2 * X),
        (CHOICE, (X, np.array(False)), 0 * X),
    ],
)
def test_recursion_and_choice(text, args, wanted):
    """A local function that calls itself, and a call of one of two in a function that stays pure."""
    mod = parse(text)
    verify(mod)
    assert free_vars(mod["main"]) == []
    made = lambda_lift(mod)
    verify(made)
    assert made["main"].pure and lambda_lift(made) is made
    for m in (mod, made):
        np.testing.assert_array_equal(np.asarray(run(m, "main", *args)), wanted)
        np.testing.assert_array_equal(np.asarray(unity.VirtualMachine(unity.compile(m))["main"](*args)), wanted)
