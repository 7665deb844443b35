"""Rounding errors of long sums, against what float64 says: they may not grow with the length of the line."""

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType
from unity.ir.interpret import run
from unity.script import parse

HALF_ULP = 6e-8
"""Relative error of one rounding to float32."""


def _compiled(call: str, dims: str):
    symbols = "".join([f"        {d} = T.int64()\n" for d in dims.split(", ") if d.isalpha()])
    text = f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({dims},), "float32")):
{symbols}        with R.dataflow():
            gv = {call}
            R.output(gv)
        return gv
"""
    return unity.VirtualMachine(unity.compile(parse(text)))["main"]


def _uniform(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype="float32")


@pytest.mark.parametrize(("shape", "axis"), [((6, 9000), 1), ((9000, 6), 0), ((50000,), 0)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running(name: str, shape: tuple[int, ...], axis: int) -> None:
    x = _uniform(shape)
    fn = {"cumsum": np.cumsum, "cumprod": np.cumprod}[name]
    x = x * np.float32(0.001) + np.float32(0.9995) if name == "cumprod" else x
    exact = fn(x.astype("float64"), axis=axis)
    made = _compiled(f"R.{name}(x, axis={axis})", ", ".join([str(d) for d in shape]))(x).numpy()
    np.testing.assert_allclose(made, exact, rtol=2 * HALF_ULP, atol=2 * HALF_ULP)


SUMS = [
    ("R.sum(x)", "300000", (300000,)),
    ("R.sum(x)", "n", (300000,)),
    ("R.sum(x, axis=[1])", "3, n", (3, 100000)),
    ("R.sum(x, axis=[0])", "n, 24", (60000, 24)),
    ("R.sum(x, axis=[0])", "60000, 520", (60000, 520)),
    ("R.sum(x, axis=[0])", "60000, 16", (60000, 16)),
    ("R.sum(x, axis=[0, 2])", "40, 3, 3000", (40, 3, 3000)),
    ("R.sum(x, axis=[0, 2])", "n, 3, m", (40, 3, 3000)),
    ("R.sum(x, axis=[1, 2])", "3, n, 8", (3, 20000, 8)),  # lines shorter than a vector
    ("R.variance(x, axis=[0])", "n, 24", (60000, 24)),
    (
        "R.mean(R.multiply(R.subtract(x, R.const(0.25, 'float32')), R.subtract(x, R.const(0.25, 'float32'))))",
        "400000",
        (400000,),
    ),
]


@pytest.mark.parametrize(("call", "dims", "shape"), SUMS, ids=[f"{c}-{d}" for c, d, _ in SUMS])
def test_reduced(call: str, dims: str, shape: tuple[int, ...]) -> None:
    """Running sums of all elements in float32 would be wrong by many times as much."""
    x = _uniform(shape)
    wide = x.astype("float64")
    axis = tuple([int(d) for d in call.partition("[")[2].partition("]")[0].split(",") if d]) or None
    exact = {"sum": np.sum, "var": np.var, "mea": lambda v, axis: np.mean((v - 0.25) ** 2)}[call[2:5]](wide, axis=axis)
    made = _compiled(call.replace("'", '"'), dims)(x).numpy()
    np.testing.assert_allclose(made, exact, rtol=2.5 * HALF_ULP)


def test_sum_of_infinities() -> None:
    """Totals of chunks may be infinite."""
    x = np.full((2000, 16), 1e38, "float32")
    made = _compiled("R.sum(x, axis=[0])", "2000, 16")(x).numpy()
    np.testing.assert_array_equal(made, np.full(16, np.inf, "float32"))


ROUNDED_ONCE = [
    ("R.variance(x, axis=[1])", "8, 3000", np.var), ("R.std(x, axis=[0])", "n, 40", np.std), ("R.variance(x)", "n", np.var),
    ("R.prod(x, axis=[1])", "8, 3000", np.prod), ("R.prod(x, axis=[0])", "3000, n", np.prod), ("R.prod(x)", "n", np.prod),
]  # fmt: skip


@pytest.mark.parametrize(("call", "dims", "exact"), ROUNDED_ONCE, ids=[f"{c}-{d}" for c, d, _ in ROUNDED_ONCE])
def test_rounded_once(call: str, dims: str, exact) -> None:
    """Variances about a mean 100,000 times the spread, and products whose rounding errors would add up."""
    x = np.random.default_rng(1).standard_normal(_sizes(dims)).astype("float32")
    x = x * np.float32(1e-3) + 1 if "prod" in call else x + np.float32(1e5)
    axis = int(call[-3]) if "axis" in call else None
    made = _compiled(call, dims)(x).numpy()
    np.testing.assert_allclose(made, exact(x.astype("float64"), axis=axis), rtol=2 * HALF_ULP)


def _sizes(dims: str) -> list[int]:
    return [int(d) if d.isdigit() else {0: 3000, 1: 7}[n] for n, d in enumerate(dims.split(", "))]


NARROW = [
    "R.sum(x)", "R.mean(x)", "R.variance(x)", "R.prod(x)", "R.cumsum(x, axis=1)", "R.collapse_sum_to(x, (1, 1))", "R.matmul(x, y)",
    'R.einsum((x, y), "ij,jk->ik")', "R.nn.log_softmax(x)", "R.nn.conv1d(v, v)", "R.nn.avg_pool1d(v, pool_size=(512,))",
    "R.nn.layer_norm(x, w, w, axes=[-1])", "R.nn.rms_norm(x, w, axes=[-1])", "R.image.resize2d(R.reshape(x, (1, 1, 16, 32)), (5, 7))",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float16", "bfloat16"])
def test_sums_of_narrow_floats(dtype: str) -> None:
    """In the type itself a sum of 512 stops growing, or is infinite or NaN: taken in float32, and rounded once."""
    lines = "".join([f"    o{k} = {call}\n" for k, call in enumerate(NARROW)])
    mod = parse(f"""
@R.function
def main(x: R.Tensor((1, 512), "{dtype}"), y: R.Tensor((512, 1), "{dtype}")):
    v = R.reshape(x, (1, 1, 512))
    w = R.reshape(x, (512,))
{lines}    return ({", ".join([f"o{k}" for k in range(len(NARROW))])})
""")
    x = (np.random.default_rng(0).random((1, 512)) * 0.5 + 0.25).astype(DataType(dtype).numpy)
    y = np.ascontiguousarray(x.T)
    for call, made, expected in zip(NARROW, unity.compile(mod)["main"](x, y), run(mod, None, x, y), strict=True):
        assert made.shape == expected.shape and np.asarray(made).dtype == expected.dtype == x.dtype, call
        made, expected = np.asarray(made).astype("float32"), expected.astype("float32")
        np.testing.assert_allclose(made, expected, rtol=0.26, err_msg=call)  # one step of the narrowest
        if call == "R.mean(x)":
            np.testing.assert_allclose(made, x.astype("float32").mean(), rtol=0.3)
