"""Every data type at every level of x86-64: conversions to all others, arithmetic, comparison, mathematics, reductions.

The reference interpreter is the judge. A level that this machine lacks is compiled for it and linked, which needs no run: no call
that LLVM makes up may be left that nobody answers.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from kernels import Loaded
from lowering import LOOPS
from test_truncation import VALUES

from unity.ffi.dtype import DataType, dtype_names
from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.pool import pool_symbols
from unity.ffi.targets.processor import host_processor
from unity.ffi.targets.target import Target
from unity.ir.constant import round_float
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.script import parse
from unity.target.cpu.codegen import build_kernels
from unity.transform.tir.pipeline import lower_prim_funcs
from unity.vm.build import build
from unity.vm.virtual_machine import VirtualMachine

LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "this machine"]
SIZE, LANES = 64, 8
FLOATS = [name for name in dtype_names() if DataType(name).is_float]
COMMON = {"add": "{a} + {c}", "multiply": "{a} * {c}", "floordiv": "{a} // {c}", "floormod": "{a} % {c}",
          "maximum": "T.max({a}, {c})", "minimum": "T.min({a}, {c})"}  # fmt: skip
OF_FLOATS = {"divide": "{a} / {c}", "exp": "T.exp({a})", "sqrt": "T.sqrt({a})", "tanh": "T.tanh({a})",
             "floor": "T.floor({a})", "round": "T.round({a})", "nearbyint": "T.nearbyint({a})"}  # fmt: skip
OF_INTEGERS = {"truncdiv": "T.truncdiv({a}, {c})", "shift": "T.shift_right({a}, T.Cast({dtype!r}, 3))",
               "fixed_point": "T.q_multiply_shift({a}, {c}, T.Cast({dtype!r}, 3), T.Cast({dtype!r}, 1))"}  # fmt: skip
OF_BOOLS = {"land": "T.And({a}, {c})", "lor": "T.Or({a}, {c})"}
ROUNDED = {"exp": 2, "tanh": 4}
"""Results that may differ from the reference by units in the last place."""


def target_of(level: str) -> Target:
    return Target("llvm" if level == LEVELS[-1] else f"llvm -mcpu={level}")


def lacked(level: str) -> bool:
    """True for a level whose code this machine cannot run."""
    return not target_of(level).processor.needed <= host_processor().features


def link_only(data: bytes) -> None:
    """Link an object, which need not be for this machine."""
    Engine({**pool_symbols()}).add_object(data).link()


@cache
def program(dtype: str) -> tuple[IRModule, dict[str, str]]:
    """One program with an output for every operation on a data type, and the outputs' types."""
    kind = DataType(dtype)
    own = OF_BOOLS if kind.is_bool else {**COMMON, **(OF_FLOATS if kind.is_float else OF_INTEGERS)}
    results = {f"to_{other}": (other, f'T.Cast("{other}", {{a}})') for other in dtype_names() if other != dtype}
    results |= {name: (dtype, text) for name, text in own.items()}
    results |= {"less": ("bool", "{a} < {c}"), "equal": ("bool", "{a} == {c}")} if not kind.is_bool else {}
    at = f"i * {LANES} + j"
    stores = [
        f"            {name}[{at}] = {text.format(a=f'A[{at}]', c=f'C[{at}]', dtype=dtype)}"
        for name, (_, text) in results.items()
    ]
    params = "".join([f', {name}: T.Buffer(({SIZE},), "{ty}")' for name, (ty, _) in results.items()])
    zero = f'T.Cast("{dtype}", 0)'
    combine = "T.Or({0}, {1})" if kind.is_bool else "{0} + {1}"
    product = "T.And(P[r, k], P[k, q])" if kind.is_bool else "P[r, k] * P[k, q]"
    text = f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({SIZE},), "{dtype}"), C: T.Buffer(({SIZE},), "{dtype}"), P: T.Buffer((5, 5), "{dtype}"),
             total: T.Buffer((1,), "{dtype}"), product: T.Buffer((5, 5), "{dtype}"){params}):
        for i in range({SIZE // LANES}):
            for j in T.vectorized({LANES}):
    {chr(10).join(stores).replace(chr(10), chr(10) + "    ")}
        total[0] = {zero}
        for r, k in T.grid(5, 5):
            total[0] = {combine.format("total[0]", "P[r, k]")}
        for r, q in T.grid(5, 5):
            product[r, q] = {zero}
            for k in range(5):
                product[r, q] = {combine.format("product[r, q]", product)}
"""
    return parse(text), {"total": dtype, "product": dtype, **{name: ty for name, (ty, _) in results.items()}}


def operands(dtype: str) -> list[np.ndarray]:
    """Values with all extremes of the type, second operands (no integer zero), and a matrix whose sums are exact in any order."""
    kind, rng = DataType(dtype), np.random.default_rng(len(dtype))
    if kind.is_bool:
        a, c, p = rng.integers(0, 2, SIZE), rng.integers(0, 2, SIZE), rng.integers(0, 2, 25)
    elif kind.is_float:
        a, p = np.array(VALUES[-14:] + [1e-3 * v for v in range(-25, 25)])[:SIZE], rng.integers(-1, 2, 25)
        c = np.resize([3.0, -0.5, 2.5, np.inf, 0.0, 1e-3, -7.0], SIZE)
    else:
        info = np.iinfo(dtype)
        edges = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, info.max // 2 + 1]
        a = np.array([edges[k] if k < len(edges) else int(v) for k, v in enumerate(rng.integers(0, 100, SIZE))], dtype)
        c = np.resize(np.array([1, 3, 7, info.max] + ([-1, -2, info.min] if kind.is_int else [2]), dtype), SIZE)
        p = rng.integers(0, 3, 25)
    with np.errstate(all="ignore"):
        return [a.astype(kind.numpy), c.astype(kind.numpy), p.reshape(5, 5).astype(kind.numpy)]


def empty(dtype: str) -> dict[str, np.ndarray]:
    shapes = {"total": (1,), "product": (5, 5)}
    return {name: np.zeros(shapes.get(name, (SIZE,)), DataType(ty).numpy) for name, ty in program(dtype)[1].items()}


@cache
def expected(dtype: str) -> dict[str, np.ndarray]:
    outputs = empty(dtype)
    with np.errstate(all="ignore"):
        run(program(dtype)[0], "main", *operands(dtype), *outputs.values())
    return outputs


def assert_same(got: np.ndarray, want: np.ndarray, units: int, name: str) -> None:
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, name)
        return
    place = np.spacing(np.abs(want.astype("float64"))) if got.dtype == np.float64 else 0.0
    if got.dtype != np.float64 and units:
        bits = {1: 3, 2: 7, 4: 23}[got.dtype.itemsize]
        place = np.maximum(np.abs(want.astype("float64")) * 2.0**-bits, float(np.finfo("float32").tiny))
    x, y = got.astype("float64"), want.astype("float64")
    with np.errstate(invalid="ignore"):
        near = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= units * place)
    assert near.all(), (name, x[~near], y[~near])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", dtype_names())
def test_every_operation(dtype: str, level: str) -> None:
    functions = {"main": program(dtype)[0]["main"]}
    if lacked(level):
        return link_only(build_kernels(lower_prim_funcs(functions, LOOPS), target_of(level)).object)
    outputs = empty(dtype)
    Loaded(functions, target=target_of(level))("main", *operands(dtype), *outputs.values())
    for name, want in expected(dtype).items():
        assert_same(outputs[name], want, ROUNDED.get(name, 0), f"{name} of {dtype} at {level}")
    return None


NARROW = [name for name in FLOATS if DataType(name).bits < 32]


def converted(source: str, target: str, level: str, values: np.ndarray) -> np.ndarray:
    """The values converted by vectors of eight."""
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer(({len(values)},), "{source}"), B: T.Buffer(({len(values)},), "{target}")):
    for i in range({len(values) // 8}):
        for j in T.vectorized(8):
            B[i * 8 + j] = T.Cast("{target}", A[i * 8 + j])
""")
    out = np.zeros(len(values), DataType(target).numpy)
    Loaded({"main": func}, target=target_of(level))("main", values, out)
    return out


@pytest.mark.parametrize("level", ["x86-64", LEVELS[-1]])
@pytest.mark.parametrize("dtype", NARROW)
def test_conversions_of_narrow_floats(dtype: str, level: str) -> None:
    """All values widen exactly; halves between neighbours round to even, what lies beside a half to its own side."""
    if lacked(level):
        pytest.skip(f"this machine lacks {level}")
    numpy_type = DataType(dtype).numpy
    every = np.arange(1 << DataType(dtype).bits, dtype=f"u{numpy_type.itemsize}").view(numpy_type)
    for wide in ("float32", "float64"):
        np.testing.assert_array_equal(converted(dtype, wide, level, every), every.astype(wide))
        ordered = np.unique(every.astype("float64"))
        ordered = ordered[np.isfinite(ordered)][dtype == "float8_e8m0fnu" :].astype(wide)
        low, high = ordered[:-1], ordered[1:]
        half = low + (high - low) / 2
        bits = low.astype(numpy_type).view(f"u{numpy_type.itemsize}")
        up = (bits & 1 == 1) | (dtype == "float8_e8m0fnu")
        above, below = [np.nextafter(half, side, dtype=wide) for side in (np.inf, -np.inf)]
        given = np.concatenate([below, half, above])
        wanted = np.concatenate([low, np.where(up, high, low), high])
        padded = np.resize(given, (len(given) + 7) // 8 * 8)
        got = converted(wide, dtype, level, padded)[: len(given)].astype(wide)
        np.testing.assert_array_equal(got, wanted)
        assert [round_float(float(x), DataType(dtype)) for x in given[::97]] == wanted[::97].tolist()


IMPORTED = """define float @both(double %x) {
  %a = fptrunc double %x to half
  %b = fpext half %a to float
  %c = fptrunc double %x to bfloat
  %d = fpext bfloat %c to float
  %e = fadd float %b, %d
  ret float %e
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_code_that_comes_with_half_and_bfloat(level: str) -> None:
    """LLVM's intrinsics and imported IR use types for which LLVM calls functions that no C library has."""
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "bfloat16"), C: T.Buffer((64,), "float64"),
         X: T.Buffer((64,), "float16"), Y: T.Buffer((64,), "bfloat16"), Z: T.Buffer((64,), "float32")):
    with T.attr(0, "pragma_import_llvm", %r):
        for i in range(64):
            X[i] = T.call_llvm_pure_intrin("float16", "llvm.sqrt", A[i])
            Y[i] = T.call_llvm_pure_intrin("bfloat16", "llvm.sqrt", B[i])
            Z[i] = T.call_extern("float32", "both", C[i])
"""
    functions = {"main": parse(text % IMPORTED)}
    if lacked(level):
        return link_only(build_kernels(lower_prim_funcs(functions, LOOPS), target_of(level)).object)
    bfloat16, c = DataType("bfloat16").numpy, np.linspace(-3.0, 1000.0, 64)
    a, b = np.linspace(0, 1000, 64).astype("float16"), np.linspace(0, 1000, 64).astype(bfloat16)
    x, y, z = np.zeros(64, "float16"), np.zeros(64, bfloat16), np.zeros(64, "float32")
    Loaded(functions, target=target_of(level))("main", a, b, c, x, y, z)
    np.testing.assert_array_equal(x, np.sqrt(a))
    np.testing.assert_array_equal(y.astype("float32"), np.sqrt(b.astype("float32")).astype(bfloat16).astype("float32"))
    np.testing.assert_array_equal(z, c.astype("float16").astype("float32") + c.astype(bfloat16).astype("float32"))
    return None


GRAPH = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 33), "{0}"), w: R.Tensor((33, 40), "{0}")):
        y = R.matmul(x, w)
        z = R.sum(R.nn.relu(y), axis=[1])
        return (y, z)
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32"])
def test_scheduled_products(dtype: str, level: str) -> None:
    """Products and sums of whole numbers, exact in any order, under the default schedules of the level."""
    executable = build(parse(GRAPH.format(dtype)), target=target_of(level))
    if lacked(level):
        return
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 2, (7, 33)), rng.integers(0, 2, (33, 40))
    numpy_type = DataType(dtype).numpy
    y, z = VirtualMachine(executable)["main"](x.astype(numpy_type), w.astype(numpy_type))
    np.testing.assert_array_equal(y.numpy().astype("int64"), x @ w)
    whole = (x @ w).sum(1)
    if DataType(dtype).is_float:
        np.testing.assert_array_equal(z.numpy().astype("float64"), whole.astype(numpy_type).astype("float64"))
    else:
        np.testing.assert_array_equal(z.numpy(), whole.astype(z.numpy().dtype))
