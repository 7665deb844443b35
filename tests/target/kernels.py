"""Small tensor programs built by hand, compiled and called through ctypes. Used by the tests of code generation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
from lowering import LOOPS

from unity.ffi.abi import BufferParam, KernelSignature
from unity.ffi.calls.kernel_calls import BRIDGE, BRIDGE_ADDRESS
from unity.ffi.dtype import DataType, from_numpy
from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.pool import ensure_pool, pool_symbols
from unity.ffi.targets.target import Target
from unity.ir.buffer import Buffer, Range
from unity.ir.build import cast, const
from unity.ir.expr import Var
from unity.ir.function import PrimFunc
from unity.ir.scalar import BufferLoad, IterVar
from unity.ir.stmt import Block, BlockRealize, BufferStore, For, Stmt
from unity.ir.types import VOID_TYPE, Expr, PointerType, PrimType, Type, prim_type
from unity.target.cpu.codegen import KernelLibrary, build_kernels
from unity.transform.tir.pipeline import lower_prim_funcs

I64 = prim_type("int64")
TARGET = Target("llvm")


def i64(value: int | Expr) -> Expr:
    return value if isinstance(value, Expr) else const(value, "int64")


def var(name: str, dtype: str = "int64") -> Var:
    return Var(name, prim_type(dtype))


def buffer(name: str, shape: Sequence[int | Expr], dtype: str = "float32", **options: object) -> Buffer:
    data = Var(name, PointerType(prim_type(dtype), str(options.pop("scope", "global"))))
    return Buffer(data, DataType(dtype), tuple([i64(s) for s in shape]), name=name, **options)  # type: ignore[arg-type]


def load(buf: Buffer, *indices: int | Expr) -> BufferLoad:
    return BufferLoad(buf, tuple([i64(i) for i in indices]), prim_type(buf.dtype))


def store(buf: Buffer, value: Expr, *indices: int | Expr) -> BufferStore:
    return BufferStore(buf, value, tuple([i64(i) for i in indices]))


def loop(v: Var, extent: int | Expr, body: Stmt, kind: str = "serial", **options: object) -> For:
    assert isinstance(v.ty, PrimType)
    extent = cast(i64(extent), v.ty.dtype)
    return For(v, const(0, v.ty.dtype), extent, kind, body, **options)  # type: ignore[arg-type]


def prim_func(params: Sequence[Buffer | Var], body: Stmt, ret: Type = VOID_TYPE, **attrs: object) -> PrimFunc:
    """A function whose parameters are buffers (by handle) and scalars, in order."""
    variables = [Var(p.name.lower(), prim_type("handle")) if isinstance(p, Buffer) else p for p in params]
    buffers = {v: p for v, p in zip(variables, params) if isinstance(p, Buffer)}
    return PrimFunc(tuple(variables), buffers, body, ret, dict(attrs))


def block(
    loops: Sequence[tuple[Var, int | Expr, str]],
    make: Callable[..., Stmt],
    init: Callable[..., Stmt] | None = None,
    name: str = "b",
) -> Stmt:
    """A nest of serial loops over one block; ``loops`` are (loop variable, extent, iterator kind)."""
    iterators = [Var("v" + v.name, v.ty) for v, _, _ in loops]
    made = Block(
        tuple([IterVar(it, Range(i64(0), i64(extent)), kind) for it, (_, extent, kind) in zip(iterators, loops)]),
        None, None, (), (), {}, name, make(*iterators), init(*iterators) if init else None,
    )  # fmt: skip
    stmt: Stmt = BlockRealize(tuple([v for v, _, _ in loops]), const(True), made)
    for v, extent, _ in reversed(loops):
        stmt = loop(v, extent, stmt)
    return stmt


class KernelError(Exception):
    """A kernel returned a failure status."""


_CTYPES = {
    "bool": ctypes.c_uint8, "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32, "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float, "float64": ctypes.c_double, "handle": ctypes.c_void_p, "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16,
}  # fmt: skip


class Loaded:
    """Compiled functions of one module."""

    def __init__(self, functions: dict[str, PrimFunc], lower: bool = True, target: Target = TARGET) -> None:
        ensure_pool(2)
        self.lowered = lower_prim_funcs(functions, LOOPS) if lower else functions
        self.library: KernelLibrary = build_kernels(self.lowered, target)
        self.engine = Engine({**pool_symbols(), BRIDGE: BRIDGE_ADDRESS})
        self.engine.add_object(self.library.object)

    def __call__(self, name: str, *args: object) -> object:
        """Call a kernel; arrays stand for buffers. Returns the result value, raises KernelError for a failure status."""
        signature: KernelSignature = self.library.signatures[name]
        kinds: list[type] = []
        values: list[object] = []
        for param, arg in zip(signature.params, args, strict=True):
            if isinstance(param, BufferParam):
                assert isinstance(arg, np.ndarray) and from_numpy(arg.dtype).name == param.dtype, (param, arg.dtype)
                kinds.append(ctypes.c_void_p)
                values.append(arg.ctypes.data)
            else:
                kinds.append(_CTYPES[param.dtype])
                values.append(arg)
        for symbol in signature.symbols:
            source = args[symbol.param]
            kinds.append(ctypes.c_int64)
            if symbol.field == "value":
                values.append(source)
            elif symbol.field == "shape":
                values.append(source.shape[symbol.axis])  # type: ignore[attr-defined]
            else:
                values.append(source.strides[symbol.axis] // source.itemsize)  # type: ignore[attr-defined]
        result = _CTYPES[signature.result](0) if signature.result else None
        if result is not None:
            kinds.append(ctypes.c_void_p)
            values.append(ctypes.addressof(result))
        address = self.engine.address(self.library.symbols[name])
        status = ctypes.PYFUNCTYPE(ctypes.c_int32, *kinds)(address)(*values)
        if status != 0:
            raise KernelError(signature.messages[status - 1])
        return None if result is None else result.value


def run(func: PrimFunc, *args: object, lower: bool = True) -> object:
    """Compile a function and call it once."""
    return Loaded({"main": func}, lower)("main", *args)
