"""Nodes as bytes and back."""

import json
import math

import numpy as np
import pytest

import unity
from unity.ir.build import add, const
from unity.ir.expr import Constant, FloatImm, Var
from unity.ir.pack import NotPackable, fingerprint, pack, unpack
from unity.ir.scalar import Add
from unity.ir.structural import structural_equal
from unity.ir.types import TensorType, prim_type
from unity.script import parse
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

PROGRAMS = """
@I.ir_module
class M:
    @T.prim_func
    def f(a: T.handle, B: T.Buffer((8, 4), "float16"), flag: T.bool):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32", strides=(8, 1))
        C = T.alloc_buffer((4,), "float32", scope="local")
        for i in T.parallel(n, annotations={"pragma_auto_unroll_max_step": 16, "note": "x"}):
            with T.block("b"):
                vi = T.axis.spatial(n, i)
                T.reads(A[vi, 0:4])
                T.writes(C[0:4])
                T.block_attr({"key": [1, 2]})
                with T.init():
                    C[0] = T.float32(-1.5)
                C[0:4] = A[vi, 0:4] * T.Broadcast(T.float32(2), 4)
        if flag:
            for j in T.vectorized(4):
                B[0, j] = T.Cast("float16", T.exp(C[j]))

    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 48), "float32")):
        return R.nn.softmax(R.matmul(x, w))
"""


def programs():
    mod = parse(PROGRAMS)
    yield from mod.prim_funcs().values()
    yield from DEFAULT_PIPELINE(mod).prim_funcs().values()


def test_programs_come_back_equal():
    found = list(programs())
    assert len(found) >= 4
    for func in found:
        again = unpack(pack(func))
        assert structural_equal(again, func) and again.attrs == func.attrs
        named = [unity.IRModule({"f": f}, {}, {}).script() for f in (again, func)]
        assert named[0] == named[1]
        assert pack(again) == pack(func)


def test_shared_nodes_stay_shared():
    x = Var("x", prim_type("int64"))
    both = add(x, const(1, "int64"))
    again = unpack(pack(Add(both, both, prim_type("int64"))))
    assert again.a is again.b and again.ty is prim_type("int64") and again.a.a.ty is prim_type("int64")


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-310])
def test_floats_keep_their_bits(value):
    again = unpack(pack(FloatImm(value, prim_type("float64"))))
    assert np.float64(again.value).tobytes() == np.float64(value).tobytes()


def test_large_integers_and_odd_names():
    for value in (-(2**63), 2**63 - 1, 2**53 + 1):
        assert unpack(pack(const(value, "int64"))).value == value
    assert unpack(pack(Var('a"\\\n\u00e9', prim_type("int8")))).name == 'a"\\\n\u00e9'


def test_data_is_refused():
    data = unity.Tensor(np.zeros(3, "float32"))
    with pytest.raises(NotPackable):
        pack(Constant(data, TensorType(None, "float32")))
    with pytest.raises(NotPackable):
        pack(parse(PROGRAMS)["f"].with_attr("mine", object()))


def test_the_form_is_plain_data():
    rows = json.loads(pack(parse(PROGRAMS)["f"]))
    assert {row[0] for row in rows} >= {"PrimFunc", "For", "Block", "BufferStore", "Buffer", "Var"}


# ---- fingerprints

SEEN = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((8, 32), "float32")):
        y = R.add(R.multiply(x, first), second)
        return y
"""


def seen(text=SEEN, **given):
    data = {"first": unity.tensor(np.ones((8, 32), "float32")), "second": unity.tensor(np.zeros((8, 32), "float32"))}
    return fingerprint(parse(text, scope=data | given))


def test_a_fingerprint_says_all_but_the_elements_of_constants():
    text, constants = seen()
    assert [c.numpy()[0, 0] for c in constants] == [1.0, 0.0]
    assert seen(first=unity.tensor(np.full((8, 32), 3, "float32")))[0] == text
    for old, new in (("R.add", "R.subtract"), ("main", "other"), ("        y =", "\n        y =")):
        assert seen(SEEN.replace(old, new))[0] != text
    one = unity.tensor(np.ones((8, 32), "float32"))
    again, constants = seen(first=one, second=one)
    assert again != text and constants == [one]


def test_values_from_outside_have_no_fingerprint():
    mod = parse(SEEN.replace("first", "x").replace("second", "x"))
    with pytest.raises(NotPackable):
        fingerprint(mod.with_attrs(held=object()))
    table = [unity.tensor(np.float32([value])) for value in (1, 2)]
    assert fingerprint(mod.with_attrs(held=table[0]))[0] != fingerprint(mod.with_attrs(held=table[1]))[0]
