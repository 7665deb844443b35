"""Print, read, print: what the printer writes reads back structurally equal and prints to the same text."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from fuzz import TIMES
from main_job import PRINTED
from random_modules import random_module

from unity.ffi.tensor import Tensor
from unity.ir import Constant, Function, IRModule, SeqExpr, first_difference
from unity.ir.build import const
from unity.ir.relation import tensor_type
from unity.script import parse
from unity.script.printer.show import script

PROGRAMS = {
    "tensor forms": """
@T.prim_func(private=True)
def f(A: T.Buffer((16, 16), "float32"), b: T.handle, n: T.int32) -> T.int32:
    m = T.int64()
    T.func_attr({"tir.noalias": True, "list": (1, 2.5, "x", None), "dict": {"k": True}})
    B = T.match_buffer(b, (m, 4), "float16", strides=(4, 1), offset_factor=4)
    C = T.alloc_const([1, 2, 3], "int32")
    D = T.decl_buffer((256,), "float32", data=A.data)
    for i in range(n):
        for j in T.serial(T.int32(2), T.int32(10), annotations={"a": 1}):
            if i < j and not (i == 3 or j == 4):
                continue
            elif i == T.int32(0):
                break
            else:
                D[0] = T.Cast("float32", C[0])
    for k in T.thread_binding(8, thread="threadIdx.x"):
        x: T.float32 = A[k, 0] * T.float32(0.1)
        A[k, 1] = T.if_then_else(k < 4, x, T.exp(x))
        A[k, T.Ramp(T.int64(0), T.int64(1), 4)] = T.Broadcast(x, 4)
    with T.launch_thread("blockIdx.x", T.int64(4)) as bx:
        assert bx < 4, "too \\"many\\""
    with T.attr(A, "pragma", 3):
        T.call_extern("void", "foo", A.data, "text")
    while D[1] < T.float32(3):
        D[1] = D[1] + T.float32(1)
    return n + 1
""",
    "blocks": """
@T.prim_func
def f(A: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 5):
        with T.block("outer"):
            vi = T.axis.spatial(16, i * 4 + j)
            vj = T.axis.reduce((2, 10), j)
            T.where(i * 4 + j < 16)
            T.reads(A[vi, 0:16], A[vi * 4:vi * 4 + 4, vj])
            T.writes()
            T.block_attr({"tiling": "SSR"})
            C = T.alloc_buffer((4,), "float32", scope="shared")
            S = T.match_buffer(A[vi:vi + 1, 0:16], (16,), "float32")
            with T.init():
                S[0] = T.float32(0)
            D = T.allocate_buffer((), "int32", scope="local")
            D[()] = 3
            S[vj] = C[0] + T.max(S[1], T.float32("-inf"))
""",
    "pointers": """
@T.prim_func
def f(A: T.Buffer((4,), "float32"), q: T.handle("float32", "shared")):
    p: T.handle("float32") = T.address_of(A[0])
    C = T.decl_buffer((4,), "float32", data=q)
    C[0] = T.float32(0)
    T.evaluate(T.tvm_access_ptr(T.type_annotation("float32"), p, T.int64(0), T.int64(4), 1))
    A.vstore([T.Ramp(T.int64(0), T.int64(1), 4)], T.Broadcast(T.float32(1), 4), predicate=T.Broadcast(T.bool(True), 4))
""",
    "symbols": """
@R.function
def f(y: R.Tensor(("k", "m"), "float32"), k: R.Prim("int64"), w: R.Tensor(("m + 1",)), s: R.Shape(ndim=2)) -> R.Tensor:
    k, m = T.int64(), T.int64()
    z: R.Tensor((k, m), "float32") = R.exp(y)
    return z
""",
    "graph forms": """
@I.ir_module
class Module:
    I.module_attrs({"device_num": 2})
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global")]})
    ext = R.ExternFunc("my.extern")

    @R.function(private=True)
    def helper(x: R.Tensor(("n",), "float32"), s: R.Shape(["n", 2])) -> R.Tensor(("n",), "float32"):
        return x

    @R.function(pure=False)
    def main(
        x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool"), t: R.Tuple(R.Tensor, R.Object),
        g: R.Callable((R.Tensor((2,), "float32"),), R.Object, False),
    ) -> R.Object:
        n = T.int64()
        R.func_attr({"num_input": 1})
        s = R.shape([n, 2])
        y: R.Tensor((n,), "float32") = helper(x, s)
        @R.function
        def inner(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            w: R.Tensor((n,), "float32") = R.add(z, y)
            return w
        if c:
            u: R.Tensor((n,), "float32") = inner(x)
            v: R.Tensor((n,), "float32") = R.multiply(u, R.const([0.5], "float32"))
        else:
            v = x
        p = R.prim_value(n + 1)
        a: R.Tensor = t[0]
        q, k = T.int64(), T.int64()
        m = R.match_cast(a, R.Tensor((q, k), "float32"))
        outs = R.call_dps("my.f", (v,), [R.Tensor((n,), "float32"), R.Tensor((2,), "int32")])
        R.call_packed("log", p, R.str("done"), ty_args=(R.Object,))
        pair = (v, (m, R.dtype("float16")))
        return pair
""",
}  # fmt: skip


def check(text_or_module: str | IRModule, verify: bool = True) -> str:
    first = parse(text_or_module, check=verify) if isinstance(text_or_module, str) else text_or_module
    text = script(first)
    ast.parse(text)
    again = parse(text, check=verify)
    assert first_difference(first, again) is None, text
    assert script(again) == text
    return text


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    check(PROGRAMS[name], verify=False)


def test_the_main_job_is_already_canonical() -> None:
    assert check(PRINTED) + "\n" == PRINTED


@pytest.mark.parametrize("start", range(0, 300 * TIMES, 100))
def test_random_modules(start: int) -> None:
    for seed in range(start, start + 100):
        check(random_module(seed), verify=False)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (200,)])
def test_constants_keep_every_bit(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    made = Tensor(np.zeros(shape, tensor_type((), dtype).dtype.numpy))  # type: ignore[union-attr]
    raw = rng.integers(0, 2 if dtype == "bool" else 256, size=made.numpy().nbytes, dtype=np.uint8)
    data = Tensor(np.frombuffer(raw.tobytes(), made.numpy().dtype).reshape(shape))
    constant = Constant(data, tensor_type([const(n, "int64") for n in shape], dtype))
    fn = Function((), SeqExpr((), constant), constant.ty, True, {"global_symbol": "main"})
    back = parse(script(fn), check=False).body.body  # type: ignore[union-attr]
    assert back.data.dtype == dtype and back.data.shape == shape
    assert back.data.numpy().tobytes() == data.numpy().tobytes()
