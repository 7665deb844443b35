"""Invalid tensor programs in the interpreter: an error with a code that says what is wrong, never Python's own."""

from __future__ import annotations

import numpy as np
import pytest
from samples import buffer, i64, load, prim_func

from unity.ir import (
    Add,
    Broadcast,
    BufferStore,
    Call,
    Evaluate,
    FloatImm,
    GlobalVar,
    IntImm,
    IRModule,
    Return,
    op,
    prim_type,
)
from unity.ir.build import call_extern, const
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.verifier.verifier import violations
from unity.script import parse
from unity.support.errors import InterpreterError, UnityError

I32 = prim_type("int32")
A = buffer("A", (4,), "int32")
FIRST = load(A, i64(0))
STORES = {
    "operands of two types": Add(const(1, "int32"), const(1.0, "float32"), I32),
    "float constant of an integer type": FloatImm(3.0, I32),
    "constant out of range": IntImm(1 << 40, I32),
    "half of a scalar": Call(op("T.vectorlow"), (FIRST,), {}, (), I32),
    "math without arguments": Call(op("T.exp"), (), {}, (), I32),
    "atomic access to a number": Call(op("T.atomic_add"), (FIRST, FIRST), {}, (), I32),
}


@pytest.mark.parametrize("name", list(STORES))
def test_invalid_values(name: str) -> None:
    func = prim_func(BufferStore(A, STORES[name], (i64(0),)), A)
    assert violations(func)
    with pytest.raises(InterpreterError):
        run(func, None, np.zeros(4, "int32"))


def test_a_predicate_on_a_single_element() -> None:
    func = prim_func(BufferStore(A, FIRST, (i64(0),), const(True)), A)
    assert [e.code for e in violations(func)] == ["E342"]
    with pytest.raises(InterpreterError):
        run(func, None, np.zeros(4, "int32"))


def test_a_result_taken_as_another_type() -> None:
    half = PrimFunc((), {}, Return(const(0.5, "float32")), prim_type("float32"), {})
    taken = prim_func(BufferStore(A, Call(GlobalVar("half"), (), {}, (), I32), (i64(0),)), A)
    dropped = prim_func(Evaluate(Call(GlobalVar("half"), (), {}, (), prim_type("void"))), A)
    assert [e.code for e in violations(IRModule({"half": half, "f": taken}, {}, {}))] == ["E337"]
    assert not violations(IRModule({"half": half, "f": dropped}, {}, {}))


def test_a_vector_of_one_lane_is_its_value() -> None:
    func = prim_func(BufferStore(A, Broadcast(const(7, "int32"), 1, I32), (i64(1),)), A)
    x = np.zeros(4, "int32")
    run(func, None, x)
    assert x.tolist() == [0, 7, 0, 0]


def test_a_c_function_with_an_integer_result() -> None:
    func = prim_func(BufferStore(A, call_extern("int32", "abs", const(-5, "int32")), (i64(1),)), A)
    x = np.zeros(4, "int32")
    run(func, None, x)
    assert x[1] == 5


VOID = """
@I.ir_module
class M:
    @T.prim_func
    def g(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(3)
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        {statement}
"""


def test_a_program_without_result_is_no_value():
    text = VOID.format(statement='A[1] = T.Cast("float32", M.g(A.data))')
    with pytest.raises(UnityError) as caught:
        parse(text)
    assert "E337" in str(caught.value) and "g returns nothing" in str(caught.value)
    with pytest.raises(UnityError) as caught:
        run(parse(text, check=False), "f", np.ones(4, "float32"))
    assert caught.value.code == "E318"
    given = np.ones(4, "float32")
    run(parse(VOID.format(statement="M.g(A.data)")), "f", given)
    assert given[0] == 3
