"""Visitors and mutators written as users of TVM write them; results judged by the interpreter and the compiled module."""

import numpy as np
import pytest

import unity
from unity import relax, topi
from unity.ir import op
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.relax.expr_functor import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor
from unity.script import parse
from unity.support.errors import PassError

TEXT = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32"), c: R.Tensor((), "bool")):
        n = T.int64()
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            d = R.reshape(b, (n * 4,))
            R.output(b, d)
        if c:
            e = R.nn.relu(R.add(b, b))
            f = R.negative(e)
        else:
            f = R.nn.relu(b)
        t = (f, d)
        g = t[1]
        return (g, f)
"""
M = parse(TEXT)
X, W = [np.random.default_rng(k).standard_normal(s, dtype=np.float32) for k, s in enumerate([(3, 4), (4, 4)])]


def agree(mod, expected):
    """Interpreter and compiled module give ``expected(flag)`` for both flags."""
    verify(mod)
    assert unity.ir.structural_equal(parse(mod.script()), mod)
    vm = unity.VirtualMachine(unity.compile(mod))
    for flag in (True, False):
        for found in (run(mod, "main", X, W, np.array(flag)), vm["main"](X, W, np.array(flag))):
            for part, wanted in zip(found, expected(flag), strict=True):
                np.testing.assert_allclose(np.asarray(part), wanted, rtol=1e-4, atol=1e-5)


def test_a_visitor_sees_everything_in_order() -> None:
    @visitor
    class Seen(PyExprVisitor):
        def __init__(self) -> None:
            self.log: list[str] = []

        def visit_call_(self, call) -> None:
            super().visit_call_(call)
            self.log.append(call.op.name)

        def visit_var_def_(self, var) -> None:
            self.log.append(f"def {var.name}")

        def visit_dataflow_var_def_(self, var) -> None:
            self.log.append(f"inner {var.name}")

        def visit_var_(self, var) -> None:
            self.log.append(var.name)

        def visit_mul_(self, expr) -> None:
            self.log.append(f"[{expr}]")

    seen = Seen()
    seen.visit_expr(M["main"])
    assert " ".join(seen.log) == (
        "def x def w def c x w R.matmul inner a R.nn.relu def b b [n * 4] R.reshape def d "
        "c b b R.add def gv gv R.nn.relu def e e R.negative def f f b R.nn.relu def f f def f f d def t t def g g f"
    )


@mutator
class Lower(PyExprMutator):
    """The rewriting of the course: operators become tensor programs."""

    def __init__(self, mod) -> None:
        super().__init__(mod)
        self.mod_ = mod

    def transform(self):
        for name, func in self.mod_.functions.items():
            if isinstance(func, relax.Function):
                self.builder_.update_func(name, relax.analysis.remove_all_unused(self.visit_expr(func)))
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op is op("relax.nn.relu"):
            return self.builder_.call_te(topi.nn.relu, call.args[0])
        if call.op is op("relax.matmul"):
            unused = self.builder_.emit(relax.op.exp(call.args[0]))
            y = self.builder_.emit_te(topi.matmul, *call.args)
            assert self.lookup_binding(unused).op.name == "R.exp" and self.lookup_binding(call.args[0]) is None
            return relax.op.add(relax.op.multiply(y, relax.const(2.0)), relax.const(1.0))
        return call


def test_a_mutator_emits_nests_and_keeps_meaning() -> None:
    lowered = Lower(M).transform()
    text = lowered.script()
    assert "R.nn.relu" not in text and "R.matmul" not in text and "R.exp" not in text
    assert len(lowered.prim_funcs()) == 2  # both relus are one program

    def expected(flag):
        s = np.maximum(2 * X @ W + 1, 0)
        return s.reshape(-1), -2 * s if flag else s

    agree(lowered, expected)


def test_nothing_changed_is_the_same_object() -> None:
    class Same(PyExprMutator):
        pass

    class Again(PyExprMutator):
        def visit_var_(self, var):
            return super().visit_var_(var)

    assert Same(M).visit_expr(M["main"]) is M["main"] is Again().visit_expr(M["main"])


def test_types_follow_a_definition_that_changed() -> None:
    class Half(PyExprMutator):
        def visit_var_def_(self, var):
            if var.name not in "xw":
                return super().visit_var_def_(var)
            return relax.Var(var.name, relax.TensorType(relax.get_shape_of(var).values, "float16"))

    made = Half().visit_expr(M["main"])
    verify(unity.IRModule.from_expr(made))
    assert made.ret_ty.fields[1].dtype.name == "float16"
    assert "float32" not in made.script()


def test_symbols_are_remapped_in_types_shapes_and_calls() -> None:
    class Fixed(PyExprMutator):
        def visit_function_(self, func):
            n = func.params[0].ty.shape.values[0]
            self.set_var_remap(n, relax.PrimValue(3))
            return super().visit_function_(func)

    made = Fixed().visit_expr(M["main"])
    assert "n" not in [v.name for v in relax.analysis.all_vars(made)]
    agree(M.with_functions({"main": made}), lambda flag: run(M, "main", X, W, np.array(flag)))


def test_blocks_are_built_by_hand() -> None:
    class Twice(PyExprMutator):
        def visit_dataflow_block_(self, block):
            self.builder_._begin_dataflow_block()
            assert self.builder_.current_block_is_dataflow()
            for binding in block.bindings:
                self.visit_binding(binding)
            return self.builder_._end_block()

        def visit_var_binding_(self, binding) -> None:
            if isinstance(binding.value, relax.Call) and binding.value.op is op("R.matmul"):
                first = self.builder_.emit(self.visit_expr(binding.value), "first")
                binding = relax.VarBinding(binding.var, relax.op.add(first, first))
            super().visit_var_binding_(binding)

        def visit_tuple_getitem_(self, item):
            return relax.op.negative(super().visit_tuple_getitem_(item))

    made = Twice().visit_expr(M["main"])

    def expected(flag):
        s = np.maximum(2 * X @ W, 0)
        return -s.reshape(-1), -2 * s if flag else s

    agree(M.with_functions({"main": made}), expected)


def test_local_functions_and_purity() -> None:
    mod = parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    @R.function
    def inner(y: R.Tensor(("m",), "float32")):
        z = R.exp(y)
        return z
    a = inner(x)
    return a
""")

    class Printing(PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op is op("R.exp"):
                self.builder_.emit(relax.op.print(call.args[0], format="{}"))
                return relax.op.negative(call.args[0])
            return call

    made = Printing().visit_expr(mod["main"] if isinstance(mod, unity.IRModule) else mod)
    assert not made.body.blocks[0].bindings[0].value.pure and not made.pure
    verify(made)


def test_a_functor_of_its_own() -> None:
    class Depth(ExprFunctor):
        def visit_call_(self, call) -> int:
            return 1 + max([self.visit_expr(a) for a in call.args], default=0)

        def visit_var_(self, var) -> int:
            return 0

    x = relax.Var("x", (4,))
    deep = x
    for _ in range(3000):
        deep = relax.op.exp(deep)
    assert Depth().visit_expr(deep) == 3000
    with pytest.raises(PassError, match="Depth has no visit_constant_ for Constant"):
        Depth().visit_expr(relax.const(1.0))


def test_mistakes_are_named() -> None:
    class Forgets(PyExprMutator):
        def visit_call_(self, call) -> None:
            super().visit_call_(call)

    def refused(code: str, match: str, action) -> None:
        with pytest.raises(PassError, match=match) as caught:
            action()
        assert caught.value.code == code and caught.value.help

    forgets = Forgets()
    refused("E741", "Forgets.visit_call_ returned None for Call", lambda: forgets.visit_expr(M["main"]))
    with pytest.raises(unity.UnityError, match="no function is open"):  # what had been begun is forgotten
        forgets.builder_.emit(relax.const(1.0))
    refused("E740", "got IRModule", lambda: Forgets(M).visit_expr(M))
    refused("E740", "got PrimFunc", lambda: PyExprVisitor().visit_expr(Lower(M).transform()["relu"]))
    refused("E742", "visit_cal_ would never be called", lambda: type("Wrong", (PyExprVisitor,), {"visit_cal_": None}))
    refused("E742", "Plain is not a PyExprMutator", lambda: mutator(type("Plain", (), {})))
