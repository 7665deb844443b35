"""Loops with symbolic extents are shared between threads when there is enough to do, which is decided when they run."""

from __future__ import annotations

import re

import numpy as np
import pytest

import unity
from unity.ffi.targets.target import Target
from unity.script import parse
from unity.target.cpu.codegen import write_module
from unity.transform.relax.pipeline import DEFAULT_PIPELINE
from unity.transform.tir.pipeline import CPU_PIPELINE, lower_prim_funcs
from unity.vm.stages import as_module

ONE = 'x: R.Tensor(("n",), "float32")'
TWO = 'x: R.Tensor(("n", "m"), "float32")'
FIXED = 'x: R.Tensor((2048, 1024), "float32")'
SMALL = 'x: R.Tensor((20, 10), "float32")'


def module(params, body="R.exp(x)"):
    text = f"@R.function\ndef main({params}):\n    with R.dataflow():\n        y = {body}\n        R.output(y)\n    return y\n"
    return parse(text)


def code(params, body="R.exp(x)"):
    graph = DEFAULT_PIPELINE(as_module(module(params, body)))
    return write_module(lower_prim_funcs(graph.prim_funcs(), CPU_PIPELINE), Target("llvm"))[0]


@pytest.mark.parametrize("params, shared, asked", [(ONE, 1, 1), (TWO, 1, 1), (FIXED, 1, 0), (SMALL, 0, 0)])
def test_who_decides(params, shared, asked):
    text = code(params)
    assert text.count("call i32 @unity_parallel_for(") == shared
    assert text.count("fcmp olt double") == asked


@pytest.mark.parametrize(
    "rows, columns, body, chunk",
    [
        (2048, 1024, "R.exp(x)", 32),  # 64 chunks
        (100, 96, "R.exp(x)", 10),  # 10 chunks, of whole vectors
        (100, 100, "R.add(x, x)", None),  # cheaper cells: not worth it
        (300, 300, "R.add(x, x)", 15),  # 21 chunks
        (4, 100_000, "R.add(x, x)", 2),  # 25 pieces of each row
        (3, 1000, "R.exp(x)", None),
    ],
)
def test_chunks_of_constant_extents(rows, columns, body, chunk):
    text = code(f'x: R.Tensor(({rows}, {columns}), "float32")', body)
    calls = re.findall(r"call i32 @unity_parallel_for\(ptr @\S+, ptr %\S+, i64 \S+, i64 (\d+)\)", text)
    assert calls == ([] if chunk is None else [str(chunk)])


@pytest.mark.parametrize(
    "body, expected", [("R.exp(x)", np.exp), ("R.permute_dims(x)", np.transpose), ("R.add(x, x)", lambda x: x + x)]
)
def test_results_at_every_size(body, expected):
    run = unity.VirtualMachine(unity.compile(module(TWO, body)))["main"]
    before = unity.num_threads()
    unity.set_num_threads(3)
    try:
        for shape in ((0, 5), (5, 0), (1, 1), (3, 7), (1, 300_001), (300_001, 1), (511, 513), (513, 512), (2, 140_000)):
            x = np.linspace(-1, 1, shape[0] * shape[1], dtype="float32").reshape(shape)
            np.testing.assert_allclose(run(x).numpy(), expected(x), rtol=3e-7)
    finally:
        unity.set_num_threads(before)


def test_a_few_rows_of_images_are_shared_with_the_loop_inside():
    """One image of 12 channels: 12 iterations, and as many calls of the body's function as there are chunks."""
    params = 'x: R.Tensor(("n", 12, 64, 64), "float32")'
    text = code(params, "R.nn.softmax(x)")
    assert text.count("call i32 @unity_parallel_for(") == 1
    assert re.search(r"mul (nsw )?i64 %\S+, 12", text)  # iterations are n * 12
    run = unity.VirtualMachine(unity.compile(module(params, "R.nn.softmax(x)")))["main"]
    before = unity.num_threads()
    unity.set_num_threads(3)
    try:
        for n in (0, 1, 2, 9):
            x = np.linspace(-1, 1, n * 12 * 64 * 64, dtype="float32").reshape(n, 12, 64, 64)
            e = np.exp(x)
            np.testing.assert_allclose(run(x).numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)
    finally:
        unity.set_num_threads(before)


@pytest.mark.parametrize("shape", [(3, 100_003), (2, 3, 50_000), (5, 7, 4096), (2, 1, 3, 300, 300)])
@pytest.mark.parametrize(
    "body, expected", [("R.add(x, x)", lambda x: x + x), ("R.sum(x, axis=-1)", lambda x: x.sum(-1))]
)
def test_few_iterations_outside(shape, body, expected):
    run = unity.VirtualMachine(unity.compile(module(f'x: R.Tensor({shape}, "float32")', body)))["main"]
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    np.testing.assert_allclose(run(x).numpy(), expected(x.astype("float64")), rtol=1e-4, atol=1e-3)


def test_results_of_long_lines():
    run = unity.VirtualMachine(unity.compile(module(ONE)))["main"]
    for count in (0, 1, 16_383, 16_384, 16_385, 262_143, 262_144, 262_145, 700_001):
        x = np.linspace(-1, 1, count, dtype="float32")
        np.testing.assert_allclose(run(x).numpy(), np.exp(x), rtol=3e-7)


def test_inner_extents_that_depend_on_the_iteration():
    text = """
@T.prim_func
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, n), "float32")
    for i in T.parallel(n):
        for j in range(i + 1):
            A[i, j] = T.float32(1)
"""
    run = unity.VirtualMachine(unity.compile(parse(text)))["f"]
    for n in (0, 1, 9, 300):
        a = np.zeros((n, n), "float32")
        run(a)
        np.testing.assert_array_equal(a, np.tril(np.ones((n, n))))
