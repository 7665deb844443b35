"""TVM's walks over tensor programs, ``specialize``, and modules as JSON."""

import json

import numpy as np
import pytest

import unity
from unity import ir, tir
from unity.script import parse, tir as T
from unity.support.errors import VerifyError
from unity.tir import stmt_functor


@T.prim_func
def program(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2) + T.float32(1)


def test_visits_in_both_orders() -> None:
    kinds: list[str] = []
    stmt_functor.post_order_visit(program.body, lambda node: kinds.append(type(node).__name__))
    assert kinds.index("BufferLoad") < kinds.index("BufferStore") < kinds.index("Block") < kinds.index("For")
    seen: list[str] = []

    def stop_at_blocks(node: object) -> bool:
        seen.append(type(node).__name__)
        return not isinstance(node, tir.Block)

    stmt_functor.pre_order_visit(program.body, stop_at_blocks)
    assert "For" in seen and "Block" in seen and "BufferStore" not in seen
    assert seen.index("For") < seen.index("Block")


def test_transform_before_and_after() -> None:
    asked: list[type] = []

    def raised(node: tir.FloatImm) -> object:
        asked.append(type(node))
        return tir.FloatImm("float32", float(node) + 1)

    made = program.with_body(stmt_functor.ir_transform(program.body, None, raised, ["tir.FloatImm"]))
    a = np.arange(3, dtype="float32")
    b = np.zeros(3, "float32")
    unity.compile(made)["program"](a, b, 3)
    np.testing.assert_array_equal(b, a * 3 + 2)
    assert set(asked) == {ir.FloatImm} and len(asked) == 2
    same = stmt_functor.ir_transform(program.body, lambda node: node, raised, ["s_tir.SBlock", "tir.FloatImm"])
    assert same is program.body  # what stands for a block is not entered
    x, y = tir.Var("x"), tir.Var("y")
    assert str(stmt_functor.substitute(x + 1, {x: y * 2})) == "y * 2 + 1"


def test_specialize_fixes_sizes() -> None:
    a, b, n = program.params
    fixed = program.specialize({n: 16})
    assert [p.name for p in fixed.params] == ["a", "b"] and "T.int32(16),)" in fixed.script()
    by_buffer = program.specialize({a: tir.decl_buffer((8,), "float32")})
    assert [p.name for p in by_buffer.params] == ["a", "b"] and "B: T.Buffer((T.int32(8),)" in by_buffer.script()
    x, y = np.ones(8, "float32"), np.zeros(8, "float32")
    unity.compile(by_buffer)["program"](x, y)
    assert (y == 3).all()
    assert "T.match_buffer(a, (n,)" in program.script()
    with pytest.raises(VerifyError, match=r"has T\.int32\(8\), not"):
        by_buffer.specialize({a: tir.decl_buffer((9,))})
    for wrong, match in (
        ({a: 3}, "is specialized to a buffer"),
        ({a: tir.decl_buffer((8, 8))}, "has 1 axes"),
        ({tir.decl_buffer((8,)): tir.decl_buffer((9,))}, "neither a parameter nor a symbol"),
        ({"n": 3}, "neither a parameter nor a symbol"),
        ({a: tir.decl_buffer((8,)), b: tir.decl_buffer((9,))}, "given twice"),
    ):
        with pytest.raises(VerifyError, match=match):
            program.specialize(wrong)


def test_modules_as_json() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        y = R.add(x, R.const([1.0, 2.5], "float32"))
        return y
""")
    text = ir.save_json(mod)
    assert json.loads(text) and ir.structural_equal(ir.load_json(text), mod)
    assert ir.structural_equal(ir.load_json(ir.save_json(program)), program)
    for wrong in ("{", '{"a": 1}', "[]"):
        with pytest.raises(VerifyError, match="E716"):
            ir.load_json(wrong)
    with pytest.raises(VerifyError, match="not saved alone"):
        ir.save_json(program.body)
