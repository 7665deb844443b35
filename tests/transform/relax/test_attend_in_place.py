"""Attention reads its tensors where they are: which layouts say so, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unity
from unity.ir.expr import Call
from unity.ir.interpret import run
from unity.ir.relation import dims
from unity.ir.walk import collect
from unity.script import parse
from unity.transform import attend_in_place, dead_code

PACKED = """
@R.function
def main(x: R.Tensor((2, 5, 36), "float32")):
    with R.dataflow():
        a = R.reshape(x, R.shape([2, 5, 3, 3, 4]))
        b = R.permute_dims(a, axes=(2, 0, 3, 1, 4))
        q = R.reshape(R.strided_slice(b, axes=(0,), begin=(0,), end=(1,)), R.shape([2, 3, 5, 4]))
        k = R.reshape(R.strided_slice(b, axes=(0,), begin=(1,), end=(2,)), R.shape([2, 3, 5, 4]))
        v = R.reshape(R.strided_slice(b, axes=(0,), begin=(-1,), end=(3,)), R.shape([2, 3, 5, 4]))
        y = R.nn.attention(q, k, v, layout="BHSD")
        z = R.permute_dims(y, axes=(0, 2, 1, 3))
        R.output(z)
    return z
"""
"""Query, key and value of one product, as vision transformers have them."""
PIECES = """
@R.function
def main(x: R.Tensor((2, 5, 36), "float32")):
    with R.dataflow():
        q = R.reshape(R.strided_slice(x, axes=(2,), begin=(0,), end=(12,)), R.shape([2, 5, 3, 4]))
        k = R.reshape(R.strided_slice(x, axes=(-1,), begin=(12,), end=(24,)), R.shape([2, 5, 3, 4]))
        v = R.reshape(R.strided_slice(x, axes=(2,), begin=(24,), end=(36,)), R.shape([2, 5, 3, 4]))
        y = R.nn.attention(q, k, v, causal_mask="TopLeft")
        R.output(y)
    return y
"""
"""The same as equal pieces of an axis."""
SEQUENCE_FIRST = """
@R.function
def main(q: R.Tensor(("s", "b", 12), "float32"), k: R.Tensor(("t", "b", 12), "float32")):
    s, b, t = T.int64(), T.int64(), T.int64()
    with R.dataflow():
        a = R.permute_dims(R.reshape(q, R.shape([s, b, 3, 4])), axes=(1, 2, 0, 3))
        c = R.permute_dims(R.reshape(k, R.shape([t, b, 3, 4])), axes=(1, 2, 0, 3))
        y = R.nn.attention(a, c, c, layout="BHSD")
        z = R.permute_dims(y, axes=(2, 0, 1, 3))
        R.output(z)
    return z
"""
TURNED = """
@R.function
def main(x: R.Tensor((2, 3, 4, 5), "float32")):
    with R.dataflow():
        a = R.permute_dims(x, axes=(0, 1, 3, 2))
        y = R.nn.attention(a, a, a, layout="BHSD")
        R.output(y)
    return y
"""
"""The width is not the last axis."""
UNEVEN = """
@R.function
def main(x: R.Tensor((2, 5, 30), "float32")):
    with R.dataflow():
        q = R.reshape(R.strided_slice(x, axes=(2,), begin=(6,), end=(18,)), R.shape([2, 5, 3, 4]))
        y = R.nn.attention(q, q, q)
        R.output(y)
    return y
"""
"""A slice that is no piece."""
OPEN = """
@R.function
def main(x: R.Tensor(("n", "m", 12), "float32")):
    n, m = T.int64(), T.int64()
    with R.dataflow():
        a = R.reshape(x, R.shape([n * m, 3, 4]))
        b = R.permute_dims(a, axes=(1, 0, 2))
        q = R.expand_dims(b, axis=(0,))
        y = R.nn.attention(q, q, q, layout="BHSD")
        R.output(y)
    return y
"""
"""Sizes that are joined."""
TWICE = """
@R.function
def main(x: R.Tensor((2, 3, 5, 4), "float32")):
    with R.dataflow():
        y = R.nn.attention(x, x, x, layout="BHSD")
        z = R.permute_dims(y, axes=(0, 2, 1, 3))
        R.output(y, z)
    return (y, z)
"""
WRITTEN = """
@R.function(pure=False)
def main(x: R.Tensor((2, 3, 5, 4), "float32")):
    a = R.permute_dims(x, axes=(0, 2, 1, 3))
    R.call_packed("tests.zero", x)
    y = R.nn.attention(a, a, a)
    return y
"""
SHAPES = {"s": 6, "t": 7, "b": 2, "n": 2, "m": 3}


def attention_of(mod: unity.IRModule) -> tuple[str, set[str]]:
    """The layout of the one attention, and the other operators that are left."""
    calls = collect(mod["main"], Call)
    (found,) = [call for call in calls if call.op_name == "R.nn.attention"]
    return found.attrs["layout"], {call.op_name for call in calls} - {"R.nn.attention"}


@pytest.mark.parametrize(
    "text, layout, left",
    [
        (PACKED, "BS0HD,BS1HD,BS2HD,BSHD", {"R.reshape"}),
        (PIECES, "BS0HD,BS1HD,BS2HD,BSHD", {"R.reshape"}),
        (SEQUENCE_FIRST, "SBHD", {"R.reshape"}),
        (TURNED, "BHSD", {"R.permute_dims"}),
        (UNEVEN, "BSHD", {"R.reshape", "R.strided_slice"}),
        (OPEN, "BSHD,BSHD,BSHD,BHSD", {"R.reshape"}),
        (TWICE, "BHSD", {"R.permute_dims"}),
    ],
)
def test_layouts(text: str, layout: str, left: set[str]) -> None:
    before = unity.IRModule({"main": parse(text)}, {}, {})
    after = dead_code(attend_in_place(before))
    assert attention_of(after) == (layout, left), after.script()
    assert parse(after.script()).script() == after.script()
    draw = np.random.default_rng(0)
    shapes = [[SHAPES.get(str(d)) or d.value for d in dims(param.ty) or ()] for param in before["main"].params]
    inputs = [draw.standard_normal(shape).astype("float32") for shape in shapes]

    def results(found: Any) -> list[np.ndarray]:
        return [np.asarray(x) for x in (found if isinstance(found, (tuple, list)) else [found])]

    wanted = results(run(before, "main", *inputs))
    for mod in (after, before):
        for made, expected in zip(results(unity.VirtualMachine(unity.compile(mod))["main"](*inputs)), wanted):
            np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)
    for made, expected in zip(results(run(after, "main", *inputs)), wanted):
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_places_that_lie_apart_are_read_where_that_is_fast() -> None:
    mod = unity.IRModule({"main": parse(SEQUENCE_FIRST)}, {}, {})
    near = attend_in_place.with_options(where_fast=True)
    with unity.Target("llvm"):
        assert attention_of(dead_code(near(mod)))[0] == "BHSD"
    with unity.Target("cuda"):
        assert attention_of(dead_code(near(mod)))[0] == "SBHD"


def test_memory_that_is_written_meanwhile_is_not_read_late() -> None:
    mod = unity.IRModule({"main": parse(WRITTEN)}, {}, {})
    assert attention_of(attend_in_place(mod))[1] == {"R.permute_dims", "R.call_packed"}
