"""Memory of a call as formulas: what the native driver's arena really holds."""

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.support.errors import VMError

TEXT = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 32), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            c = R.matmul(R.permute_dims(b), a)
            d = R.sum(c, axis=[0])
            e = R.nn.softmax(R.reshape(b, (32, n)))
            R.output(d, e)
        return d, e

    @R.function
    def fixed(x: R.Tensor((5,), "float32")):
        return R.nn.softmax(R.cumsum(x, axis=0))

    @R.function
    def outer(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 32), "float32")):
        cls = M
        return cls.main(x, w)
"""


@pytest.fixture(scope="module")
def made():
    return unity.compile(parse(TEXT))


@pytest.mark.parametrize("n", [1, 3, 17, 100])
def test_temporaries_are_what_the_arena_grows_to(made, n):
    machine = unity.VirtualMachine(made)
    x, w = np.ones((n, 64), "float32"), np.ones((64, 32), "float32")
    for _ in range(2):
        results = machine["main"](x, w)
    assert machine.native.env(0)[1] == made.memory("main").temporaries(n=n) > 0
    assert sum([r.numpy().nbytes for r in results]) == made.memory("main").results(n=n)


def test_the_formula_is_linear_in_the_symbol(made):
    formula = made.memory()
    assert formula.temporaries(n=2000) - formula.temporaries(n=1000) == formula.temporaries(
        n=3000
    ) - formula.temporaries(n=2000)
    text = str(formula)
    assert (
        text.startswith("main: temporaries ") and "(n * 128)" in text and text.endswith("results (n * 128) + 128 bytes")
    )


def test_fixed_sizes_need_no_symbols(made):
    assert made.memory("fixed").results() == 20 and made.memory("fixed").temporaries() == 64


def test_functions_that_are_called_are_named(made):
    assert made.memory("outer").calls == ("main",) and "what it calls: main" in str(made.memory("outer"))


@pytest.mark.parametrize("sizes", [{}, {"n": 3, "m": 4}])
def test_wrong_symbols(made, sizes):
    with pytest.raises(VMError, match="E631"):
        made.memory().temporaries(**sizes)


def test_unknown_function(made):
    with pytest.raises(VMError, match="E631"):
        made.memory("nobody")
