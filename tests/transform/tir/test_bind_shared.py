"""Expression objects used in many places: bound by what compiles, refused by what would write them out, never a hang."""

import numpy as np
import pytest

import unity
import unity.op
from unity import te
from unity.ir import BlockBuilder, BufferStore, Call, IRModule, Let, Var, op
from unity.ir.build import add, call_extern, const, if_then_else, intrinsic, mul
from unity.ir.builder import make_call
from unity.ir.common_subtrees import bind_shared, sizes
from unity.ir.interpret import run
from unity.ir.node import replace
from unity.ir.relation import tensor_type
from unity.ir.verifier.verifier import violations
from unity.ir.walk import collect, rewrite
from unity.script import parse
from unity.support.errors import VerifyError

COPY = """
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "f"})
    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            B[v] = A[v]
"""


def doubled(depth, step=lambda e: add(e, e)):
    """The program that copies, with a value made of few objects in many places."""
    func = parse(COPY)

    def store(node):
        value = node.value
        for _ in range(depth):
            value = step(value)
        return replace(node, value=value)

    return rewrite(func, {BufferStore: store})


def test_thirty_levels_compile_and_run():
    executable = unity.compile(doubled(30))
    given, out = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    unity.VirtualMachine(executable)["f"](given, out)
    np.testing.assert_array_equal(out, given * 2**30)


def test_thirty_levels_are_refused_by_verifier_and_printer():
    func = doubled(30)
    assert [error.code for error in violations(func)] == ["E348"]
    with pytest.raises(VerifyError, match="4294967"):
        func.script()
    assert len(repr(func)) < 200


def test_small_values_stay_as_they_are():
    value = doubled(3)
    stores = collect(value, BufferStore)
    assert bind_shared(stores[0].value) is stores[0].value


@pytest.mark.parametrize("depth", [6, 8])
def test_the_meaning_stays(depth):
    def step(e):
        return add(mul(e, const(0.5, "float32")), mul(e, e))

    func = doubled(depth, step)
    (store,) = collect(func, BufferStore)
    bound = bind_shared(store.value)
    assert collect(bound, Let) and sizes(bound)[id(bound)] < sizes(store.value)[id(store.value)] / 4
    given = np.array([0.1, -0.2, 0.4, 0.9], "float32")
    results = []
    for made in (func, rewrite(func, {BufferStore: lambda node: replace(node, value=bind_shared(node.value))})):
        out = np.zeros(4, "float32")
        run(IRModule({"f": made}, {}, {}), "f", given, out)
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
    out = np.zeros(4, "float32")
    unity.VirtualMachine(unity.compile(func))["f"](given, out)
    np.testing.assert_allclose(out, results[0], rtol=1e-5)


def test_what_is_guarded_stays_behind_its_guard():
    (load,) = collect(parse(COPY), BufferStore)
    heavy = load.value
    for _ in range(10):
        heavy = add(heavy, heavy)
    value = if_then_else(intrinsic("isnan", load.value), heavy, const(0.0, "float32"))
    bound = bind_shared(value)
    assert type(bound) is Call and collect(bound.args[1], Let) and not collect(bound.args[0], Let)


def test_effects_are_not_merged():
    once = call_extern("float32", "rand")
    value = once
    for _ in range(10):
        value = add(value, value)
    assert bind_shared(value) is value


def test_tensor_expressions():
    a = te.placeholder((4,), "float32", "A")

    def body(i):
        value = a[i]
        for _ in range(30):
            value = value * 0.5 + value * value
        return value

    func = te.create_prim_func([a, te.compute((4,), body, "c")], "g")
    given, out = np.array([0.1, 0.2, 0.4, 0.45], "float32"), np.zeros(4, "float32")
    unity.VirtualMachine(unity.compile(IRModule({"g": func}, {}, {})))["g"](given, out)
    want = given.copy()
    for _ in range(30):
        want = want * np.float32(0.5) + want * want
    np.testing.assert_allclose(out, want, rtol=1e-4)


def test_graph_calls_in_several_places_are_bound_once():
    x = Var("x", tensor_type((const(3, "int64"),), "float32"))
    value = x
    for _ in range(30):
        value = make_call(op("R.add"), (value, value))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(value)
    mod = builder.get()
    assert mod.script().count("R.add(") == 30
    np.testing.assert_array_equal(run(mod, "main", np.ones(3, "float32")), np.full(3, 2.0**30, "float32"))
