"""Stand-ins for the compiler rooms in the tests of the VM: tensor programs written by hand in LLVM IR, and their callers."""

from __future__ import annotations

import numpy as np

from unity.ffi.abi import BufferParam, KernelSignature, SymbolSource, linkage_ir
from unity.ffi.machine_code.llvm import CompileOptions, compile_ir
from unity.ffi.targets.processor import host_features, host_triple
from unity.ffi.tensor import Tensor
from unity.ir.build import const
from unity.ir.expr import (
    BindingBlock,
    Call,
    Constant,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    op,
)
from unity.ir.function import Function
from unity.ir.module import module
from unity.ir.relation import tensor_type
from unity.ir.types import OBJECT, FuncType, TupleType, prim_type
from unity.vm.compiler.module import compile_module
from unity.vm.executable.executable import Executable

I64 = prim_type("int64")
RELU = """
define i32 @relu(ptr %x, ptr %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %done
body:
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %b = fcmp olt float %v, 0.0
  %r = select i1 %b, float 0.0, float %v
  %q = getelementptr float, ptr %y, i64 %i
  store float %r, ptr %q
  %j = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
define i32 @add(ptr %x, ptr %z, ptr %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %done
body:
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %p2 = getelementptr float, ptr %z, i64 %i
  %v2 = load float, ptr %p2
  %r = fadd float %v, %v2
  %q = getelementptr float, ptr %y, i64 %i
  store float %r, ptr %q
  %j = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
define i32 @positive(ptr %x, ptr %y) {
  %v = load float, ptr %x
  %b = fcmp ogt float %v, 0.0
  %c = zext i1 %b to i8
  store i8 %c, ptr %y
  ret i32 0
}
define i32 @refuse(ptr %x) {
  ret i32 1
}
define i32 @matmul(ptr %x, ptr %w, ptr %y, i64 %n, i64 %k, i64 %m) {
entry:
  br label %li
li:
  %i = phi i64 [ 0, %entry ], [ %i2, %ldone ]
  %gi = icmp slt i64 %i, %n
  br i1 %gi, label %lj, label %done
lj:
  %j = phi i64 [ 0, %li ], [ %j2, %lkdone ]
  %gj = icmp slt i64 %j, %m
  br i1 %gj, label %lk, label %ldone
lk:
  %q = phi i64 [ 0, %lj ], [ %q2, %lkbody ]
  %s = phi float [ 0.0, %lj ], [ %s2, %lkbody ]
  %gk = icmp slt i64 %q, %k
  br i1 %gk, label %lkbody, label %lkdone
lkbody:
  %a1 = mul i64 %i, %k
  %a2 = add i64 %a1, %q
  %ap = getelementptr float, ptr %x, i64 %a2
  %av = load float, ptr %ap
  %b1 = mul i64 %q, %m
  %b2 = add i64 %b1, %j
  %bp = getelementptr float, ptr %w, i64 %b2
  %bv = load float, ptr %bp
  %pr = fmul float %av, %bv
  %s2 = fadd float %s, %pr
  %q2 = add i64 %q, 1
  br label %lk
lkdone:
  %c1 = mul i64 %i, %m
  %c2 = add i64 %c1, %j
  %cp = getelementptr float, ptr %y, i64 %c2
  store float %s, ptr %cp
  %j2 = add i64 %j, 1
  br label %lj
ldone:
  %i2 = add i64 %i, 1
  br label %li
done:
  ret i32 0
}
"""
N, K, M = ("sym", 0), ("sym", 1), ("sym", 2)


def buffer(name, *shape, dtype="float32", written=False):
    return BufferParam(name, dtype, shape, (), written)


SIGNATURES = {
    "relu": KernelSignature("relu", (buffer("x", N), buffer("y", N, written=True)), (SymbolSource("n", 0, 0),)),
    "add": KernelSignature(
        "add", (buffer("x", N), buffer("z", N), buffer("y", N, written=True)), (SymbolSource("n", 0, 0),)
    ),
    "positive": KernelSignature("positive", (buffer("x"), buffer("y", dtype="bool", written=True))),
    "refuse": KernelSignature("refuse", (buffer("x", N),), (), ("the value is refused",)),
    "matmul": KernelSignature(
        "matmul",
        (buffer("x", N, K), buffer("w", K, M), buffer("y", N, M, written=True)),
        (SymbolSource("n", 0, 0), SymbolSource("k", 0, 1), SymbolSource("m", 1, 1)),
    ),
}
SIGNATURES["refuse"] = KernelSignature(
    "refuse", (buffer("x", N),), (SymbolSource("n", 0, 0),), ("the value is refused",)
)
RELU = RELU.replace("@refuse(ptr %x)", "@refuse(ptr %x, i64 %n)")


def sym(name):
    return Var(name, I64)


def ten(*shape, dtype="float32"):
    return tensor_type([const(d, "int64") if isinstance(d, int) else d for d in shape], dtype)


def var(name, *shape, dtype="float32"):
    return Var(name, ten(*shape, dtype=dtype))


def fn(params, bindings, result, ret=None, **attrs):
    """A graph function from (var, value) pairs."""
    made = [b if isinstance(b, MatchCast) else VarBinding(*b) for b in bindings]
    body = SeqExpr((BindingBlock(tuple(made)),), result)
    return Function(tuple(params), body, ret or result.ty, False, attrs or {"global_symbol": "main"})


def dps(name, args, out):
    """call_dps of a kernel or registered function."""
    outs = out if isinstance(out, tuple) else (out,)
    callee = GlobalVar(name) if name in SIGNATURES else ExternFunc(name)
    return Call(
        op("R.call_dps"), (callee, Tuple(tuple(args))), {}, outs, outs[0] if len(outs) == 1 else TupleType(outs)
    )


def alloc(*shape, dtype="float32"):
    """R.builtin.alloc_tensor."""
    ty = ten(*shape, dtype=dtype)
    return Call(op("R.builtin.alloc_tensor"), (ty.shape,), {"dtype": dtype}, (), ty)


def storage(size):
    return Call(
        op("R.memory.alloc_storage"),
        (ShapeExpr((size if not isinstance(size, int) else const(size, "int64"),)),),
        {},
        (),
        OBJECT,
    )


def tensor_in(store, offset, *shape, dtype="float32"):
    ty = ten(*shape, dtype=dtype)
    return Call(op("R.memory.alloc_tensor"), (store, const(offset, "int64"), ty.shape), {"dtype": dtype}, (), ty)


def run_kernel(name, *args):
    return Call(GlobalVar(name), tuple(args), {}, (), TupleType(()))


def packed(name, args, ty=None):
    return Call(op("R.call_packed"), (ExternFunc(name), *args), {}, (ty,) if ty is not None else (), ty or OBJECT)


def call(name, args, ty):
    return Call(GlobalVar(name), tuple(args), {}, (), ty)


def constant(array):
    return Constant(Tensor(array), ten(*array.shape, dtype=str(array.dtype)))


_OBJECT = []


def executable(functions, **options):
    """An Executable of graph functions over the kernels above."""
    if not _OBJECT:
        names = "".join([linkage_ir(name, signature) for name, signature in SIGNATURES.items()])
        _OBJECT.append(compile_ir(RELU + names, CompileOptions(pipeline="O1")))
    named = {
        n: Function(f.params, f.body, f.ret_ty, f.pure, {"global_symbol": n} if f.attrs else {})
        for n, f in functions.items()
    }
    program = compile_module(module(named), SIGNATURES)
    return Executable(program, {"kernels": _OBJECT[0]}, host_triple(), host_features(), options=options)


def two_layers():
    """main(x: (n, 4), w: (4, m), b: (m,)) = relu applied to rows flattened: here relu(add(b, b)) and x @ w."""
    n, m = sym("n"), sym("m")
    x, w, b = var("x", n, 4), var("w", 4, m), var("b", m)
    y, s, r = var("y", n, m), var("s", m), var("r", m)
    body = [(y, dps("matmul", [x, w], y.ty)), (s, dps("add", [b, b], s.ty)), (r, dps("relu", [s], r.ty))]
    return fn([x, w, b], body, Tuple((y, r)))


__all__ = [name for name in dir() if not name.startswith("__")]
assert FuncType and If and TupleGetItem and np
