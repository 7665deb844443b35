"""Random well-typed modules, made from IR nodes (not from text), for the print-read property."""

from __future__ import annotations

import random

import numpy as np

from unity.ffi.dtype import DataType
from unity.ffi.tensor import Tensor
from unity.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    OBJECT,
    VOID_TYPE,
    Add,
    AllocBuffer,
    And,
    AssertStmt,
    Bind,
    BindingBlock,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    Constant,
    DataflowBlock,
    Evaluate,
    Expr,
    ExternFunc,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    Function,
    GlobalVar,
    If,
    IfThenElse,
    IntImm,
    IRModule,
    IterVar,
    Let,
    MatchCast,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PointerType,
    PrimFunc,
    PrimType,
    Ramp,
    Range,
    Select,
    SeqExpr,
    ShapeExpr,
    Stmt,
    StringImm,
    Sub,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    VarBinding,
    While,
    build as b,
    op,
    prim_type,
    seq,
)  # fmt: skip
from unity.ir.scalar import Div

I64, I32, F32, F64, U8, BOOL = [prim_type(n) for n in ("int64", "int32", "float32", "float64", "uint8", "bool")]
HANDLE = prim_type("handle")
NAMES = ("x", "i", "n", "A", "tmp", "lambda", "T", "main", "v_1", "x_1")


class PrimMaker:
    """One random tensor program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.vars: list[Var] = []
        self.buffers: list[Buffer] = []
        self.lets = True

    def const(self, ty: PrimType) -> Expr:
        rng = self.rng
        if ty is BOOL:
            return IntImm(rng.randint(0, 1), BOOL)
        if ty.dtype.is_float:
            value = rng.choice((0.0, -0.0, 1.0, 1.5, 0.1, -3.25, 1e30, 1e-30, float("inf"), float("nan")))
            return FloatImm(b.round_float(value, ty.dtype), ty)
        low = 0 if ty is U8 else -4
        return IntImm(rng.choice((low, 0, 1, 2, 7, 127)), ty)

    def expr(self, ty: PrimType, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            known = [v for v in self.vars if v.ty is ty]
            loads = [x for x in self.buffers if prim_type(x.dtype) is ty]
            if loads and depth >= 0 and rng.random() < 0.4:
                return self.load(rng.choice(loads), depth)
            if known and rng.random() < 0.7:
                return rng.choice(known)
            return self.const(ty)
        pick = rng.random()
        if pick < 0.08:
            source = rng.choice([t for t in (I64, I32, F32, BOOL) if t is not ty])
            return Cast(self.expr(source, depth - 1), ty)
        if pick < 0.14:
            return Select(self.expr(BOOL, depth - 1), self.expr(ty, depth - 1), self.expr(ty, depth - 1), ty)
        if pick < 0.2:
            return Call(
                op("T.if_then_else"),
                (self.expr(BOOL, depth - 1), self.expr(ty, depth - 1), self.expr(ty, depth - 1)),
                {},
                (),
                ty,
            )
        if pick < 0.24 and self.lets:
            value_ty = rng.choice((I64, F32))
            var, value = Var(rng.choice(NAMES), value_ty), self.expr(value_ty, depth - 1)
            self.vars.append(var)
            body = self.expr(ty, depth - 1)
            self.vars.remove(var)
            return Let(var, value, body)
        if ty is BOOL:
            return self.condition(depth)
        a, c = self.expr(ty, depth - 1), self.expr(ty, depth - 1)
        if ty.dtype.is_float:
            if pick < 0.4:
                return Call(op(rng.choice(("T.exp", "T.sqrt", "T.tanh"))), (a,), {}, (), ty)
            if pick < 0.45:
                return Call(op("T.pow"), (a, c), {}, (), ty)
            if pick < 0.5:
                return Call(op("T.call_extern"), (StringImm('f"x'), a), {}, (), ty)
            return rng.choice((Add, Sub, Mul, Div, Min, Max))(a, c, ty)
        if pick < 0.35:
            name = rng.choice(("T.bitwise_and", "T.bitwise_xor", "T.shift_left"))
            return Call(op(name), (a, c), {}, (), ty)
        return rng.choice((Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max))(a, c, ty)

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        pick = rng.random()
        if pick < 0.2:
            return Not(self.expr(BOOL, depth - 1), BOOL)
        if pick < 0.5:
            return rng.choice((And, Or))(self.expr(BOOL, depth - 1), self.expr(BOOL, depth - 1), BOOL)
        ty = rng.choice((I64, I32, F32))
        return rng.choice((EQ, NE, LT, LE, GT, GE))(self.expr(ty, depth - 1), self.expr(ty, depth - 1), BOOL)

    def load(self, buffer: Buffer, depth: int) -> BufferLoad:
        return BufferLoad(buffer, tuple([self.expr(I64, depth - 1) for _ in buffer.shape]), prim_type(buffer.dtype))

    def buffer(self, symbols: list[Var], scope: str = "global") -> Buffer:
        rng = self.rng
        ty = rng.choice((F32, F32, I32, I64, U8, BOOL, F64))
        dims: list[Expr] = []
        for _ in range(rng.randint(0, 3)):
            dims.append(rng.choice(symbols) if symbols and rng.random() < 0.4 else IntImm(rng.randint(1, 9), I64))
        strides: tuple[Expr, ...] = ()
        if dims and rng.random() < 0.1:
            strides = tuple([IntImm(rng.randint(1, 4), I64) for _ in dims])
        offset = IntImm(0, I64) if rng.random() < 0.1 else None
        name = rng.choice(NAMES)
        return Buffer(
            Var(name, PointerType(ty, scope)), ty.dtype, tuple(dims), strides, offset, name, rng.choice((64, 64, 16))
        )

    def store(self) -> Stmt:
        buffer = self.rng.choice(self.buffers)
        ty = prim_type(buffer.dtype)
        if buffer.shape and self.rng.random() < 0.1 and ty is not BOOL:
            lanes = 4
            index = Ramp(self.expr(I64, 1), IntImm(1, I64), lanes, prim_type("int64x4"))
            first = tuple([self.expr(I64, 1) for _ in buffer.shape[:-1]])
            return BufferStore(
                buffer, Broadcast(self.expr(ty, 1), lanes, prim_type(ty.dtype.with_lanes(lanes))), (*first, index)
            )
        return BufferStore(buffer, self.expr(ty, 3), tuple([self.expr(I64, 2) for _ in buffer.shape]))

    def region(self) -> BufferRegion:
        buffer = self.rng.choice(self.buffers)
        ranges = []
        for _ in buffer.shape:
            low = self.expr(I64, 2)
            extent = self.rng.choice(
                (IntImm(1, I64), IntImm(4, I64), self.expr(I64, 1), Sub(self.expr(I64, 1), low, I64))
            )
            ranges.append(Range(low, extent))
        return BufferRegion(buffer, tuple(ranges))

    def stmt(self, depth: int, loops: list[tuple[Var, Expr]]) -> Stmt:
        rng = self.rng
        pick = rng.random()
        if depth <= 0 or pick < 0.25:
            return self.store()
        if pick < 0.5:
            return self.loop(depth, loops)
        if pick < 0.65:
            return self.block(depth, loops)
        if pick < 0.72:
            other = self.body(depth - 1, loops) if rng.random() < 0.5 else None
            return IfThenElse(self.expr(BOOL, 2), self.body(depth - 1, loops), other)
        if pick < 0.76:
            return While(self.expr(BOOL, 2), self.body(depth - 1, loops))
        if pick < 0.8:
            return AssertStmt(self.expr(BOOL, 2), "must\nhold", rng.choice(("RuntimeError", "ValueError")))
        if pick < 0.84:
            return Evaluate(self.expr(rng.choice((I32, F32)), 2))
        return self.body(depth - 1, loops)

    def loop(self, depth: int, loops: list[tuple[Var, Expr]]) -> Stmt:
        rng = self.rng
        ty = rng.choice((I64, I64, I32))
        var = Var(rng.choice(NAMES), ty)
        self.lets = False  # bounds are shared with the domains of axes; a variable is bound once
        low: Expr = IntImm(0, ty) if rng.random() < 0.8 else self.expr(ty, 1)
        extent: Expr = IntImm(rng.randint(1, 8), ty) if rng.random() < 0.6 else self.expr(ty, 1)
        self.lets = True
        kind = rng.choice(("serial", "serial", "serial", "parallel", "unrolled", "vectorized", "thread_binding"))
        notes = {"hint": 3, "name": "x"} if rng.random() < 0.1 else None
        step = IntImm(2, ty) if kind == "serial" and rng.random() < 0.1 else None
        self.vars.append(var)
        body = self.body(depth - 1, [*loops, (var, low, extent)])  # type: ignore[list-item]
        self.vars.remove(var)
        return For(var, low, extent, kind, body, "threadIdx.x" if kind == "thread_binding" else None, notes, step)

    def block(self, depth: int, loops: list[tuple[Var, Expr]]) -> Stmt:
        rng = self.rng
        axes, values = [], []
        for _ in range(rng.randint(0, 3)):
            if loops and rng.random() < 0.6:
                loop, low, extent = rng.choice(loops)  # type: ignore[misc]
                dom, value, ty = Range(low, extent), loop, loop.ty
            else:
                dom, value, ty = Range(IntImm(0, I64), IntImm(rng.randint(1, 9), I64)), self.expr(I64, 2), I64
            axes.append(IterVar(Var(rng.choice(NAMES), ty), dom, rng.choice("SSR")))
            values.append(value)
        predicate: Expr = IntImm(1, BOOL) if rng.random() < 0.7 else self.expr(BOOL, 2)
        self.vars += [a.var for a in axes]
        regions = [
            tuple([self.region() for _ in range(rng.randint(0, 2))]) if rng.random() < 0.4 else None for _ in "rw"
        ]
        count = len(self.buffers)
        allocated = tuple([self.buffer([], "shared") for _ in range(rng.randint(0, 1))])
        self.buffers += allocated
        init = self.store() if rng.random() < 0.3 else None
        notes = {"tiling": "SSR", "deep": {"list": (1, 2.5, None, True)}} if rng.random() < 0.2 else {}
        made = Block(tuple(axes), regions[0], regions[1], allocated, (), notes, rng.choice(("b", "", "update")),
                     self.body(depth - 1, loops), init)  # fmt: skip
        del self.buffers[count:]
        self.vars = [v for v in self.vars if v not in [a.var for a in axes]]
        return BlockRealize(tuple(values), predicate, made)

    def body(self, depth: int, loops: list[tuple[Var, Expr]]) -> Stmt:
        rng = self.rng
        stmts: list[Stmt] = []
        count_vars, count_buffers = len(self.vars), len(self.buffers)
        for _ in range(rng.randint(1, 3)):
            pick = rng.random()
            if pick < 0.1:
                ty = rng.choice((I64, F32, I32))
                var = Var(rng.choice(NAMES), ty)
                stmts.append(Bind(var, self.expr(ty, 2)))
                self.vars.append(var)
            elif pick < 0.2:
                made = self.buffer([], "local")
                stmts.append(AllocBuffer(made))
                self.buffers.append(made)
            else:
                stmts.append(self.stmt(depth, loops))
        del self.vars[count_vars:]
        del self.buffers[count_buffers:]
        return seq(*stmts)

    def function(self, name: str, public: bool) -> PrimFunc:
        rng = self.rng
        symbols = [Var(rng.choice(NAMES), I64) for _ in range(rng.randint(0, 2))]
        params: list[Var] = []
        buffer_map = {}
        bound: list[Var] = []
        for _ in range(rng.randint(1, 3)):
            param, made = Var(rng.choice(NAMES), HANDLE), self.buffer(symbols)
            bound += [d for d in made.shape if isinstance(d, Var)]
            params.append(param)
            buffer_map[param] = made
        self.buffers = list(buffer_map.values())
        scalar = Var(rng.choice(NAMES), rng.choice((I64, F32, I32)))
        params.append(scalar)
        self.vars = [scalar, *dict.fromkeys(bound)]
        attrs: dict[str, object] = {"global_symbol": name} if public else {}
        if rng.random() < 0.2:
            attrs["tir.noalias"] = True
        return PrimFunc(tuple(params), buffer_map, self.body(3, []), VOID_TYPE, attrs)


class GraphMaker:
    """One random graph function over float32 tensors of one symbolic shape."""

    def __init__(self, rng: random.Random, kernel: str) -> None:
        self.rng = rng
        self.kernel = kernel
        self.n = Var("n", I64)
        self.ty = self.tensor(self.n, IntImm(4, I64))
        self.known: list[Var] = []
        self.tuples: list[Var] = []

    def tensor(self, *dims: Expr) -> TensorType:
        return TensorType(ShapeExpr(dims), DataType("float32"), len(dims))

    def value(self, flow: bool) -> tuple[Expr, object]:
        rng = self.rng
        a, c = rng.choice(self.known), rng.choice(self.known)
        pick = rng.random()
        if pick < 0.3:
            return Call(op(rng.choice(("R.add", "R.multiply", "R.subtract"))), (a, c), {}, (), self.ty), self.ty
        if pick < 0.45:
            return Call(op(rng.choice(("R.exp", "R.nn.relu", "R.negative"))), (a,), {}, (), self.ty), self.ty
        if pick < 0.55:
            return Call(op("R.call_dps"), (GlobalVar(self.kernel), Tuple((a, c))), {}, (self.ty,), self.ty), self.ty
        if pick < 0.62:
            pair = (self.ty, self.ty)
            call = Call(
                op("R.call_dps"), (ExternFunc("my.f"), Tuple((a,)), ShapeExpr((self.n,))), {}, pair, TupleType(pair)
            )
            return call, TupleType(pair)
        if pick < 0.68:
            data = np.array([[rng.choice((0.1, -0.0, 2.0, float("inf"))) for _ in range(4)]], "float32")
            fixed = self.tensor(IntImm(1, I64), IntImm(4, I64))
            return Constant(Tensor(data), fixed), fixed
        if pick < 0.74:
            tuple_value = Tuple((a, Tuple((c,)), ShapeExpr((self.n, IntImm(3, I64)))))
            return tuple_value, tuple_value.ty
        if pick < 0.8:
            shape = ShapeExpr((Add(self.n, IntImm(1, I64), I64), IntImm(2, I64)))
            return shape, shape.ty
        if pick < 0.85:
            return Mul(self.n, IntImm(2, I64), I64), I64
        if pick < 0.92 and not flow:
            return Call(op("R.call_packed"), (ExternFunc("p.q"), a, StringImm("s")), {}, (self.ty,), self.ty), self.ty
        if self.tuples:
            return TupleGetItem(rng.choice(self.tuples), rng.randint(0, 1)), self.ty
        pair_value = Tuple((a, c))
        return pair_value, pair_value.ty

    def bindings(self, count: int, flow: bool, depth: int) -> list[VarBinding | MatchCast]:
        made: list[VarBinding | MatchCast] = []
        for _ in range(count):
            name = self.rng.choice((*NAMES, "lv", "gv"))
            dataflow = flow and self.rng.random() < 0.6
            if not flow and depth > 0 and self.rng.random() < 0.15:
                cond = Call(op("R.call_packed"), (ExternFunc("cond"),), {}, (self.bool_type(),), self.bool_type())
                flag = Var("c", self.bool_type())
                made.append(VarBinding(flag, cond))
                value: Expr = If(flag, self.branch(depth - 1), self.branch(depth - 1), self.ty)
                ty: object = self.ty
            elif depth == 2 and self.rng.random() < 0.1:
                var = Var(name, self.ty, dataflow=dataflow)
                made.append(MatchCast(var, self.rng.choice(self.known), self.ty))
                self.known.append(var)
                continue
            else:
                value, ty = self.value(flow)
            var = Var(name, ty, dataflow=dataflow)  # type: ignore[arg-type]
            made.append(VarBinding(var, value))
            if ty is self.ty:
                self.known.append(var)
            elif isinstance(ty, TupleType) and len(ty.fields) == 2:
                self.tuples.append(var)
        return made

    def bool_type(self) -> TensorType:
        return TensorType(ShapeExpr(()), DataType("bool"), 0)

    def branch(self, depth: int) -> SeqExpr:
        count, tuples = len(self.known), len(self.tuples)
        made = self.bindings(self.rng.randint(0, 2), False, depth)
        body = self.rng.choice(self.known)
        if made and self.rng.random() < 0.7:
            last = Var("y", self.ty)
            made.append(VarBinding(last, Call(op("R.add"), (body, body), {}, (), self.ty)))
            body = last
        del self.known[count:]
        del self.tuples[tuples:]
        return SeqExpr((BindingBlock(tuple(made)),) if made else (), body)

    def function(self, name: str, public: bool) -> Function:
        rng = self.rng
        params = tuple([Var(rng.choice(NAMES), self.ty) for _ in range(rng.randint(1, 3))])
        self.known = list(params)
        blocks: list[BindingBlock] = []
        for _ in range(rng.randint(0, 3)):
            flow = rng.random() < 0.5
            if not flow and blocks and type(blocks[-1]) is BindingBlock:
                continue
            made = self.bindings(rng.randint(1, 5), flow, 2)
            blocks.append(DataflowBlock(tuple(made)) if flow else BindingBlock(tuple(made)))
            self.known = [v for v in self.known if not v.dataflow]
            self.tuples = [v for v in self.tuples if not v.dataflow]
        attrs: dict[str, object] = {"global_symbol": name} if public else {}
        if rng.random() < 0.2:
            attrs["num_input"] = 1
        return Function(params, SeqExpr(tuple(blocks), rng.choice(self.known)), self.ty, False, attrs)


def random_module(seed: int) -> IRModule:
    """A module of one to three functions of both levels; the same seed gives the same module."""
    rng = random.Random(seed)
    kernel = rng.choice(("kernel", "x", "tmp"))
    functions = {kernel: PrimMaker(rng).function(kernel, rng.random() < 0.8)}
    if rng.random() < 0.7:
        functions["main"] = GraphMaker(rng, kernel).function("main", rng.random() < 0.8)  # type: ignore[assignment]
    return IRModule(dict(functions), {"version": 1} if rng.random() < 0.1 else {}, {}, "Module")


__all__ = ["OBJECT", "random_module"]
