"""Random programs that are well typed and can be run: every index is in bounds, every read is of written memory.

``random_prim_func(rng)`` and ``random_module(rng)`` give a program with inputs. The same seed gives the same program.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from unity.ffi.dtype import DataType
from unity.ir import (
    VOID_TYPE,
    Add,
    AllocBuffer,
    AssertStmt,
    Bind,
    Block,
    BlockBuilder,
    BlockRealize,
    Break,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Cast,
    Continue,
    DeclBuffer,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    GlobalVar,
    If,
    IfThenElse,
    IRModule,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    PointerType,
    PrimFunc,
    Ramp,
    Range,
    Select,
    SeqExpr,
    ShapeExpr,
    Stmt,
    Sub,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    While,
    build as b,
    collect,
    op,
    prim_type,
    replace,
    seq,
    substitute,
)  # fmt: skip
from unity.ir.builder import join_branches, make_call
from unity.ir.expr import BindingBlock
from unity.ir.op import OPS
from unity.ir.relation import tensor_type
from unity.ir.scalar import Div
from unity.op import OPERATORS, constant

I64 = prim_type("int64")
BOOL = prim_type("bool")
INTS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16")
EXACT_MATH = ("floor", "ceil", "trunc", "abs", "sqrt")


def i64(value: int) -> Expr:
    return b.const(value, "int64")


@dataclass
class Loop:
    """A loop variable in scope with its constant extent."""

    var: Var
    extent: int


class PrimGenerator:
    """Builds one tensor program, stage by stage; each stage fills one new buffer completely."""

    def __init__(self, rng: random.Random, dtypes: tuple[str, ...], native: bool) -> None:
        self.rng = rng
        self.dtypes = dtypes
        self.native = native
        self.written: list[Buffer] = []
        self.loops: list[Loop] = []
        self.scalars: list[Var] = []
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def buffer(self, stem: str, shape: tuple[int, ...], dtype: str) -> Buffer:
        return Buffer(
            Var(self.name(stem), PointerType(prim_type(dtype))),
            DataType(dtype),
            tuple([i64(s) for s in shape]),
            name=f"{stem}{self.count}",
        )

    # ---- expressions

    def index(self, size: int) -> Expr:
        """An int64 expression in [0, size)."""
        rng = self.rng
        fitting = [x.var for x in self.loops if x.extent <= size]
        pick = rng.random()
        if fitting and pick < 0.6:
            return rng.choice(fitting)
        if self.loops and pick < 0.85:
            total = Add(rng.choice(self.loops).var, i64(rng.randint(0, 5)), I64)
            return FloorMod(total if rng.random() < 0.5 else Mul(total, i64(rng.randint(1, 3)), I64), i64(size), I64)
        return i64(rng.randrange(size))

    def load(self, dtype: str) -> Expr | None:
        known = [x for x in self.written if x.dtype.name == dtype]
        if not known:
            return None
        buf = self.rng.choice(known)
        return BufferLoad(buf, tuple([self.index(s.value) for s in buf.shape]), prim_type(dtype))

    def constant(self, dtype: str) -> Expr:
        kind = DataType(dtype)
        if kind.is_float:
            return b.const(self.rng.choice((0.0, 1.0, -1.5, 0.25, 3.0, -0.0)), dtype)
        if kind.is_bool:
            return b.const(self.rng.random() < 0.5, "bool")
        return b.const(self.rng.choice((0, 1, 2, 3, 5, 100) if kind.is_uint else (0, 1, -1, 2, -3, 100)), dtype)

    def expr(self, dtype: str, depth: int) -> Expr:
        rng = self.rng
        kind, ty = DataType(dtype), prim_type(dtype)
        if depth <= 0 or rng.random() < 0.2:
            found = self.load(dtype) if rng.random() < 0.75 else None
            named = [v for v in self.scalars if v.ty is ty]
            if dtype == "int64" and self.loops and rng.random() < 0.3:
                return rng.choice(self.loops).var
            if named and rng.random() < 0.4:
                return rng.choice(named)
            return found if found is not None else self.constant(dtype)
        if kind.is_bool:
            return self.condition(depth)
        pick = rng.random()
        if pick < 0.45:
            cls = rng.choice((Add, Sub, Mul, Min, Max))
            return cls(self.expr(dtype, depth - 1), self.expr(dtype, depth - 1), ty)
        if pick < 0.55:
            cond = self.condition(depth - 1)
            if rng.random() < 0.5:
                return Select(cond, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1), ty)
            return b.if_then_else(cond, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
        if pick < 0.65:
            source = rng.choice(
                [d for d in (*self.dtypes, "int64", "bool") if not DataType(d).is_float or kind.is_float]
            )
            return (
                b.cast(self.expr(source, depth - 1), dtype)
                if source == "bool"
                else Cast(self.expr(source, depth - 1), ty)
            )
        if pick < 0.72:
            var = Var(self.name("t"), ty)
            value = self.expr(dtype, depth - 1)
            self.scalars.append(var)
            body = self.expr(dtype, depth - 1)
            self.scalars.remove(var)
            return Let(var, value, body)
        if kind.is_float:
            if pick < 0.85:
                return b.intrinsic(rng.choice(EXACT_MATH), self.expr(dtype, depth - 1))
            return Div(self.expr(dtype, depth - 1), b.const(rng.choice((2.0, 4.0, 0.5)), dtype), ty)
        if pick < 0.82:
            return rng.choice((FloorDiv, FloorMod))(
                self.expr(dtype, depth - 1), b.const(rng.choice((1, 2, 3, 7)), dtype), ty
            )
        if pick < 0.92:
            name = rng.choice(("bitwise_and", "bitwise_or", "bitwise_xor"))
            return b.intrinsic(name, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
        return b.intrinsic(
            rng.choice(("shift_left", "shift_right")), self.expr(dtype, depth - 1), b.const(rng.randint(0, 6), dtype)
        )

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        dtype = rng.choice(self.dtypes)
        make = rng.choice((b.lt, b.le, b.gt, b.ge, b.eq, b.ne))
        first = make(self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
        pick = rng.random()
        if depth > 0 and pick < 0.2:
            return rng.choice((b.logical_and, b.logical_or))(first, self.condition(depth - 1))
        return b.logical_not(first) if pick < 0.3 else first

    # ---- statements

    def stage(self, target: Buffer) -> Stmt:
        """Statements that write every element of a buffer."""
        shape = [s.value for s in target.shape]
        pick = self.rng.random()
        if pick < 0.25:
            made = self.block_stage(target, shape)
        elif pick < 0.4:
            made = self.reduction_stage(target, shape)
        elif pick < 0.55 and shape[-1] % 4 == 0:
            made = self.vector_stage(target, shape)
        elif pick < 0.65:
            made = self.while_stage(target, shape)
        elif pick < 0.72 and len(shape) == 2:
            made = self.view_stage(target, shape)
        else:
            made = self.loop_stage(target, shape)
        self.written.append(target)
        return made

    def nest(
        self, shape: list[int], body: Any, kinds: tuple[str, ...] = ("serial", "serial", "unrolled", "parallel")
    ) -> Stmt:
        """Loops over a shape around ``body(variables)``; only the outermost may be parallel."""
        made = [Loop(Var(self.name("i"), I64), size) for size in shape]
        self.loops += made
        stmt = body(tuple([x.var for x in made]))
        for depth, x in reversed(list(enumerate(made))):
            kind = self.rng.choice(kinds)
            stmt = For(x.var, i64(0), i64(x.extent), "serial" if kind == "parallel" and depth else kind, stmt)
        del self.loops[len(self.loops) - len(made) :]
        return stmt

    def loop_stage(self, target: Buffer, shape: list[int]) -> Stmt:
        rng, dtype = self.rng, target.dtype.name

        def body(at: tuple[Expr, ...]) -> Stmt:
            store = BufferStore(target, self.expr(dtype, 3), at)
            pick = rng.random()
            if pick < 0.2:
                return IfThenElse(self.condition(2), store, BufferStore(target, self.expr(dtype, 2), at))
            if pick < 0.4:
                var = Var(self.name("s"), prim_type(dtype))
                bound = Bind(var, self.expr(dtype, 2))
                self.scalars.append(var)
                stmt = seq(bound, BufferStore(target, self.expr(dtype, 2), at))
                self.scalars.remove(var)
                return stmt
            if pick < 0.5:
                return seq(AssertStmt(b.le(i64(0), i64(1)), "holds"), store)
            return store

        return self.nest(shape, body)

    def view_stage(self, target: Buffer, shape: list[int]) -> Stmt:
        flat = Buffer(target.data, target.dtype, (i64(shape[0] * shape[1]),), (), None, self.name("flat"))

        def body(at: tuple[Expr, ...]) -> Stmt:
            return BufferStore(flat, self.expr(target.dtype.name, 2), at)

        return seq(DeclBuffer(flat), self.nest([shape[0] * shape[1]], body, ("serial",)))

    def block_stage(self, target: Buffer, shape: list[int]) -> Stmt:
        def body(at: tuple[Expr, ...]) -> Stmt:
            iters = [IterVar(Var(self.name("v"), I64), Range(i64(0), i64(s)), "S") for s in shape]
            outer, self.loops = self.loops, [Loop(x.var, s) for x, s in zip(iters, shape)]
            store = BufferStore(target, self.expr(target.dtype.name, 3), tuple([x.var for x in iters]))
            self.loops = outer
            writes = (BufferRegion(target, tuple([Range(x.var, i64(1)) for x in iters])),)
            reads = tuple([
                BufferRegion(buf, tuple([Range(i64(0), s) for s in buf.shape])) for buf in self.written
            ])  # fmt: skip
            declared = self.rng.random() < 0.5
            block = Block(
                tuple(iters),
                reads if declared else None,
                writes if declared else None,
                (),
                (),
                {},
                self.name("block"),
                store,
            )
            return BlockRealize(at, b.const(True), block)

        return self.nest(shape, body)

    def reduction_stage(self, target: Buffer, shape: list[int]) -> Stmt:
        dtype, ty = target.dtype.name, prim_type(target.dtype)
        depth = self.rng.choice((2, 3, 4))

        def body(at: tuple[Expr, ...]) -> Stmt:
            sizes = [*shape, depth]
            iters = [
                IterVar(Var(self.name("v"), I64), Range(i64(0), i64(s)), "R" if k == len(shape) else "S")
                for k, s in enumerate(sizes)
            ]
            outer, self.loops = self.loops, [Loop(x.var, s) for x, s in zip(iters, sizes)]
            cell = tuple([x.var for x in iters[:-1]])
            cls = self.rng.choice((Add, Max, Min))
            update = BufferStore(target, cls(BufferLoad(target, cell, ty), self.expr(dtype, 1), ty), cell)
            init = BufferStore(target, self.constant(dtype), cell)
            self.loops = outer
            return BlockRealize(
                at, b.const(True), Block(tuple(iters), None, None, (), (), {}, self.name("reduce"), update, init)
            )

        return self.nest([*shape, depth], body, ("serial",))

    def vector_stage(self, target: Buffer, shape: list[int]) -> Stmt:
        dtype = target.dtype.name
        ty = prim_type(DataType(dtype).with_lanes(4))
        same = [x for x in self.written if x.dtype is target.dtype and [s.value for s in x.shape] == shape]

        def body(at: tuple[Expr, ...]) -> Stmt:
            lanes = Ramp(Mul(at[-1], i64(4), I64), i64(1), 4, prim_type("int64x4"))
            value: Expr = Broadcast(self.expr(dtype, 1), 4, ty)
            if same:
                loaded = BufferLoad(self.rng.choice(same), (*at[:-1], lanes), ty)
                value = self.rng.choice((Add, Mul, Max))(loaded, value, ty)
            return BufferStore(target, value, (*at[:-1], lanes))

        return self.nest([*shape[:-1], shape[-1] // 4], body, ("serial",))

    def while_stage(self, target: Buffer, shape: list[int]) -> Stmt:
        """A counter in local memory, with an early continue or break."""
        counter = self.buffer("count", (1,), "int64")
        size = shape[0]
        cell = BufferLoad(counter, (i64(0),), I64)
        now = Var(self.name("now"), I64)
        self.loops.append(Loop(now, size))
        fill = self.nest(shape[1:], lambda at: BufferStore(target, self.expr(target.dtype.name, 2), (now, *at)), ("serial",)) \
            if len(shape) > 1 else BufferStore(target, self.expr(target.dtype.name, 2), (now,))  # fmt: skip
        self.loops.pop()
        step = BufferStore(counter, Add(now, i64(1), I64), (i64(0),))
        tail: Stmt = IfThenElse(b.eq(now, i64(size - 1)), Break()) if self.rng.random() < 0.5 else \
            IfThenElse(b.lt(now, i64(2)), Continue())  # fmt: skip
        loop = While(b.lt(cell, i64(size)), seq(Bind(now, cell), step, fill, tail))
        return seq(AllocBuffer(counter), BufferStore(counter, i64(0), (i64(0),)), loop)


def array(rng: random.Random, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random data of a dtype; floats are small dyadic numbers."""
    source = np.random.default_rng(rng.randrange(1 << 30))
    kind = DataType(dtype)
    if kind.is_float:
        return (source.integers(-16, 16, shape) / 4).astype(kind.numpy)
    if kind.is_bool:
        return source.integers(0, 2, shape).astype("bool")
    return source.integers(0 if kind.is_uint else -50, 50, shape).astype(kind.numpy)


@dataclass
class Program:
    """A function of a module with arguments. ``outputs`` are the arguments a tensor program writes."""

    mod: IRModule
    name: str
    args: list[Any]
    outputs: list[int]


def random_prim_func(rng: random.Random, native: bool = False) -> Program:
    """A tensor program with one to three inputs, one or two outputs and up to two temporaries. ``native``: only data types
    whose every operation has one defined result on a processor."""
    dtypes = tuple(
        rng.sample(("int32", "int64", "float32", "float64", "uint8") if native else (*INTS, *FLOATS), rng.randint(1, 3))
    )
    make = PrimGenerator(rng, dtypes, native)
    shapes = [rng.choice(((4,), (8,), (3, 4), (2, 8), (2, 3, 4))) for _ in range(5)]
    inputs = [make.buffer("A", rng.choice(shapes), rng.choice(dtypes)) for _ in range(rng.randint(1, 3))]
    make.written += inputs
    stages: list[Stmt] = []
    for _ in range(rng.randint(0, 2)):
        temporary = make.buffer("T", rng.choice(shapes), rng.choice(dtypes))
        stages += [AllocBuffer(temporary), make.stage(temporary)]
    outputs = [make.buffer("B", rng.choice(shapes), rng.choice(dtypes)) for _ in range(rng.randint(1, 2))]
    stages += [make.stage(out) for out in outputs]
    buffers = [*inputs, *outputs]
    handles = [Var(f"p{k}", prim_type("handle")) for k in range(len(buffers))]
    fn = PrimFunc(tuple(handles), dict(zip(handles, buffers)), seq(*stages), VOID_TYPE, {"global_symbol": "main"})
    sizes = [tuple([s.value for s in x.shape]) for x in buffers]
    args = [array(rng, size, x.dtype.name) for size, x in zip(sizes, buffers)]
    return Program(IRModule({"main": fn}, {}, {}), "main", args, list(range(len(inputs), len(buffers))))


def with_symbol(program: Program, rng: random.Random) -> Program:
    """The program with one size of its arguments as a symbol, in the shapes of its temporaries too, done twice in a loop that
    holds them: what passes copy then allocates as much as a symbol says."""
    fn = program.mod["main"]
    buffers = collect(fn, Buffer)
    given = {s.value for x in fn.buffer_map.values() for s in x.shape}
    held = {s.value for x in buffers if x not in fn.buffer_map.values() for s in x.shape}
    size = rng.choice(sorted(given & held or given))
    n, again = Var("n", I64), Var("again", I64)
    shapes = {x: tuple([n if s.value == size else s for s in x.shape]) for x in buffers}
    made = substitute(fn, {x: replace(x, shape=shape) for x, shape in shapes.items()})
    body = For(again, i64(0), i64(2), rng.choice(("serial", "unrolled")), made.body)
    return Program(IRModule({"main": replace(made, body=body)}, {}, {}), "main", program.args, program.outputs)


# ---- graph functions

UNARY = ("R.negative", "R.abs", "R.exp", "R.tanh", "R.nn.relu", "R.floor", "R.sign", "R.square")
BINARY = ("R.add", "R.subtract", "R.multiply", "R.maximum", "R.minimum")


def scale_func(columns: int, dtype: str) -> PrimFunc:
    """``B[n, c] = A[n, c] * 2 + A[n, 0]`` with a symbolic number of rows."""
    n, i, j = Var("n", I64), Var("i", I64), Var("j", I64)
    ty = prim_type(dtype)
    bufs = [Buffer(Var(x, PointerType(ty)), DataType(dtype), (n, i64(columns)), name=x) for x in ("A", "B")]
    value = b.add(b.mul(BufferLoad(bufs[0], (i, j), ty), b.const(2, dtype)), BufferLoad(bufs[0], (i, i64(0)), ty))
    body = For(i, i64(0), n, "parallel", For(j, i64(0), i64(columns), "serial", BufferStore(bufs[1], value, (i, j))))
    handles = [Var(x, prim_type("handle")) for x in ("a", "b")]
    return PrimFunc(tuple(handles), dict(zip(handles, bufs)), body, VOID_TYPE, {})


def call(name: str, *args: Expr, **attrs: Any) -> Expr:
    return OPERATORS[name](*args, **attrs)


class GraphGenerator:
    """Builds one graph function over tensors of shape (n, columns)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(("float32", "float64"))
        self.columns = rng.choice((2, 4))
        self.rows = Var("n", I64)
        self.functions: dict[str, PrimFunc] = {}

    def ty(self) -> Any:
        return tensor_type((self.rows, i64(self.columns)), self.dtype)

    def operation(self, values: list[Var]) -> Expr:
        rng = self.rng
        known = [name for name in (*UNARY, *BINARY) if name in OPS]
        if not known or rng.random() < 0.25:
            self.functions.setdefault("scale", scale_func(self.columns, self.dtype))
            return make_call(op("R.call_dps"), (GlobalVar("scale"), Tuple((rng.choice(values),))), ty_args=(self.ty(),))
        name = rng.choice(known)
        if name in UNARY:
            return call(name, rng.choice(values))
        return call(name, rng.choice(values), rng.choice(values))

    def composite(self, values: list[Var]) -> Expr:
        """Several operators in one expression (the builder binds the inner ones)."""
        rng = self.rng
        x, y = rng.choice(values), rng.choice(values)
        columns = i64(self.columns)
        pick = rng.randrange(8)
        if pick == 0:
            return call("R.add", x, call("R.sum", y, axis=(1,), keepdims=True))
        if pick == 1:
            weight = (np.arange(self.columns**2).reshape(self.columns, self.columns) % 3 - 1).astype(self.dtype)
            return call("R.matmul", x, constant(weight))
        if pick == 2:
            return call("R.permute_dims", call("R.permute_dims", x, axes=None), axes=(1, 0))
        if pick == 3:
            return call("R.reshape", call("R.flatten", x), ShapeExpr((self.rows, columns)))
        if pick == 4:
            return call("R.where", call("R.greater", x, y), x, call("R.negative", y))
        if pick == 5:
            return call("R.nn.softmax", x, axis=-1)
        if pick == 6:
            return call("R.squeeze", call("R.expand_dims", x, axis=(0,)), axis=(0,))
        return call("R.maximum", call("R.max", x, axis=(0,), keepdims=True), y)

    def module(self) -> Program:
        rng = self.rng
        params = [Var(f"x{k}", self.ty()) for k in range(rng.randint(1, 3))]
        flag = Var("flag", tensor_type((), "bool"))
        bb = BlockBuilder(IRModule({}, {}, {}))
        with bb.function("main", [*params, flag]):
            values: list[Var] = list(params)
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.6:
                    with bb.dataflow():
                        for _ in range(rng.randint(1, 3)):
                            bb_value = bb.emit(self.operation(values) if rng.random() < 0.6 else self.composite(values))
                            values.append(bb_value)
                        output = bb.emit_output(self.operation(values))
                    values = [v for v in values if not v.dataflow]
                    values.append(output)
                else:
                    values.append(self.plain(bb, values, flag))
            result: Expr = rng.choice(values)
            if rng.random() < 0.4:
                result = Tuple((result, rng.choice(values)))
            bb.emit_func_output(result)
        mod = bb.get().with_functions(self.functions)
        rows = rng.choice((1, 3))
        args = [array(rng, (rows, self.columns), self.dtype) for _ in params] + [np.array(rng.random() < 0.5)]
        return Program(mod, "main", args, [])

    def plain(self, bb: BlockBuilder, values: list[Var], flag: Var) -> Var:
        """A binding outside a dataflow block: conditional, match_cast or tuple."""
        rng = self.rng
        pick = rng.random()
        if pick < 0.4:
            branches = []
            for _ in range(2):
                var = Var(bb.get_unique_name("b"), self.ty())
                branches.append(SeqExpr((BindingBlock((VarBinding(var, self.operation(values)),)),), var))
            return bb.emit(If(flag, branches[0], branches[1], join_branches(branches[0], branches[1])))
        if pick < 0.7:
            rows = Var(bb.get_unique_name("m"), I64)
            cast = bb.match_cast(rng.choice(values), tensor_type((rows, i64(self.columns)), self.dtype))
            return bb.match_cast(cast, self.ty())
        pair = bb.emit(Tuple((rng.choice(values), rng.choice(values))))
        return bb.emit(TupleGetItem(pair, rng.randint(0, 1)))


def random_module(rng: random.Random) -> Program:
    """A graph function ``main`` with the tensor programs it calls, or a tensor program alone."""
    return GraphGenerator(rng).module() if rng.random() < 0.5 else random_prim_func(rng)
