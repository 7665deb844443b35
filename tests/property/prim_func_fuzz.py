"""Random tensor programs over every data type and statement, for comparing code generation with the interpreter.

``random_case(seed)`` gives a program with argument sets. Every program is defined: indices are in bounds, divisors are not
zero, shifts are in range, iterations of parallel and vectorized loops are independent. Operations whose result may differ
in the last places (math functions, sums that may be reassociated, chains of narrow floats) only stand outermost in a store to a
buffer that is never read; ``tolerance`` holds their allowance in units of the last place by argument position.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fuzz_values import DTYPES, INTEGERS, MATH, NARROW, SIZES, WIDE, i64, random_array
from vector_fuzz import random_vector

from unity.ffi.dtype import DataType
from unity.ffi.tensor import Tensor
from unity.ir import build as b
from unity.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from unity.ir.constant import int_imm
from unity.ir.expr import Call, Var, op
from unity.ir.function import PrimFunc
from unity.ir.scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
)  # fmt: skip
from unity.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
    Block,
    BlockRealize,
    Break,
    BufferStore,
    Continue,
    DeclBuffer,
    For,
    IfThenElse,
    Stmt,
    While,
    seq,
)  # fmt: skip
from unity.ir.types import VOID_TYPE, Expr, PointerType, prim_type

COMPARES = (EQ, NE, LT, LE, GT, GE)


@dataclass
class Case:
    """A program and what to call it with; ``tolerance`` by position of the argument."""

    func: PrimFunc
    arguments: list[list[Any]]
    tolerance: dict[int, float] = field(default_factory=dict)


class Fuzzer:
    """State of one generation: what is in scope."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.n = Var("n", prim_type("int64"))
        self.scalars: list[Var] = []
        self.inputs: list[Buffer] = []
        self.loops: list[tuple[Var, Any]] = []
        """Loop variables in scope with their extents (an int, or the symbol)."""
        self.names = 0
        self.depth = 3

    def name(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    def buffer(self, hint: str, shape: Sequence[Any], dtype: str, **options: Any) -> Buffer:
        dims = tuple([s if isinstance(s, Expr) else i64(s) for s in shape])
        name = self.name(hint)
        return Buffer(
            Var(name + "_data", PointerType(prim_type(dtype), "global")), DataType(dtype), dims, name=name, **options
        )

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # ---- expressions

    def constant(self, dtype: str) -> Expr:
        kind = DataType(dtype)
        if kind.is_bool:
            return b.const(self.chance(0.5))
        if kind.is_float:
            return b.const(
                self.rng.choice([0.0, -0.0, 1.0, -1.5, 0.1, 3e4, float("inf"), -float("inf"), float("nan"), 1e-3]),
                dtype,
            )
        info = np.iinfo(kind.numpy)
        return b.const(
            self.rng.choice(
                [0, 1, 2, 3, 7, int(info.max), int(info.min), self.rng.randint(int(info.min), int(info.max))]
            ),
            dtype,
        )

    def has_positive_n(self) -> bool:
        return any([extent is self.n for _, extent in self.loops])

    def index(self, extent: Any, depth: int) -> Expr:
        """An index below an extent."""
        fitting = [
            v for v, e in self.loops if e is extent or (isinstance(e, int) and isinstance(extent, int) and e <= extent)
        ]
        if fitting and (self.chance(0.7) or extent == 0):
            return self.rng.choice(fitting)
        limit = extent if isinstance(extent, Expr) else i64(extent)
        return FloorMod(self.expr("int64", depth), limit, limit.ty)

    def load(self, buffer: Buffer, depth: int) -> Expr:
        extents = [e.value if hasattr(e, "value") else e for e in buffer.shape]
        return BufferLoad(buffer, tuple([self.index(e, depth) for e in extents]), prim_type(buffer.dtype))

    def leaf(self, dtype: str, depth: int = 0) -> Expr:
        choices: list[Callable[[], Expr]] = [lambda: self.constant(dtype)]
        own = [v for v in self.scalars if v.ty is prim_type(dtype)]
        if own:
            choices.append(lambda: self.rng.choice(own))
        fitting = [x for x in self.inputs if x.dtype.name == dtype and (self.n not in x.shape or self.has_positive_n())]
        if fitting and depth > -2:
            choices += [lambda: self.load(self.rng.choice(fitting), depth - 1)] * 3
        if self.loops and DataType(dtype).is_integral:  # masked: arithmetic on bare loop variables must not overflow
            choices += [
                lambda: b.intrinsic("bitwise_and", self.cast(self.rng.choice(self.loops)[0], dtype), b.const(63, dtype))
            ] * 2
        return self.rng.choice(choices)()

    def cast(self, value: Expr, dtype: str) -> Expr:
        return value if b.dtype_of(value).name == dtype else Cast(value, prim_type(dtype))

    def expr(self, dtype: str, depth: int | None = None) -> Expr:
        """An expression whose value is the same on every backend."""
        depth = self.depth if depth is None else depth
        if depth <= 0:
            return self.leaf(dtype, depth)
        kind = DataType(dtype)
        if self.chance(0.12):
            return self.cast(self.expr(self.rng.choice(DTYPES), depth - 1), dtype)
        if self.chance(0.15):
            return self.choice(dtype, depth)
        if self.chance(0.08):
            var_type = self.rng.choice(DTYPES)
            var = Var(self.name("let"), prim_type(var_type))
            value = self.expr(var_type, depth - 1)
            self.scalars.append(var)
            body = self.expr(dtype, depth - 1)
            self.scalars.remove(var)
            return Let(var, value, body)
        if kind.is_bool:
            return self.condition(depth)
        if kind.is_float:
            return self.float_expr(dtype, depth)
        return self.int_expr(dtype, depth)

    def choice(self, dtype: str, depth: int) -> Expr:
        cond, x, y = self.expr("bool", depth - 1), self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)
        if self.chance(0.5):
            return Select(cond, x, y, prim_type(dtype))
        return Call(op("T.if_then_else"), (cond, x, y), {}, (), prim_type(dtype))

    def condition(self, depth: int) -> Expr:
        ty = prim_type("bool")
        roll = self.rng.random()
        if roll < 0.2:
            return Not(self.expr("bool", depth - 1), ty)
        if roll < 0.4:
            return self.rng.choice((And, Or))(self.expr("bool", depth - 1), self.expr("bool", depth - 1), ty)
        if roll < 0.5:
            return b.intrinsic(
                self.rng.choice(("isnan", "isinf", "isfinite")), self.expr(self.rng.choice(NARROW + WIDE), depth - 1)
            )
        dtype = self.rng.choice(DTYPES)
        return self.rng.choice(COMPARES)(self.expr(dtype, depth - 1), self.expr(dtype, depth - 1), ty)

    def float_expr(self, dtype: str, depth: int) -> Expr:
        x, y, ty = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1), prim_type(dtype)
        if dtype in NARROW:  # more than one rounding would be left to the backend
            return self.rng.choice((Min, Max))(x, y, ty) if self.chance(0.5) else b.intrinsic("abs", x)
        roll = self.rng.random()
        if roll < 0.6:
            return self.rng.choice((Add, Sub, Mul, Div, Min, Max, Add, Mul))(x, y, ty)
        if roll < 0.7:
            return self.rng.choice((Mod, FloorMod, FloorDiv))(x, y, ty)
        if roll < 0.8:
            sign = Select(
                b.intrinsic("isnan", y), b.const(-1.0, dtype), y, ty
            )  # the sign of a computed NaN is nobody's business
            return b.intrinsic("copysign", x, sign) if self.chance(0.5) else b.intrinsic("nextafter", x, y)
        return b.intrinsic(self.rng.choice(("floor", "ceil", "trunc", "round", "nearbyint", "abs", "sqrt")), x)

    def int_expr(self, dtype: str, depth: int) -> Expr:
        x, y, ty = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1), prim_type(dtype)
        roll = self.rng.random()
        if roll < 0.5:
            return self.rng.choice((Add, Sub, Mul, Min, Max))(x, y, ty)
        if roll < 0.7:
            one, zero = b.const(1, dtype), b.const(0, dtype)
            fixed = b.const(self.rng.choice([1, 2, 3, 8, 10]), dtype)
            negative = int_imm(-self.rng.choice([1, 2, 3, 8]), ty)
            safe = self.rng.choice(
                [Select(EQ(y, zero, prim_type("bool")), one, y, ty), fixed, negative, b.intrinsic("bitwise_or", y, one)]
            )
            return self.rng.choice((FloorDiv, FloorMod, Div, Mod))(x, safe, ty)
        if roll < 0.85:
            return b.intrinsic(self.rng.choice(("bitwise_and", "bitwise_or", "bitwise_xor")), x, y)
        if roll < 0.93:
            amount = b.intrinsic("bitwise_and", y, b.const(DataType(dtype).bits - 1, dtype))
            return b.intrinsic(self.rng.choice(("shift_left", "shift_right")), x, amount)
        return b.intrinsic(self.rng.choice(("bitwise_not", "popcount", "clz", "abs")), x)

    # ---- statements

    def binding(self) -> tuple[list[Stmt], Callable[[], None]]:
        """Some bound scalars, and how to forget them."""
        made: list[Stmt] = []
        added: list[Var] = []
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            dtype = self.rng.choice(DTYPES)
            var = Var(self.name("v"), prim_type(dtype))
            made.append(Bind(var, self.expr(dtype, 2)))
            self.scalars.append(var)
            added.append(var)

        def forget() -> None:
            for var in added:
                self.scalars.remove(var)

        return made, forget

    def loop(self, extent: Any, kind: str, body: Callable[[Var], Stmt]) -> Stmt:
        """A loop from 0, sometimes with another start or a step; the body gets the value that runs over [0, extent)."""
        ty = prim_type("int32" if isinstance(extent, int) and self.chance(0.4) else "int64")
        var = Var(self.name("i"), ty)
        start = self.rng.choice((0, 0, 0, 2, -3))
        low = b.const(start, b.dtype_of(var))
        count = b.const(extent, b.dtype_of(var)) if isinstance(extent, int) else extent
        point: Expr = b.sub(var, low) if start else var
        place = Var(self.name("p"), prim_type("int64"))
        self.loops.append((place, extent))
        inner = body(place)
        self.loops.pop()
        step = None
        if self.chance(0.1):
            step = b.const(1, b.dtype_of(var))
        return For(var, low, count, kind, seq(Bind(place, b.cast(point, "int64")), inner), step=step)

    def nest(
        self, extents: Sequence[Any], body: Callable[[list[Expr]], Stmt], kinds: Sequence[str] | None = None
    ) -> Stmt:
        places: list[Expr] = []

        def level(k: int) -> Stmt:
            if k == len(extents):
                return body(places)

            def inner(place: Var) -> Stmt:
                places.append(place)
                return level(k + 1)

            kind = kinds[k] if kinds else self.rng.choice(("serial", "serial", "parallel", "vectorized", "unrolled"))
            if any([t == "parallel" or t == "vectorized" for t in self.kinds]) and kind in ("parallel", "vectorized"):
                kind = "serial"
            self.kinds.append(kind)
            made = self.loop(extents[k], kind, inner)
            self.kinds.pop()
            return made

        self.kinds: list[str] = []
        return level(0)

    def outermost(self, dtype: str) -> tuple[Expr, float]:
        """A value for a buffer that is not read again, and its tolerance in ulp."""
        ty = prim_type(dtype)
        if dtype in NARROW and self.chance(0.7):
            return self.rng.choice((Add, Sub, Mul, Div))(self.leaf(dtype), self.leaf(dtype), ty), 0
        if dtype in WIDE and self.chance(0.3):
            return b.intrinsic(self.rng.choice(MATH), self.expr(dtype, 2)), 4
        return self.expr(dtype), 0

    def elementwise(self, out: Buffer, extents: list[Any]) -> tuple[Stmt, float]:
        """Each point of a nest writes its own cell, with local bindings, conditions, scratch memory, early continues."""
        tolerance = 0.0

        def body(places: list[Expr]) -> Stmt:
            nonlocal tolerance
            binds, forget = self.binding()
            value, tolerance = self.outermost(out.dtype.name)
            store: Stmt = BufferStore(out, value, tuple(places))
            roll = self.rng.random()
            if roll < 0.15:
                store = IfThenElse(
                    self.expr("bool", 2), store, BufferStore(out, self.leaf(out.dtype.name), tuple(places))
                )
            elif roll < 0.25:
                cond = self.rng.choice(COMPARES)(
                    BufferLoad(out, tuple(places), prim_type(out.dtype)), self.leaf(out.dtype.name), prim_type("bool")
                )
                if tolerance == 0:  # the condition reads the cell that the branches write
                    other = BufferStore(out, self.leaf(out.dtype.name), tuple(places))
                    store = IfThenElse(
                        cond, seq(store, BufferStore(out, self.leaf(out.dtype.name), tuple(places))), other
                    )
            elif roll < 0.35:
                store = self.scratch(store)
            elif roll < 0.4 and self.kinds and self.kinds[-1] != "unrolled":
                store = seq(IfThenElse(self.expr("bool", 1), Continue()), store)
            elif roll < 0.45:
                store = seq(AssertStmt(Or(self.expr("bool", 1), b.const(True), prim_type("bool")), "holds"), store)
            elif roll < 0.5:
                store = AttrStmt(i64(0), "pragma_something", i64(1), store)
            forget()
            return seq(*binds, store)

        return self.nest(extents, body), tolerance

    def scratch(self, rest: Stmt) -> Stmt:
        """Memory of one iteration, filled by a while loop that is left early."""
        dtype = self.rng.choice(INTEGERS)
        size = self.rng.choice((1, 4, 5))
        local = self.buffer("local", (size,), dtype)
        count = self.buffer("count", (1,), "int32")
        zero, ty = i64(0), prim_type("int32")
        now = BufferLoad(count, (zero,), ty)
        fill = self.loop(size, "serial", lambda p: BufferStore(local, self.expr(dtype, 1), (p,)))
        step = BufferStore(count, Add(now, b.const(1, "int32"), ty), (zero,))
        leave = IfThenElse(self.expr("bool", 1), Break() if self.chance(0.5) else Continue())
        write = BufferStore(
            local, self.expr(dtype, 2), (Cast(FloorMod(now, b.const(size, "int32"), ty), prim_type("int64")),)
        )
        loop = While(LT(now, b.const(self.rng.randint(0, 9), "int32"), prim_type("bool")), seq(step, leave, write))
        return seq(
            AllocBuffer(local), AllocBuffer(count), BufferStore(count, b.const(0, "int32"), (zero,)), fill, loop, rest
        )

    def reduction(self, out: Buffer, extents: list[Any]) -> tuple[Stmt, float]:
        """A block with spatial and reduction iterators, initialisation and sometimes a predicate."""
        dtype = out.dtype.name
        reduce_extent = self.rng.choice((1, 3, 6))
        loops = [Var(self.name("i"), prim_type("int64")) for _ in range(len(extents) + 1)]
        iterators = [Var(self.name("v"), prim_type("int64")) for _ in loops]
        sizes = [*extents, reduce_extent]
        self.loops += list(zip(iterators, sizes))
        cell = tuple(iterators[:-1])
        old = BufferLoad(out, cell, prim_type(dtype))
        if DataType(dtype).is_float:
            new, start, combine = self.leaf(dtype), b.const(0.0, dtype), self.rng.choice((Min, Max))
        else:
            new, combine = self.expr(dtype, 2), self.rng.choice((Min, Max) if dtype == "bool" else (Add, Mul, Min, Max))
            start = self.constant(dtype)
        predicate: Expr = b.const(True)
        del self.loops[-len(sizes) :]
        if self.chance(0.3):
            predicate = LT(loops[0], b.const(self.rng.choice((1, 4, 100)), "int64"), prim_type("bool"))
        domains = [Range(i64(0), e if isinstance(e, Expr) else i64(e)) for e in sizes]
        block = Block(
            tuple([IterVar(v, d, "R" if v is iterators[-1] else "S") for v, d in zip(iterators, domains)]),
            None, None, (), (), {}, self.name("block"),
            BufferStore(out, combine(old, new, prim_type(dtype)), cell), BufferStore(out, start, cell),
        )  # fmt: skip
        made: Stmt = BlockRealize(tuple(loops), predicate, block)
        for var, extent in reversed(list(zip(loops, sizes))):
            made = For(var, i64(0), extent if isinstance(extent, Expr) else i64(extent), "serial", made)
        return made, 0

    def vectors(self, out: Buffer, extents: list[Any]) -> tuple[Stmt, float]:
        """Explicit vectors: ramps, broadcasts, shuffles, masks, over the last axis."""
        lanes = self.rng.choice([k for k in (2, 3, 4, 5, 7, 8, 16) if k <= extents[-1]] or [1])
        dtype = out.dtype.name
        if lanes == 1 or dtype in NARROW:
            return self.elementwise(out, extents)

        def body(places: list[Expr]) -> Stmt:
            start = i64(self.rng.randint(0, extents[-1] - lanes))
            predicate = random_vector(self, "bool", lanes, 1) if self.chance(0.3) else None
            last = Ramp(start, i64(1), lanes, prim_type(f"int64x{lanes}"))
            return BufferStore(out, random_vector(self, dtype, lanes, 3), (*places, last), predicate)

        if len(extents) == 1:
            return body([]), 0
        return self.nest(extents[:-1], body, ["serial"] * (len(extents) - 1)), 0

    def tiles(self, out: Buffer, extents: list[Any]) -> tuple[Stmt, float]:
        """A block that works on a view of one row, and a flat alias of a constant table."""
        dtype = out.dtype.name
        table = self.buffer("table", (2, 3), dtype)
        alias = Buffer(table.data, DataType(dtype), (i64(6),), name=self.name("alias"))
        data = random_array(np.random.default_rng(self.rng.randrange(1 << 30)), (2, 3), dtype)
        offset = Var(self.name("offset"), prim_type("int64"))
        stride = Var(self.name("stride"), prim_type("int64"))
        last = extents[-1] if isinstance(extents[-1], Expr) else i64(extents[-1])

        def body(places: list[Expr]) -> Stmt:
            view = self.buffer("view", (last,), dtype, strides=(stride,), elem_offset=offset)
            region = BufferRegion(out, tuple([Range(p, i64(1)) for p in places] + [Range(i64(0), last)]))

            def inner(p: Var) -> Stmt:
                read = BufferLoad(alias, (FloorMod(p, i64(6), p.ty),), prim_type(dtype))  # type: ignore[arg-type]
                value = Select(self.expr("bool", 2), read, self.leaf(dtype), prim_type(dtype))
                return BufferStore(view, value, (p,))

            block = Block(
                (),
                None,
                None,
                (),
                (MatchBufferRegion(view, region),),
                {},
                self.name("tile"),
                self.loop(extents[-1], "serial", inner),
            )
            return BlockRealize((), self.expr("bool", 1) if self.chance(0.3) else b.const(True), block)

        work = self.nest(extents[:-1], body, ["serial"] * (len(extents) - 1)) if len(extents) > 1 else body([])
        return seq(AllocConst(table, Tensor(data)), DeclBuffer(alias), work), 0

    # ---- the program

    def case(self) -> Case:
        rng = self.rng
        dims: list[Any] = [1, 2, 3, 5, 8, 16, self.n]
        shaped = self.buffer("S", (self.n,), rng.choice(DTYPES))
        self.inputs = [shaped] + [
            self.buffer("A", [rng.choice(dims) for _ in range(rng.choice((1, 1, 2)))], rng.choice(DTYPES))
            for _ in range(3)
        ]
        self.scalars = [Var(self.name("s"), prim_type(rng.choice(DTYPES))) for _ in range(2)]
        parameters = list(self.scalars)
        outputs: list[Buffer] = []
        stmts: list[Stmt] = []
        tolerances: list[float] = []
        for _ in range(rng.choice((1, 2, 3))):
            template = rng.choice((self.elementwise, self.elementwise, self.reduction, self.vectors, self.tiles))
            extents = [rng.choice([0, 1, 3, 5, 16, self.n]) for _ in range(rng.choice((1, 2)))]
            if template == self.vectors:
                extents[-1] = rng.choice((5, 16, 17))
            if template == self.reduction:
                extents = [e if e != 0 else 3 for e in extents]
            out = self.buffer("C", extents, rng.choice(DTYPES))
            made, tolerance = template(out, extents)
            outputs.append(out)
            stmts.append(made)
            tolerances.append(tolerance)
        buffers = [*self.inputs, *outputs]
        handles = [Var(x.name.lower(), prim_type("handle")) for x in buffers]
        func = PrimFunc(
            (*handles, *parameters), dict(zip(handles, buffers)), seq(*stmts), VOID_TYPE, {"global_symbol": "main"}
        )
        arguments = []
        for size in SIZES:
            numbers = np.random.default_rng(rng.randrange(1 << 30))
            values: list[Any] = []
            for buffer in buffers:
                shape = [size if e is self.n else e.value for e in buffer.shape]  # type: ignore[attr-defined]
                values.append(random_array(numbers, shape, buffer.dtype.name))
            for var in parameters:
                values.append(random_array(numbers, (1,), b.dtype_of(var).name)[0])
            arguments.append(values)
        first = len(self.inputs)
        return Case(func, arguments, {first + k: t for k, t in enumerate(tolerances)})


def random_case(seed: int) -> Case:
    """The program of a seed."""
    return Fuzzer(seed).case()
