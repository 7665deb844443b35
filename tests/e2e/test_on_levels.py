"""What depends on the target, on every level of x86-64: default schedules, convolutions, reductions, mathematics, conversions,
quantised products, and the work that a profile counts. The reference interpreter is the judge."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from levels import LEVELS, Level
from tolerance import assert_close

import unity
from unity.arith.cost import cost_of
from unity.ffi.abi import evaluate
from unity.ffi.machine_code.llvm import assembly
from unity.ir.interpret import run
from unity.script import parse
from unity.target.cpu.codegen import build_kernels, compile_options
from unity.transform.relax.pipeline import DEFAULT_PIPELINE
from unity.transform.tir.pipeline import lower_prim_funcs

RNG = np.random.default_rng(0)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def whole(*shape: int, dtype: str = "int8") -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def graph(params: str, lines: str, **scope: np.ndarray) -> unity.IRModule:
    """A module of one graph function; arrays of ``scope`` are constants."""
    *values, last = [line.strip() for line in lines.strip().splitlines()]
    body = "\n".join([f"        {line}" for line in [*values, f"out = {last}", "R.output(out)"]])
    text = f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}\n    return out\n"
    return unity.IRModule({"main": parse(text, scope=scope)}, {}, {})


CASES: dict[str, tuple[unity.IRModule, list[list[np.ndarray]], int]] = {
    "product, weights packed at build": (
        graph(
            'x: R.Tensor(("n", 24), "float32"), b: R.Tensor((40,), "float32")',
            "y = R.add(R.matmul(x, w), b)\nR.nn.relu(y)", w=floats(24, 40),
        ),
        [[floats(n, 24), floats(40)] for n in (1, 7, 13)], 24,
    ),
    "product, packed in the program": (
        graph('x: R.Tensor((33, 20), "float32"), w: R.Tensor((100, 20), "float32")', "R.matmul(x, R.permute_dims(w))"),
        [[floats(33, 20), floats(100, 20)]], 20,
    ),
    "products of float64 and one column": (
        graph(
            'x: R.Tensor((5, 19), "float64"), w: R.Tensor((19, 9), "float64"), v: R.Tensor((9,), "float64")',
            "R.matmul(R.matmul(x, w), v)",
        ),
        [[floats(5, 19, dtype="float64"), floats(19, 9, dtype="float64"), floats(9, dtype="float64")]], 200,
    ),
    "product of bfloat16": (
        graph('x: R.Tensor((19, 34), "bfloat16")', 'R.matmul(x, w, out_dtype="float32")', w=floats(34, 33, dtype="bfloat16")),
        [[floats(19, 34, dtype="bfloat16")]], 34,
    ),
    "product of bfloat16, one column more than vectors have": (
        graph('x: R.Tensor((5, 17), "bfloat16"), w: R.Tensor((17, 65), "bfloat16")', "R.matmul(x, w)"),
        [[floats(5, 17, dtype="bfloat16"), floats(17, 65, dtype="bfloat16")]], 17,
    ),
    "product of unsigned and signed bytes": (
        graph('x: R.Tensor((19, 36), "uint8")', 'R.matmul(x, w, out_dtype="int32")', w=whole(36, 35)),
        [[whole(19, 36, dtype="uint8")]], 1,
    ),
    "product of signed bytes": (
        graph('x: R.Tensor((40, 16), "int8")', 'R.matmul(x, w, out_dtype="int32")', w=whole(16, 16)),
        [[whole(40, 16)]], 1,
    ),
    "convolution, channels last": (
        graph(
            'x: R.Tensor((1, 9, 11, 6), "float32")',
            'R.nn.relu(R.nn.conv2d(x, w, padding=1, strides=2, data_layout="NHWC", kernel_layout="HWIO"))', w=floats(3, 3, 6, 20),
        ),
        [[floats(1, 9, 11, 6)]], 54,
    ),
    "convolutions, channels first": (
        graph(
            'x: R.Tensor((2, 3, 10, 9), "float32")',
            "y = R.nn.relu(R.nn.conv2d(x, w, padding=1))\nR.nn.conv2d(y, v, padding=(0, 1), dilation=2, groups=2)",
            w=floats(18, 3, 3, 3), v=floats(16, 9, 2, 2),
        ),
        [[floats(2, 3, 10, 9)]], 1000,
    ),
    "convolution of each channel, and pooling": (
        graph(
            'x: R.Tensor((1, 20, 9, 9), "float32")',
            "y = R.nn.conv2d(x, w, padding=1, groups=20)\nR.nn.max_pool2d(y, pool_size=3, strides=2, padding=1)",
            w=floats(20, 1, 3, 3),
        ),
        [[floats(1, 20, 9, 9)]], 9,
    ),
    "reductions": (
        graph(
            'x: R.Tensor(("n", 37), "float32"), g: R.Tensor((37,), "float32")',
            "y = R.nn.layer_norm(R.nn.softmax(x), g, g, axes=[-1])\n"
            "(R.sum(y, axis=[0]), R.max(x, axis=[1]), R.variance(x, axis=[1]), R.argmax(x, axis=1), R.cumsum(x, axis=1))",
        ),
        [[floats(n, 37), floats(37)] for n in (1, 5)], 400,
    ),
    "mathematics": (
        graph(
            'x: R.Tensor((67,), "float32"), z: R.Tensor((67,), "float64")',
            "(R.exp(x), R.tanh(x), R.erf(x), R.sin(x), R.log(R.abs(z)), R.sigmoid(z), R.rsqrt(R.abs(x)), R.power(R.abs(z), z), "
            "R.floor(x), R.round(z), R.maximum(x, R.negative(x)))",
        ),
        [[3 * floats(67), 3 * floats(67, dtype="float64")]], 64,
    ),
    "conversions": (
        graph(
            'x: R.Tensor((67,), "float32"), i: R.Tensor((67,), "int8"), u: R.Tensor((67,), "uint32")',
            '(R.astype(x, "int8"), R.astype(x, "bfloat16"), R.astype(x, "float64"), R.astype(i, "float32"), R.astype(i, "int64"), '
            'R.astype(u, "float32"), R.astype(u, "uint8"), R.astype(x, "bool"), R.astype(R.astype(x, "int64"), "float64"))',
        ),
        [[np.round(30 * floats(67)), whole(67), whole(67, dtype="uint32")]], 1,
    ),
}  # fmt: skip
"""Modules, lists of arguments, and how many terms the longest sum has."""


def arrays(found: Any) -> list[np.ndarray]:
    """Results of either kind as arrays."""
    parts = found if isinstance(found, (tuple, list)) else [found]
    return [part if isinstance(part, np.ndarray) else part.numpy() for part in parts]


@cache
def interpreted(case: str) -> list[list[np.ndarray]]:
    """The results of all calls of a case, which are the same on every level."""
    mod, calls, _ = CASES[case]
    return [arrays(run(mod, "main", *args)) for args in calls]


@pytest.mark.parametrize("case", CASES)
def test_results(case: str, level: Level) -> None:
    mod, calls, terms = CASES[case]
    executable = unity.compile(mod)
    assert executable.options["target"] == level.target
    for args, expected in zip(calls, interpreted(case), strict=True):
        found = arrays(level.run(executable, *args))
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, terms)


def kernels_of(mod: unity.IRModule) -> dict[str, Any]:
    """The tensor programs of a module after the graph passes."""
    return DEFAULT_PIPELINE(mod).prim_funcs()


def test_code_uses_the_registers_of_the_level(level: Level) -> None:
    processor, target = level.processor, unity.Target(level.target)
    library = build_kernels(lower_prim_funcs(kernels_of(CASES["product, weights packed at build"][0])), target)
    text = assembly(library.ir_text, compile_options(target))
    assert ("%zmm" in text) == ("avx512f" in processor.features)
    assert ("%ymm" in text) <= ("avx" in processor.features)
    assert ("vfmadd" in text) == ("fma" in processor.features)


def test_the_schedule_is_for_the_level(
    level: Level, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    kernels_of(CASES["product, weights packed at build"][0])
    said = capsys.readouterr().err
    columns = int(said.split("tile of ")[1].split(" x ")[1].split(",")[0])
    assert columns % (level.processor.vector_bytes // 4) == 0
    kernels_of(CASES["product of unsigned and signed bytes"][0])
    assert ("vnni" in capsys.readouterr().err) == ({"avx512f", "avx512vnni"} <= level.processor.features)


PRODUCT = 'x: R.Tensor(("n", {k}), "{dtype}")'
WORK = [
    ("float32", 16, 8, "R.matmul(x, w)", 2 * 16 * 8),
    ("float32", 16, 33, "R.matmul(x, w)", 2 * 16 * 33),
    ("float32", 5, 100, "R.nn.relu(R.matmul(x, w))", 2 * 5 * 100 + 100),
    ("bfloat16", 34, 33, 'R.matmul(x, w, out_dtype="float32")', 2 * 34 * 33),
    ("float64", 7, 17, "R.matmul(x, w)", 2 * 7 * 17),
]
"""Data type, depth, columns, the graph, and operations of a row as they are written."""


@pytest.mark.parametrize(
    ("rows", "dtype", "depth", "columns", "text", "flops", "level"),
    [(rows, *work, level) for work in WORK for k, level in enumerate(LEVELS) for rows in ("n", ("1", "7")[k % 2])],
    indirect=["level"],
)
def test_work_is_that_of_the_program_as_it_was_written(
    level: Level, rows: str, dtype: str, depth: int, columns: int, text: str, flops: int
) -> None:
    """Tiles that reach beyond the last row or column, and packing, add nothing; nor do dot-product instructions take any away."""
    shape = f'("{rows}", {depth})' if rows == "n" else f"({rows}, {depth})"
    mod = graph(f'x: R.Tensor({shape}, "{dtype}")', text, w=floats(depth, columns, dtype=dtype))
    executable = unity.compile(mod)
    executable.count_work()
    ((name, (operations, moved)),) = executable.program.costs.items()
    size, out = (2, 4) if dtype == "bfloat16" else (int(dtype[-2:]) // 8,) * 2
    for n in (1, 5, 64) if rows == "n" else (int(rows),):
        assert evaluate(operations, [n]) == n * flops
        assert evaluate(moved, [n]) >= n * depth * size + n * columns * out
    if rows == "n":
        scheduled = kernels_of(mod)[name]
        read = parse(scheduled.script())
        assert ("tir.is_scheduled" in scheduled.attrs) == ("tir.work" in scheduled.attrs)
        assert read.attrs.get("tir.work") == scheduled.attrs.get("tir.work")
        assert str(cost_of(read).flops) == f"n * {flops}"
