"""Reductions through the whole default lowering, compiled: sizes around every tile, symbolic and constant, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import Loaded
from lowering import LOOPS

from unity.ffi.targets.target import Target
from unity.ir.function import PrimFunc
from unity.ir.module import IRModule
from unity.script import parse
from unity.target.cpu.codegen import build_kernels
from unity.transform.default_schedule.common.choices import choices_of
from unity.transform.tir.pipeline import lower_prim_funcs

HEADER = "from unity.script import ir as I, tir as T\n"
SIZES = (0, 1, 2, 3, 5, 6, 7, 15, 16, 17, 31, 33, 64, 65, 130)


def read(text: str) -> PrimFunc:
    found = parse(HEADER + text)
    return found["main"] if isinstance(found, IRModule) else found  # type: ignore[no-any-return]


def product(dtype: str, transposed: bool) -> str:
    shape, place = ("(m, k)", "vj, vp") if transposed else ("(k, m)", "vp, vj")
    return f"""
@T.prim_func
def main(a: T.handle, b: T.handle, e: T.handle, c: T.handle):
    n, k, m = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, k), "{dtype}")
    B = T.match_buffer(b, {shape}, "{dtype}")
    E = T.match_buffer(e, (m,), "{dtype}")
    C = T.match_buffer(c, (n, m), "{dtype}")
    Y = T.alloc_buffer((n, m), "{dtype}")
    for i, j, p in T.grid(n, m, k):
        with T.block("Y"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                Y[vi, vj] = T.{dtype}(1)
            Y[vi, vj] = Y[vi, vj] + A[vi, vp] * B[{place}]
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj] - E[vj], T.{dtype}(0))
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_symbolic_sizes(dtype: str, transposed: bool) -> None:
    loaded = Loaded({"main": read(product(dtype, transposed))})
    rng = np.random.default_rng(3)
    sizes = [(n, k, m) for n, k, m in rng.choice(SIZES, (40, 3))] + [(0, 3, 4), (3, 0, 17), (3, 4, 0), (1, 1, 1)]
    for n, k, m in sizes:
        x = rng.integers(-4, 5, (n, k)).astype(dtype)
        w = rng.integers(-4, 5, (m, k) if transposed else (k, m)).astype(dtype)
        e = rng.integers(-4, 5, (m,)).astype(dtype)
        y = np.full((n, m), 77, dtype)
        loaded("main", x, w, e, y)
        product_ = x @ (w.T if transposed else w)
        np.testing.assert_array_equal(y, np.maximum(product_ + np.array(1, dtype) - e, 0).astype(dtype), f"{n} {k} {m}")


@pytest.mark.parametrize("extent", SIZES[1:])
def test_rows_of_constant_length(extent: int) -> None:
    """Greatest value and sum of rows: NaN and infinities pass, no value beyond the end counts."""
    text = f"""
@T.prim_func
def main(A: T.Buffer((5, {extent}), "float32"), M: T.Buffer((5,), "float32"), S: T.Buffer((5,), "float32"), C: T.Buffer(({extent},), "float32")):
    for i, k in T.grid(5, {extent}):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32("-inf")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(5, {extent}):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
    for j, k in T.grid({extent}, 5):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = T.float32(0)
            C[vj] = C[vj] + A[vk, vj] * T.float32(2)
"""
    loaded = Loaded({"main": read(text)})
    a = np.random.default_rng(extent).integers(-50, -1, (5, extent)).astype("float32")
    a[1, -1], a[2, 0], a[3, extent // 2] = np.nan, np.inf, -np.inf
    m, s, c = np.zeros(5, "float32"), np.zeros(5, "float32"), np.zeros(extent, "float32")
    loaded("main", a, m, s, c)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(m, a.max(1))
        np.testing.assert_array_equal(s, a.sum(1))
        np.testing.assert_array_equal(c, a.sum(0) * 2)


def extreme(name: str, initial: float, window: tuple[int, int], columns: int) -> PrimFunc:
    """The extreme of each window of an image of six lines and so many columns more than the window has."""
    (down, across), width = window, columns + window[1] - 1
    return read(f"""
@T.prim_func
def main(X: T.Buffer(({6 + down - 1}, {width}), "float32"), Y: T.Buffer((6, {columns}), "float32")):
    for i, j, r, s in T.grid(6, {columns}, {down}, {across}):
        with T.block("Y"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                Y[vi, vj] = T.float32({initial if initial == 0 else repr(str(initial))})
            Y[vi, vj] = T.{name}(Y[vi, vj], X[vi + vr, vj + vs])
""")


@pytest.mark.parametrize(
    ("name", "initial"), [("max", -np.inf), ("max", 0.0), ("max", np.inf), ("min", np.inf), ("min", -np.inf)]
)
@pytest.mark.parametrize("window", [(1, 1), (3, 1), (1, 3), (3, 3), (2, 5), (9, 1)])
def test_extremes_of_windows(name: str, initial: float, window: tuple[int, int]) -> None:
    """Of nothing but infinities, of NaN in every place of a window, and from an initial value that counts."""
    for columns in (5, 16, 37):
        x = (
            np.random.default_rng(columns)
            .standard_normal((6 + window[0] - 1, columns + window[1] - 1))
            .astype("float32")
        )
        x[:3, :4], x[4, 3::7], y = -initial or -np.inf, np.nan, np.zeros((6, columns), "float32")
        x[:2, 2:4] = initial
        Loaded({"main": extreme(name, initial, window, columns)})("main", x, y)
        windows = np.lib.stride_tricks.sliding_window_view(x, window).reshape(6, columns, -1)
        join = np.maximum if name == "max" else np.minimum
        np.testing.assert_array_equal(y, join(join.reduce(windows, axis=-1), np.float32(initial)))


@pytest.mark.parametrize(("initial", "saved"), [(-np.inf, 1), (0.0, 0)])
@pytest.mark.parametrize("window", [(2, 1), (5, 1), (3, 3)])
def test_the_first_step_of_an_extreme_takes_the_place_of_infinity(
    initial: float, saved: int, window: tuple[int, int]
) -> None:
    target = Target("llvm -mcpu=x86-64-v4")
    with target:
        lowered = lower_prim_funcs({"main": extreme("max", initial, window, 32)}, LOOPS)
    text = build_kernels(lowered, target).ir_text
    assert text.count("= call <16 x float> @llvm.x86.avx512.mask.range") == 6 * 2 * (window[0] * window[1] - saved)


@pytest.mark.parametrize(("cpu", "window", "columns", "tile"), [
    ("x86-64-v4", (5, 1), 61, (3, 4)), ("x86-64-v4", (3, 1), 61, (6, 2)), ("x86-64-v3", (5, 1), 31, (3, 2)),
])  # fmt: skip
def test_whole_lines_of_windows(cpu: str, window: tuple[int, int], columns: int, tile: tuple[int, int]) -> None:
    """Rows and vectors of a tile: whole lines where three of them stay in registers."""
    with Target(f"llvm -mcpu={cpu}"), choices_of() as found:
        lower_prim_funcs({"main": extreme("max", -np.inf, window, columns)}, LOOPS)
    taken = {choice.name: choice.taken for choice in found}
    assert (taken["rows"], taken["vectors"]) == tile


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [7, 16, 37])
def test_windows_with_a_border(stride: int, width: int) -> None:
    outputs = (width + 2 - 3) // stride + 1
    text = f"""
@T.prim_func
def main(X: T.Buffer((3, {width}), "int32"), W: T.Buffer((4, 3, 3), "int32"), Y: T.Buffer((4, {outputs}), "int32")):
    P = T.alloc_buffer((3, {width + 2}), "int32")
    for c, i in T.grid(3, {width + 2}):
        with T.block("P"):
            vc, vi = T.axis.remap("SS", [c, i])
            P[vc, vi] = T.if_then_else(vi >= 1 and vi < {width + 1}, X[vc, vi - 1], 0)
    for f, i, c, r in T.grid(4, {outputs}, 3, 3):
        with T.block("Y"):
            vf, vi, vc, vr = T.axis.remap("SSRR", [f, i, c, r])
            with T.init():
                Y[vf, vi] = 0
            Y[vf, vi] = Y[vf, vi] + P[vc, vi * {stride} + vr] * W[vf, vc, vr]
"""
    rng = np.random.default_rng(width)
    x, w = rng.integers(-9, 9, (3, width)).astype("int32"), rng.integers(-9, 9, (4, 3, 3)).astype("int32")
    y = np.zeros((4, outputs), "int32")
    Loaded({"main": read(text)})("main", x, w, y)
    padded = np.pad(x, ((0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)[:, ::stride]
    np.testing.assert_array_equal(y, np.einsum("cir,fcr->fi", windows, w))


def test_ahead_of_time() -> None:
    """A fetch ahead, double buffers and a thread's own large memory, compiled."""
    text = """
@T.prim_func
def main(A: T.Buffer((6, 40000), "int32"), C: T.Buffer((6,), "int32"), D: T.Buffer((6, 8), "int32")):
    T.func_attr({"tir.is_scheduled": True})
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((8,), "int32")
        for i in T.parallel(6):
            with T.block("own"):
                vi = T.axis.spatial(6, i)
                L = T.alloc_buffer((40000,), "int32")
                T.evaluate(T.prefetch(T.address_of(A[vi, 0]), 0, 3, 1))
                for k in range(40000):
                    L[k] = A[vi, k] + vi
                C[vi] = L[0] + L[39999]
        for i in range(6):
            with T.block("fill"):
                vi = T.axis.spatial(6, i)
                T.block_attr({"double_buffer_scope": 0})
                for k in T.vectorized(8):
                    B[k] = A[vi, k] * 2
            with T.block("use"):
                vi = T.axis.spatial(6, i)
                for k in range(8):
                    D[vi, k] = B[7 - k] + 1
"""
    loaded = Loaded({"main": read(text)})
    assert "llvm.prefetch" in loaded.library.ir_text and loaded.library.ir_text.count("@aligned_alloc(i64 64, i64") == 1
    a = np.random.default_rng(1).integers(-99, 99, (6, 40000)).astype("int32")
    c, d = np.zeros(6, "int32"), np.zeros((6, 8), "int32")
    for _ in range(3):
        loaded("main", a, c, d)
        np.testing.assert_array_equal(c, a[:, 0] + a[:, -1] + 2 * np.arange(6))
        np.testing.assert_array_equal(d, a[:, 7::-1] * 2 + 1)


SHORT_LINES = [
    (7, 7, 1),
    (7, 7, 0),
    (14, 14, 0),
    (3, 5, 2),
    (9, 6, 0),
    (2, 40, 1),
    (7, 19, 1),
    (8, 17, 2),
    (5, 21, 1),
    (9, 3, 1),
]


@pytest.mark.parametrize("height,width,pad", SHORT_LINES)
def test_images_of_short_lines(height: int, width: int, pad: int) -> None:
    """A convolution with an epilogue over images whose lines do not fill vectors."""
    h, w, k = height + 2 * pad, width + 2 * pad, 2 * pad + 1
    text = f"""
@T.prim_func
def main(P: T.Buffer((3, {h}, {w}), "int32"), W: T.Buffer((5, 3, {k}, {k}), "int32"), R: T.Buffer((5, {height}, {width}), "int32"), Y: T.Buffer((5, {height}, {width}), "int32")):
    A = T.alloc_buffer((5, {height}, {width}), "int32")
    for f, h, w, c, r, s in T.grid(5, {height}, {width}, 3, {k}, {k}):
        with T.block("A"):
            vf, vh, vw, vc, vr, vs = T.axis.remap("SSSRRR", [f, h, w, c, r, s])
            with T.init():
                A[vf, vh, vw] = 0
            A[vf, vh, vw] = A[vf, vh, vw] + P[vc, vh + vr, vw + vs] * W[vf, vc, vr, vs]
    for f, h, w in T.grid(5, {height}, {width}):
        with T.block("Y"):
            vf, vh, vw = T.axis.remap("SSS", [f, h, w])
            Y[vf, vh, vw] = T.max(A[vf, vh, vw] + R[vf, vh, vw], 0)
"""
    rng = np.random.default_rng(height)
    p, x = rng.integers(-9, 9, (3, h, w)).astype("int32"), rng.integers(-9, 9, (5, 3, k, k)).astype("int32")
    r, y = rng.integers(-99, 99, (5, height, width)).astype("int32"), np.full((5, height, width), 7, "int32")
    loaded = Loaded({"main": read(text)})
    loaded("main", p, x, r, y)
    assert "masked.scatter" not in loaded.library.ir_text and "masked.gather" not in loaded.library.ir_text
    windows = np.lib.stride_tricks.sliding_window_view(p, (k, k), axis=(1, 2))
    np.testing.assert_array_equal(y, np.maximum(np.einsum("chwrs,fcrs->fhw", windows, x) + r, 0))


@pytest.mark.parametrize("rows,columns", [(64, 64), (65, 99), (3, 700), (640, 520)])
def test_transpositions_in_blocks(rows: int, columns: int) -> None:
    text = f"""
@T.prim_func
def main(A: T.Buffer(({rows}, {columns}), "float32"), C: T.Buffer(({columns}, {rows}), "float32")):
    for i, j in T.grid({columns}, {rows}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj, vi] * T.float32(2)
"""
    a = np.random.default_rng(rows).standard_normal((rows, columns)).astype("float32")
    c = np.zeros((columns, rows), "float32")
    Loaded({"main": read(text)})("main", a, c)
    np.testing.assert_array_equal(c, a.T * 2)


@pytest.mark.parametrize("count", [1 << 18, (1 << 18) + 5])
def test_one_long_loop_in_pieces(count: int) -> None:
    text = f"""
@T.prim_func
def main(A: T.Buffer(({count},), "float32"), C: T.Buffer(({count},), "float32")):
    for i in range({count}):
        with T.block("C"):
            vi = T.axis.spatial({count}, i)
            C[vi] = A[vi] + T.float32(1)
"""
    a, c = np.arange(count, dtype="float32"), np.zeros(count, "float32")
    loaded = Loaded({"main": read(text)})
    loaded("main", a, c)
    np.testing.assert_array_equal(c, a + 1)
    assert "unity_parallel_for" in loaded.library.ir_text
