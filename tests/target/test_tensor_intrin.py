"""Tensor intrinsics: in every pair that is shipped, description and implementation compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import unity
from unity.ir import build as b
from unity.ir.buffer import Buffer
from unity.ir.expr import Var
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.ir.stmt import AllocBuffer, For, Stmt, seq
from unity.ir.types import VOID_TYPE, PointerType, prim_type
from unity.ir.verifier.verifier import verify
from unity.ir.walk import substitute
from unity.script import parse
from unity.support.errors import VerifyError
from unity.target.gpu_check import GpuReport, check_gpu
from unity.target.tensor_intrin import TensorIntrin, get_wmma_intrin_group

NAMES = list(TensorIntrin.names())


def get(name: str) -> TensorIntrin:
    found = TensorIntrin.get(name)
    assert found is not None
    return found


def buffer(name: str, shape: Sequence[int], dtype: str, scope: str) -> Buffer:
    data = Var(name, PointerType(prim_type(dtype), scope))
    extents = tuple([b.const(n, "int64") for n in shape])
    return Buffer(data, prim_type(dtype).dtype, extents, name=name)


def at(func: PrimFunc, *buffers: Buffer) -> Stmt:
    """The body with actual buffers for the parameters (offset 0, rows side by side)."""
    mapping: dict[Any, Any] = {}
    for param, actual in zip(func.params, buffers):
        formal = func.buffer_map[param]
        mapping |= {formal: actual, formal.data: actual.data}
        if isinstance(formal.elem_offset, Var):
            mapping[formal.elem_offset] = b.const(0, "int64")
        if formal.strides and isinstance(formal.strides[0], Var):
            mapping[formal.strides[0]] = actual.shape[-1]
    return substitute(func.body, mapping)  # type: ignore[no-any-return]


def kernel(params: list[Buffer], own: list[Buffer], body: list[Stmt], threads: int = 32) -> PrimFunc:
    inner: Stmt = seq(*[AllocBuffer(x) for x in own], *body)
    thread = b.index_var("lane", "int32")
    if threads:
        inner = For(thread, b.const(0, "int32"), b.const(threads, "int32"), "thread_binding", inner, "threadIdx.x")
    handles = [Var(f"p{k}", prim_type("handle")) for k in range(len(params))]
    func = PrimFunc(tuple(handles), dict(zip(handles, params)), inner, VOID_TYPE, {"global_symbol": "main"})
    verify(IRModule({"main": func}, {}, {}))
    return func


def spread(target: Buffer, source: Buffer) -> Stmt:
    """Copy a matrix, each of 32 threads some elements; then a barrier."""
    shape = [int(e.value) for e in target.shape]  # type: ignore[attr-defined]
    text = f"""
@T.prim_func
def f(S: T.Buffer({tuple(shape)}, "{source.dtype.name}"), D: T.Buffer({tuple(shape)}, "{source.dtype.name}")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for q in range({-(-shape[0] * shape[1] // 32)}):
            D[(q * 32 + tx) // {shape[1]}, (q * 32 + tx) % {shape[1]}] = S[(q * 32 + tx) // {shape[1]}, (q * 32 + tx) % {shape[1]}]
        T.tvm_storage_sync("shared")
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return at(func, source, target)


def matrices(in_dtype: str, out_dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, y = [rng.integers(-4, 5, (16, 16)).astype(in_dtype) for _ in range(2)]  # sums are exact in every type
    return x, y, np.zeros((16, 16), out_dtype)


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_is_well_formed(name: str) -> None:
    pair = get(name)
    assert pair.name == name and get(name) is pair
    for func in (pair.desc, pair.impl):
        assert parse(func.script()).script() == func.script()


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.parametrize("types", [("float16", "float32"), ("float16", "float16"), ("int8", "int32")])
@pytest.mark.parametrize("trans", [False, True])
def test_wmma_products(types: tuple[str, str], trans: bool, scope: str) -> None:
    group = get_wmma_intrin_group(scope, "global", *types, trans)
    x, y, expected = matrices(*types)
    expected[:] = x.astype("int64") @ (y.T if trans else y).astype("int64")

    def product(side: str) -> tuple[np.ndarray, GpuReport]:
        A, B, C = [buffer(n, (16, 16), t, "global") for n, t in zip("ABC", (types[0], types[0], types[1]))]
        AS, BS = [buffer(n, (16, 16), types[0], scope) for n in ("AS", "BS")]
        fa, fb = buffer("fa", (16, 16), types[0], "wmma.matrix_a"), buffer("fb", (16, 16), types[0], "wmma.matrix_b")
        fc = buffer("fc", (16, 16), types[1], "wmma.accumulator")
        step = {key: getattr(get(name), side) for key, name in group.items()}
        body = [
            spread(AS, A), spread(BS, B), at(step["init"], fc), at(step["load_a"], AS, fa), at(step["load_b"], BS, fb),
            at(step["compute"], fa, fb, fc), at(step["store"], fc, C),
        ]  # fmt: skip
        out = np.zeros((16, 16), types[1])
        report = check_gpu(kernel([A, B, C], [AS, BS, fa, fb, fc], body), x, y, out, traffic=False)
        return out, report

    done, report = product("impl")
    if scope == "shared":
        described, _ = product("desc")
        np.testing.assert_array_equal(described, expected)
    np.testing.assert_array_equal(done, expected)
    assert report.ok, str(report)


@pytest.mark.parametrize("total", ["f32", "f16"])
@pytest.mark.parametrize("scope", ["shared", "shared_dyn"])
def test_mma_sync_with_ldmatrix(total: str, scope: str) -> None:
    wide = {"f32": "float32", "f16": "float16"}[total]
    x, y, expected = matrices("float16", wide)
    expected[:] = x.astype("int64") @ y.astype("int64")
    names = [
        f"mma_fill_16x16_{total}", f"mma_ldmatrix_f16_a_{scope}", f"mma_ldmatrix_f16_b_{scope}", f"mma_f16f16{total}",
        f"mma_store_16x16_{total}_global",
    ]  # fmt: skip

    def product(sides: Sequence[str]) -> tuple[np.ndarray, GpuReport]:
        A, B, C = [buffer(n, (16, 16), t, "global") for n, t in zip("ABC", ("float16", "float16", wide))]
        AS, BS = [buffer(n, (16, 16), "float16", scope.replace("_", ".")) for n in ("AS", "BS")]
        wa, wb, wc = [buffer(n, (32, 8), t, "warp") for n, t in zip(("wa", "wb", "wc"), ("float16", "float16", wide))]
        fill, load_a, load_b, mma, store = [getattr(get(n), side) for n, side in zip(names, sides)]
        body = [
            spread(AS, A), spread(BS, B), at(fill, wc), at(load_a, AS, wa), at(load_b, BS, wb), at(mma, wa, wb, wc),
            at(store, wc, C),
        ]  # fmt: skip
        out = np.zeros((16, 16), wide)
        report = check_gpu(kernel([A, B, C], [AS, BS, wa, wb, wc], body), x, y, out, traffic=False)
        return out, report

    done, report = product(["impl"] * 5)
    np.testing.assert_array_equal(done, expected)
    assert report.ok, str(report)
    for described in (
        range(5) if (total, scope) == ("f32", "shared") else ()
    ):  # a description in the place of its implementation
        mixed, _ = product(["desc" if k == described else "impl" for k in range(5)])
        np.testing.assert_array_equal(mixed, expected, err_msg=names[described])


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("dp4a")])
def test_dp4a(name: str) -> None:
    pair = get(name)
    types = [pair.desc.buffer_map[p].dtype.name for p in pair.desc.params]
    rng = np.random.default_rng(1)
    x, y = [rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, 4).astype(t) for t in types[:2]]
    expected = np.array([7 + int(x.astype("int64") @ y.astype("int64"))]).astype(types[2])
    for func in (pair.desc, pair.impl):
        for threads in (0, 1):
            A, B, C = [buffer(n, (s,), t, "global") for n, s, t in zip("ABC", (4, 4, 1), types)]
            out = np.array([7], types[2])
            run(kernel([A, B, C], [], [at(func, A, B, C)], threads), None, x, y, out)
            np.testing.assert_array_equal(out, expected)


def bytes_and_floats(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    if name.startswith("axpy"):
        return [rng.standard_normal(s).astype("float32") for s in (1, 16, 16)]
    full = [np.full(4, 255, "uint8"), np.full((16, 4), -128, "int8"), np.full(16, 5, "int32")]
    some = [
        rng.integers(0, 256, 4).astype("uint8"),
        rng.integers(-128, 128, (16, 4)).astype("int8"),
        np.arange(16).astype("int32"),
    ]
    return [np.concatenate([f[:2], s[2:]]) for f, s in zip(full, some)]


def on_processor(func: PrimFunc, arrays: list[np.ndarray]) -> PrimFunc:
    own = [buffer(n, a.shape, a.dtype.name, "global") for n, a in zip("ABC", arrays)]
    return kernel(own, [], [at(func, *own)], 0)


@pytest.mark.parametrize("name", ["dot_16x4_vnni", "dot_16x4_avx512", "axpy_16_f32_avx512"])
def test_vector_instructions(name: str) -> None:
    features = unity.Target("llvm").features
    pair, arrays = get(name), bytes_and_floats(name)
    expected = arrays[2].copy()
    run(on_processor(pair.desc, arrays), None, arrays[0], arrays[1], expected)
    if name.startswith("axpy"):
        found = arrays[2].copy()
        run(on_processor(pair.impl, arrays), None, arrays[0], arrays[1], found)
        np.testing.assert_array_equal(found, expected)
    needed = {"dot_16x4_vnni": "avx512vnni", "dot_16x4_avx512": "avx512bw"}.get(name, "avx512f")
    if needed not in features:
        pytest.skip(f"the processor has no {needed}")
    func = on_processor(pair.impl, arrays)
    found = arrays[2].copy()
    unity.VirtualMachine(unity.compile(IRModule({"main": func}, {}, {})))["main"](arrays[0], arrays[1], found)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# ---- the registry


PLAIN = """
@T.prim_func
def f(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (16,), "float32")
    C = T.match_buffer(c, (16,), "float32")
    with T.block("root"):
        T.reads(A[0:16])
        T.writes(C[0:16])
        for i in range(16):
            with T.block("copy"):
                vi = T.axis.spatial(16, i)
                C[vi] = A[vi]
"""


def test_registering() -> None:
    func = parse(PLAIN)
    made = TensorIntrin.register("test_registering", func, func)
    assert get("test_registering") is made
    with pytest.raises(VerifyError, match="E381"):
        TensorIntrin.register("test_registering", func, func)
    assert TensorIntrin.register("test_registering", func, func, override=True) is not made
    with pytest.raises(VerifyError, match="E381"):
        TensorIntrin.register_maker("test_registering", lambda: (func, func))
    assert TensorIntrin.get("test_nothing", allow_missing=True) is None
    with pytest.raises(VerifyError, match="E380"):
        TensorIntrin.get("wmma_nothing")


@pytest.mark.parametrize("old,new,code", [
    ('(16,), "float32")\n    C', '(16,), "float16")\n    C', "E382"), ('c, (16,), "float32"', 'c, (32,), "float32"', "E382"),
    ('c, (16,), "float32"', 'c, (16,), "float32", scope="shared"', "E382"), ("c: T.handle", "c: T.handle, n: T.int32", "E382"),
    ("        T.reads(A[0:16])\n        T.writes(C[0:16])\n", "", "E383"),
])  # fmt: skip
def test_pairs_that_are_none(old: str, new: str, code: str) -> None:
    assert old in PLAIN
    text = PLAIN.replace(old, new)
    if "float16" in new:
        text = text.replace("C[vi] = A[vi]", 'C[vi] = T.Cast("float32", A[vi])')
    with pytest.raises(VerifyError) as caught:
        TensorIntrin.register(f"test_{code}", parse(PLAIN), parse(text))
    assert caught.value.code == code
    assert TensorIntrin.get(f"test_{code}", allow_missing=True) is None


def test_groups() -> None:
    group = get_wmma_intrin_group("shared.dyn", "shared", "float16", "float32", True)
    assert group["load_b"] == "wmma_load_16x16x16_f16_b_trans_shared_dyn" and set(group.values()) <= set(NAMES)
    with pytest.raises(KeyError):
        get_wmma_intrin_group("shared", "shared", "int8", "float32", False)
    with pytest.raises(KeyError):
        get_wmma_intrin_group("local", "shared", "int8", "int32", False)
