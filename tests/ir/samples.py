"""Small programs built by hand, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence

import unity.op  # noqa: F401 - fills the operator table
from unity.ffi.dtype import DataType
from unity.ir import (
    VOID_TYPE,
    Block,
    BlockBuilder,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    GlobalVar,
    IRModule,
    IterVar,
    PointerType,
    PrimFunc,
    Range,
    Stmt,
    Tuple,
    Var,
    op,
    prim_type,
)  # fmt: skip
from unity.ir.build import add, const, mul
from unity.ir.builder import make_call
from unity.ir.relation import tensor_type

I64 = prim_type("int64")


def i64(value: int) -> Expr:
    return const(value, "int64")


def buffer(name: str, shape: Sequence[int | Expr], dtype: str = "float32", scope: str = "global") -> Buffer:
    dims = tuple([i64(s) if isinstance(s, int) else s for s in shape])
    return Buffer(Var(name, PointerType(prim_type(dtype), scope)), DataType(dtype), dims, name=name)


def load(buf: Buffer, *indices: Expr) -> BufferLoad:
    return BufferLoad(buf, indices, prim_type(buf.dtype))


def point(*indices: Expr) -> tuple[Range, ...]:
    return tuple([Range(i, i64(1)) for i in indices])


def prim_func(body: Stmt, *buffers: Buffer, extra: Sequence[Var] = (), name: str = "f") -> PrimFunc:
    handles = [Var(b.name.lower(), prim_type("handle")) for b in buffers]
    return PrimFunc((*handles, *extra), dict(zip(handles, buffers)), body, VOID_TYPE, {"global_symbol": name})


def loop(name: str, extent: int | Expr, kind: str = "serial") -> tuple[Var, Expr, str]:
    return Var(name, I64), i64(extent) if isinstance(extent, int) else extent, kind


def nest(loops: Sequence[tuple[Var, Expr, str]], body: Stmt) -> Stmt:
    for var, extent, kind in reversed(loops):
        body = For(var, i64(0), extent, kind, body)
    return body


def matmul(kind: str = "serial", declared: bool = True) -> PrimFunc:
    """C[n, 8] = A[n, 16] @ B[16, 8] as a reduction block."""
    n = Var("n", I64)
    a, b, c = buffer("A", (n, 16)), buffer("B", (16, 8)), buffer("C", (n, 8))
    loops = [loop("i", n, kind), loop("j", 8), loop("k", 16)]
    vi, vj, vk = [Var(name, I64) for name in ("vi", "vj", "vk")]
    zero = i64(0)
    block = Block(
        (IterVar(vi, Range(zero, n), "S"), IterVar(vj, Range(zero, i64(8)), "S"), IterVar(vk, Range(zero, i64(16)), "R")),
        (BufferRegion(a, point(vi, vk)), BufferRegion(b, point(vk, vj))) if declared else None,
        (BufferRegion(c, point(vi, vj)),) if declared else None,
        (), (), {}, "matmul",
        BufferStore(c, add(load(c, vi, vj), mul(load(a, vi, vk), load(b, vk, vj))), (vi, vj)),
        BufferStore(c, const(0.0, "float32"), (vi, vj)),
    )  # fmt: skip
    realize = BlockRealize(tuple([var for var, _, _ in loops]), const(True), block)
    return prim_func(nest(loops, realize), a, b, c, name="matmul")


def matmul_module() -> IRModule:
    """A graph function that calls the tensor program."""
    m = Var("m", I64)
    x, w = Var("x", tensor_type((m, i64(16)), "float32")), Var("w", tensor_type((i64(16), i64(8)), "float32"))
    bb = BlockBuilder(IRModule({"matmul": matmul()}, {}, {}))
    with bb.function("main", [x, w]):
        with bb.dataflow():
            out = tensor_type((m, i64(8)), "float32")
            y = bb.emit_output(make_call(op("R.call_dps"), (GlobalVar("matmul"), Tuple((x, w))), ty_args=(out,)))
        bb.emit_func_output(y)
    return bb.get()
