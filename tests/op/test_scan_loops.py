"""Running values of many shapes: lines that fill groups and those left over, along each axis, with NaN and both zeros, fixed and symbolic."""

from functools import cache

import numpy as np
import pytest
import torch

import unity
from unity.ffi.dtype import DataType
from unity.ir.buffer import make_buffer
from unity.ir.build import add, const, int_value
from unity.ir.stmt import AllocBuffer
from unity.ir.walk import collect
from unity.op.reduction.scan_loops import Carried, scan_lines
from unity.script import parse

SHAPES = [
    (1,),
    (37,),
    (5, 7),
    (16, 3),
    (17, 9),
    (33, 70),
    (2, 300),
    (3, 385),
    (2, 513),
    (300, 2),
    (3, 5, 18),
    (1, 19, 4),
    (0, 3),
    (3, 0),
]
NAMES = ("cumsum", "cumprod")


def _text(name: str, dims: str, axis: int) -> str:
    symbols = [d for d in dims.split(", ") if d.isalpha()]
    made = "".join([f"        {d} = T.int64()\n" for d in symbols])
    return f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({dims},), "float32")):
{made}        with R.dataflow():
            gv = R.{name}(x, axis={axis})
            R.output(gv)
        return gv
"""


def _input(shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(0).choice(np.array([0, -0.0, 1, -1, 2, 0.5, -1.5, 1.25], "float32"), shape)
    if x.size > 20:
        x.reshape(-1)[[7, 11]] = np.inf, -np.inf
        x.reshape(-1)[-1] = np.nan
    return x


@cache
def _compiled(text: str) -> unity.VirtualMachine:
    """A program, which may be for several shapes."""
    return unity.VirtualMachine(unity.compile(parse(text)))


def _agrees(name: str, dims: str, shape: tuple[int, ...], axis: int) -> None:
    x = _input(shape)
    expected = getattr(torch, name)(torch.from_numpy(x), axis)
    got = _compiled(_text(name, dims, axis))["main"](x)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name,shape",
    [(n, s) for n in NAMES for s in SHAPES if n == "cumsum" or len(s) > 1],
    ids=str,
)
def test_fixed(name: str, shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        _agrees(name, ", ".join([str(d) for d in shape]), shape, axis)


@pytest.mark.parametrize(
    ("columns", "together"), [(7, 256), (256, 256), (300, 304), (384, 256), (513, 272), (4096, 256)]
)
def test_a_small_remainder_is_shared_out(columns: int, together: int) -> None:
    """Neighbours that go together hold their values in a buffer of so many."""
    out = make_buffer("out", "float32", (4, columns), "global")
    kind, one = DataType("float32"), const(1.0, "float32")
    made = scan_lines(out, 0, Carried(kind, lambda i: one, lambda i: one, add, kind))
    assert [int_value(node.buffer.shape[0]) for node in collect(made, AllocBuffer)] == [together]


@pytest.mark.parametrize("shape", [(17, 9), (33, 300), (0, 3)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_symbolic(name: str, shape: tuple[int, ...]) -> None:
    for axis in (0, 1):
        _agrees(name, "n, m", shape, axis)
