"""Compiled sorts, first elements and medians of lines of many lengths, with equal elements, NaN and both zeros, against numpy."""

from bisect import bisect_left

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType, dtype_names
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.stmt import For
from unity.ir.walk import collect
from unity.script import parse
from unity.transform.relax.lowering.legalize_ops import legalize_ops

LENGTHS = (1, 2, 31, 32, 33, 63, 64, 65, 100, 257, 1000)


def _text(length: str, dtype: str, descending: bool) -> str:
    symbol = "        n = T.int64()\n" if length == "n" else ""
    return f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((3, {length}), "{dtype}")):
{symbol}        with R.dataflow():
            order = R.argsort(x, axis=1, descending={descending}, dtype="int64")
            first = R.topk(x, k=40, axis=1, ret_type="indices", largest={descending}, dtype="int64")
            middle = R.median(x, axis=1)
            gv = (order, first, middle)
            R.output(gv)
        return gv
"""


def _lines(length: int, dtype: str) -> np.ndarray:
    random = np.random.default_rng(length)
    drawn = random.integers(-40, 40, (3, length)).astype(dtype)
    if drawn.dtype.kind == "f":
        drawn[random.random(drawn.shape) < 0.1] = -0.0
        drawn[2, random.random(length) < 0.1] = np.nan
        drawn[1, 0] = -np.inf
    return drawn


def _order(x: np.ndarray, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=1, kind="stable")
    turned = x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")
    return turned[:, ::-1]


@pytest.mark.parametrize("dtype", [d for d in dtype_names() if DataType(d).is_narrow])
def test_narrow_floats_with_nan(dtype: str) -> None:
    """Those that numpy orders without regard for NaN, in the interpreter and in machine code."""
    kind = DataType(dtype).numpy
    x = np.array([[1, np.nan, 0.5, 4, np.nan, 0.25, 2], [4, 2, 1, 0.5, np.nan, 8, np.nan]]).astype(kind)
    text = f"""
@R.function
def main(x: R.Tensor((2, 7), "{dtype}")):
    s = R.sort(x, axis=1)
    d = R.argsort(x, axis=1, descending=True)
    t = R.topk(x, k=3, axis=1)
    m = R.median(x, axis=1)
    u = R.unique(x, return_counts=True)
    p = R.searchsorted(s, x)
    return (s, d, t, m, u, p)
"""
    mod = parse(text)
    wide = x.astype("float32")
    wanted = [np.sort(wide, 1), _order(wide, True), -np.sort(-wide, 1)[:, [-2, -1, 0]], _order(wide, True)[:, :3],
              np.array([np.nan] * 2), np.array([1, 4]), *np.unique(wide, return_counts=True),
              [[bisect_left(sorted(row, key=_last), True, key=lambda v: v >= x) for x in row] for row in wide]]  # fmt: skip
    for found in (unity.compile(mod)["main"](x), run(mod, None, x)):
        for one, expected in zip(_flat(found), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(one).astype("float32"), expected)


def _last(x: float) -> tuple[bool, float]:
    """The order of a sort, which puts NaN last."""
    return bool(np.isnan(x)), x


def _flat(value: object) -> list[object]:
    return [item for part in value for item in _flat(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("descending", [False, True])
def test_any_length(dtype: str, descending: bool) -> None:
    main = unity.VirtualMachine(unity.compile(parse(_text("n", dtype, descending))))["main"]
    for length in LENGTHS:
        lines = _lines(length, dtype)
        _check(main, lines, descending)
        rising = np.sort(lines, axis=1)
        _check(main, np.stack([rising[0], rising[1, ::-1], rising[2]]), descending)
        rising[:, length // 2 :] = lines[:, length // 2 :]
        _check(main, rising, descending)


@pytest.mark.parametrize("length", [40, 64, 77])
def test_known_length(length: int) -> None:
    main = unity.VirtualMachine(unity.compile(parse(_text(str(length), "float32", True))))["main"]
    _check(main, _lines(length, "float32"), True)


def _check(main: object, x: np.ndarray, descending: bool) -> None:
    order, first, (middle, place) = main(x)  # type: ignore[operator]
    expected = _order(x, descending)
    np.testing.assert_array_equal(order.numpy(), expected)
    np.testing.assert_array_equal(first.numpy(), expected[:, :40])
    rising, nan = _order(x, False), np.isnan(x.astype("float64"))
    chosen = np.where(nan.any(1), nan.argmax(1), rising[:, (x.shape[1] - 1) // 2])
    np.testing.assert_array_equal(place.numpy(), chosen)
    np.testing.assert_array_equal(middle.numpy(), x[np.arange(3), chosen])


@pytest.mark.parametrize("call", ["topk(x, k=3, largest=False)", "topk(x, k=40)", "argsort(x)", "median(x, axis=0)"])
@pytest.mark.parametrize("length", [7, 33, 90])
def test_one_line_is_not_shared_between_threads(call: str, length: int) -> None:
    """Each step of a line needs the one before; only the loops over several lines may be shared."""
    if "40" in call and length < 40:
        call = call.replace("40", "4")
    text = f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({length},), "float32")):
        gv = R.{call}
        return gv
"""
    funcs = [f for f in legalize_ops(parse(text)).functions.values() if type(f) is PrimFunc]
    assert funcs
    assert not [loop for func in funcs for loop in collect(func.body, For) if loop.kind == "parallel"]
