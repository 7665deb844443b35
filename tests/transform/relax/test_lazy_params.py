"""Weights that a callback loads and results that a callback takes, interpreted and compiled."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.relax import transform
from unity.script import parse
from unity.transform import DEFAULT_PIPELINE, Pipeline

MOD = parse("""
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), b: R.Tensor(("k",), "float32"), w: R.Tensor((4, "k"), "float32"), v: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 2})
        n, k = T.int64(), T.int64()
        z = R.exp(x)
        with R.dataflow():
            y = R.matmul(z, w)
            s = R.add(y, b)
            R.output(s)
        if c:
            t = R.add(x, v)
        else:
            t = R.negative(x)
        u = R.reshape(s, (n * k,))
        return (u, t, x, v)

    @R.function(private=True)
    def helper(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        R.func_attr({"num_input": 1})
        y = R.add(x, w)
        return y
""")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4), dtype=np.float32)
WEIGHTS = {"b": RNG.standard_normal(5, dtype=np.float32), "w": RNG.standard_normal((4, 5), dtype=np.float32),
           "v": RNG.standard_normal(4, dtype=np.float32)}  # fmt: skip


def both(mod, make):
    """Results in the interpreter and compiled; ``make()`` gives fresh arguments."""
    verify(mod)
    assert unity.ir.structural_equal(parse(mod.script()), mod)
    yield run(mod, "main", *make())
    yield unity.VirtualMachine(unity.compile(mod))["main"](*make())


@pytest.mark.parametrize("flag", [True, False])
def test_weights_come_when_they_are_needed(flag):
    lazy = transform.LazyGetInput()(MOD)
    assert [p.name for p in lazy["main"].params] == ["x", "c", "fget_param"] and lazy["helper"] is MOD["helper"]
    order = [getattr(b.var, "name", "") for block in lazy["main"].body.blocks for b in block.bindings]
    assert (
        order.index("z")
        < order.index("b_any")
        < order.index("w")
        < order.index("y")
        < order.index("v")
        < order.index("t")
    )
    wanted = run(MOD, "main", X, np.array(flag), *WEIGHTS.values())
    asked = []

    def load(index, name):
        asked.append((index, name))
        return unity.tensor(WEIGHTS[name])

    for found in both(lazy, lambda: (X, np.array(flag), load)):
        assert sorted(set(asked)) == [(0, "b"), (1, "w"), (2, "v")]
        for part, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(part), np.asarray(want), rtol=1e-4, atol=1e-5)


def test_results_go_when_they_are_there():
    lazy = transform.LazySetOutput()(MOD)
    assert [p.name for p in lazy["main"].params] == ["x", "c", "fset_output", "b", "w", "v"]
    assert lazy["main"].attrs["num_input"] == 3 and not lazy["main"].pure
    wanted = run(MOD, "main", X, np.array(True), *WEIGHTS.values())
    kept = []
    for _ in both(
        lazy, lambda: (X, np.array(True), lambda i, value: kept.append((i, np.array(value))), *WEIGHTS.values())
    ):
        assert [i for i, _ in kept] == [2, 3, 1, 0]  # parameters at once, the rest as it is computed
        for i, value in kept:
            np.testing.assert_allclose(value, np.asarray(wanted[i]), rtol=1e-4, atol=1e-5)
        kept.clear()


def test_both_and_the_whole_pipeline():
    lazy = Pipeline([transform.LazyGetInput(), transform.LazySetOutput(), DEFAULT_PIPELINE])(MOD)
    verify(lazy)
    one = parse('@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    y = R.exp(x)\n    return y\n')
    kept = []
    for _ in both(transform.LazySetOutput()(unity.IRModule.from_expr(one.with_attr("global_symbol", "main"))),
                  lambda: (np.zeros(2, "float32"), lambda i, value: kept.append(np.asarray(value).tolist()))):  # fmt: skip
        assert kept.pop() == [1.0, 1.0]
