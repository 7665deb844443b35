"""Default schedules for devices with threads: which rule takes what, results at sizes that fill no block, and memory accesses that
are coalesced and free of bank conflicts where sizes are those of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_programs import graph_module

import unity
from unity.ir.stmt import For
from unity.ir.walk import collect
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.gpu.rules import GPU_RULES
from unity.transform.infra.backend import Machine
from unity.transform.relax.pipeline import GRAPH_PIPELINE

PRODUCT = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, e: T.handle):
    T.func_attr({{"tir.noalias": True}})
    h, n, m, k = T.int64(), T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, ({h}, {n}, {k}), "{dtype}"); B = T.match_buffer(b, ({h}, {right}), "{dtype}")
    E = T.match_buffer(e, ({m},), "{dtype}"); C = T.match_buffer(c, ({h}, {n}, {m}), "{dtype}")
    S = T.alloc_buffer(({h}, {n}, {m}), "{dtype}")
    for g, i, j, r in T.grid({h}, {n}, {m}, {k}):
        with T.block("S"):
            vh, vi, vj, vr = T.axis.remap("SSSR", [g, i, j, r])
            with T.init():
                S[vh, vi, vj] = T.{dtype}(0)
            S[vh, vi, vj] = S[vh, vi, vj] + A[vh, vi, vr] * B[vh, {index}]
    for g, i, j in T.grid({h}, {n}, {m}):
        with T.block("C"):
            vh, vi, vj = T.axis.remap("SSS", [g, i, j])
            C[vh, vi, vj] = T.max(S[vh, vi, vj] + E[vj], T.{dtype}(0))
"""


def product(n: Any, m: Any, k: Any, turned: bool, dtype: str = "float32", h: Any = 2) -> Any:
    right, index = (f"{m}, {k}", "vj, vr") if turned else (f"{k}, {m}", "vr, vj")
    return parse(PRODUCT.format(n=n, m=m, k=k, right=right, index=index, dtype=dtype, h=h))


def checked(fn: Any, *arrays: np.ndarray, traffic: bool = False) -> tuple[Any, str]:
    found = schedule_function("main", fn, set(), Machine(), GPU_RULES)
    assert found is not None
    report = unity.check_gpu(found.func, *arrays, pipeline=GPU_PIPELINE, traffic=traffic)
    report.raise_if_failed()
    return report, found.reason


def clean(report: Any, across: str = "") -> None:
    """``across``: the buffer into which a copy transposes: lines are read whole then, and a vector of it is in four banks alone."""
    assert report.sites
    assert not [site for site in report.bank_conflicts if (site.buffer, site.kind) != (across, "store")], str(report)
    assert not report.uncoalesced, str(report)


@pytest.mark.parametrize(
    "sizes,symbols,turned",
    [
        (sizes, symbols, (i + j) % 2 == 1)
        for i, sizes in enumerate([(33, 70, 50), (5, 132, 36)])
        for j, symbols in enumerate(["", "n", "nmk", "hn", "hnmk"])
    ],
)  # all sizes with all symbols, either in both layouts
def test_products_of_any_size(sizes: tuple[int, int, int], symbols: str, turned: bool) -> None:
    given = {name: name if name in symbols else size for name, size in zip("nmkh", (*sizes, 2))}
    fn = product(**given, turned=turned)
    n, m, k = sizes
    rng = np.random.default_rng(n)
    a, b, e = [rng.standard_normal(s).astype("float32") for s in ((2, n, k), (2, k, m), (m,))]
    c = np.full((2, n, m), np.nan, "float32")
    report, reason = checked(fn, a, np.ascontiguousarray(b.swapaxes(1, 2)) if turned else b, c, e)
    assert ("in tiles of" if n > 8 or "n" in symbols else "5 rows") in reason and report.launches == 1
    np.testing.assert_allclose(c, np.maximum(a @ b + e, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "dtype,turned", [("int8", True), ("float16", False), ("float32", True), ("float64", False), ("float64", True)]
)
def test_tiles_of_every_type_fit_shared_memory(dtype: str, turned: bool) -> None:
    """Those of sizes that are not known are the largest; a block has 48 KiB without asking, which lowering checks."""
    a, b, e = np.ones((2, 3, 5), dtype), np.ones((2, 5, 4), dtype), np.ones(4, dtype)
    c = np.zeros((2, 3, 4), dtype)
    fn = product("n", "m", "k", turned, dtype)
    _, reason = checked(fn, a, np.ascontiguousarray(b.swapaxes(1, 2)) if turned else b, c, e)
    assert "in tiles of" in reason and (c == 6).all()


@pytest.mark.parametrize("turned", [False, True])
def test_traffic_of_products(turned: bool) -> None:
    a, b = np.ones((2, 128, 64), "float32"), np.ones((2, 64, 128), "float32")
    c, e = np.zeros((2, 128, 128), "float32"), np.zeros(128, "float32")
    report, _ = checked(product(128, 128, 64, turned), a, b.reshape(2, 128, 64) if turned else b, c, e, traffic=True)
    assert (c == 64).all()
    clean(report, "S_right" if turned else "")


SUM = """
@T.prim_func
def main(A: T.Buffer(({rows}, {length}), "float32"), Y: T.Buffer(({rows}, {length}), "float32")):
    T.func_attr({{"tir.noalias": True}})
    M = T.alloc_buffer(({result},))
    for i, k in T.grid({result}, {steps}):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1000)
            M[vi] = T.max(M[vi], A[{place}])
    for i, j in T.grid({result}, {steps}):
        with T.block("Y"):
            vi, vk = T.axis.remap("SS", [i, j])
            Y[{place}] = T.exp(A[{place}] - M[vi])
"""


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("shape", [(4, 256), (3, 4096), (96, 64), (5, 100), (5, 99)])
def test_rows(shape: tuple[int, int], across: bool) -> None:
    """What follows a reduction is computed with it, along rows and across them."""
    rows, length = shape
    result, steps, place = (length, rows, "vk, vi") if across else (rows, length, "vi, vk")
    fn = parse(SUM.format(rows=rows, length=length, result=result, steps=steps, place=place))
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    y = np.zeros_like(a)
    report, reason = checked(fn, a, y, traffic=True)
    assert "M, Y in rows" in reason and report.launches == 1
    np.testing.assert_allclose(y, np.exp(a - a.max(int(not across), keepdims=True)), rtol=1e-5)
    if rows * length % 64 == 0:
        clean(report)


@pytest.mark.parametrize("rows", ["n", 6])
@pytest.mark.parametrize(("length", "dtype", "lanes"), [(96, "float32", 4), (256, "float16", 8), (99, "float32", 1)])
def test_rows_in_vectors(length: int, dtype: str, lanes: int, rows: Any) -> None:
    """16 bytes at once where rows consist of such, also for a symbolic number of them."""
    mod = graph_module(NORM, x=f'{(rows, length)!r}, "{dtype}"', w=f'({length},), "{dtype}"')
    with unity.Target("cuda"):
        (fn,) = GRAPH_PIPELINE(mod).prim_funcs().values()
    found = schedule_function("main", fn, set(), Machine(), GPU_RULES)
    assert found is not None
    wide = [loop.extent.value for loop in collect(found.func.body, For) if loop.kind == "vectorized"]
    assert wide == ([] if lanes == 1 else [lanes, lanes])  # the sum's, and what follows
    x, w = [np.random.default_rng(1).standard_normal(shape).astype(dtype) for shape in ((6, length), length)]
    y = np.zeros_like(x)
    checked(fn, x, w, y)
    wanted = x / np.sqrt((x.astype("float32") ** 2).mean(1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(y, wanted, rtol=1e-5 if dtype == "float32" else 2e-3, atol=1e-5)


CHAIN = """
@T.prim_func
def main(A: T.Buffer({shape}, "{dtype}"), Y: T.Buffer({shape}, "{dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for i, j in T.grid{shape}:
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = A[vi, vj] + A[vi, vj]
"""


@pytest.mark.parametrize(
    ("shape", "dtype", "lanes"), [((512, 128), "float32", 4), ((300, 49 * 4), "float16", 8), ((63, 33), "float32", 1)]
)
def test_elements_in_vectors(shape: tuple[int, int], dtype: str, lanes: int) -> None:
    a = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype) / 4
    y = np.zeros_like(a)
    report, reason = checked(parse(CHAIN.format(shape=shape, dtype=dtype)), a, y, traffic=True)
    assert ("threads of" in reason) == (lanes > 1) and (lanes == 1 or f"of {lanes}" in reason)
    np.testing.assert_array_equal(y, a + a)
    clean(report)


TURNED = """
@T.prim_func
def main(X: T.Buffer((3, {n}, {m}), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), Y: T.Buffer((3, {m}, {n}), "{dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for h, i, j in T.grid(3, {m}, {n}):
        with T.block("Y"):
            vh, vi, vj = T.axis.remap("SSS", [h, i, j])
            Y[vh, vi, vj] = X[vh, vj, vi] + B[vj]
"""


@pytest.mark.parametrize(
    ("n", "m", "dtype"), [(64, 96, "float32"), (50, 33, "float32"), (64, 64, "float16"), (40, 70, "int8")]
)
def test_transposes(n: int, m: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (3, n, m)).astype(dtype)
    b, y = np.arange(n).astype(dtype), np.zeros((3, m, n), dtype)
    report, reason = checked(parse(TURNED.format(n=n, m=m, dtype=dtype)), x, b, y, traffic=True)
    assert "transposed" in reason
    np.testing.assert_array_equal(y, x.swapaxes(1, 2) + b)
    if n % 32 == 0:
        clean(report)


def test_long_sums_go_in_two_steps() -> None:
    text = SUM.format(rows=1, length=1 << 18, result=1, steps=1 << 18, place="vi, vk")
    a = np.random.default_rng(0).standard_normal((1, 1 << 18)).astype("float32")
    y = np.zeros_like(a)
    report, reason = checked(parse(text), a, y)
    assert "pieces" in reason and report.launches == 3
    np.testing.assert_allclose(y, np.exp(a - a.max()), rtol=1e-5)


NORM = "R.nn.rms_norm(x, w, axes=[-1])"
POOL = "pool_size=(3, 3), strides=(2, 2), padding=(1, 1)"


def windows(expression: str, *shape: Any) -> Any:
    """The tensor program of a pooling or a depthwise convolution."""
    weight = f"({shape[1]}, 1, 3, 3)" if isinstance(shape[1], int) else '("c", 1, 3, 3)'
    with unity.Target("cuda"):
        mod = GRAPH_PIPELINE(graph_module(expression, x=f'{shape!r}, "float32"', w=f'{weight}, "float32"'))
    (fn,) = mod.prim_funcs().values()
    return fn


@pytest.mark.parametrize("shape", [("n", 3, "h", "w"), ("n", 3, 20, 33), (1, 3, 19, 33), (400, 64, 10, 33)], ids=str)
@pytest.mark.parametrize("what", ["max", "mean", "depthwise"])
def test_windows(what: str, shape: tuple[Any, ...]) -> None:
    """A thread reads overlapping windows once, with the border around them, and computes what follows; for any sizes."""
    expression, stride = {
        "max": (f"R.nn.max_pool2d(x, {POOL})", 2),
        "mean": (f"R.nn.avg_pool2d(x, {POOL})", 2),
        "depthwise": ("R.nn.relu(R.nn.conv2d(x, w, padding=(1, 1), groups=3))", 1),
    }[what]
    fn = windows(expression.replace("groups=3", f"groups={shape[1]}"), *shape)
    if shape[0] == 400:  # as many cells as a device has threads for: not run here
        found = schedule_function("main", fn, set(), Machine(), GPU_RULES)
        assert found is not None and "in windows, 5 for each thread" in found.reason
        return
    for sizes in [(2, 19, 33), (1, 1, 1)] if "h" in shape else [(1, *shape[2:])]:
        x = np.random.default_rng(0).standard_normal((sizes[0], 3, *sizes[1:])).astype("float32")
        w = np.random.default_rng(1).standard_normal((3, 1, 3, 3)).astype("float32")
        around = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf if what == "max" else 0)
        seen = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3))[:, :, ::stride, ::stride]
        inside = np.pad(np.ones(sizes[1:], "float32"), 1)
        counts = np.lib.stride_tricks.sliding_window_view(inside, (3, 3))[::stride, ::stride].sum((2, 3))
        expected = {
            "max": lambda: seen.max((4, 5)),
            "mean": lambda: seen.sum((4, 5)) / counts,
            "depthwise": lambda: np.maximum(np.einsum("nchwij,cij->nchw", seen, w[:, 0]), 0),
        }[what]()
        y = np.full(expected.shape, np.nan, "float32")
        report, reason = checked(fn, *[x, w, y] if what == "depthwise" else [x, y])
        assert "in windows" in reason and ("one for" in reason) == (shape[0] == 1) and report.launches == 1
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
