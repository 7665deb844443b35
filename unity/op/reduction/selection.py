"""Selection: which element of a line has a rank, and which are the first, without sorting the line.

Elements become integers that order as they do (NaN largest, both zeros equal). The one of a rank is found bit by bit: a bit is set
where no more elements than the rank are below, so each bit counts once through the line, without a branch. Not here: sorting.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer, make_buffer
from ...ir.expr import IntImm, Var
from ...ir.stmt import AllocBuffer, Bind, BufferStore, IfThenElse, Stmt, seq
from ...ir.types import Expr
from ..common.loop_nests import read, reduction_nest, serial_loop
from ..common.type_rules import ONE, ZERO, put_at
from .sort_loops import MergeSort, index_at, key_type, loop_over_lines, max_key, ordered_key

Element = Callable[[Expr], Expr]
"""Place in a line -> the element there."""


class Selection:
    """The keys of one line, and the one among them that has a rank."""

    def __init__(self, dtype: DataType, length: Expr, descending: bool = False) -> None:
        self.length, self.descending = length, descending
        self.kind = key_type(dtype)
        counter = "int32" if type(length) is IntImm and length.value < 2**31 else "int64"
        self.keys = make_buffer("keys", self.kind, (length,))
        self.found = make_buffer("found", self.kind, (1,))
        self.count = make_buffer("count", counter, (1,))
        self.key = read(self.found, (ZERO,))

    def prepare(self, element: Element) -> Stmt:
        """Make the keys; what is allocated here lives as long as the line."""
        buffers = [AllocBuffer(b) for b in (self.keys, self.found, self.count)]
        keys = serial_loop(
            self.length, lambda n: BufferStore(self.keys, ordered_key(element(n), self.descending), (n,)), "n"
        )
        return seq(*buffers, keys)

    def count_where(self, predicate: Callable[[Expr], Expr]) -> Stmt:
        """Count the keys for which a condition holds."""
        nothing = build.const(0, self.count.dtype)
        return reduction_nest(
            self.count, [self.length], lambda i, n: build.select(predicate(read(self.keys, (n,))), 1, nothing), init=0
        )

    @property
    def counts(self) -> Expr:
        """The last count."""
        return build.cast(read(self.count, (ZERO,)), "int64")

    def find(self, rank: Expr) -> Stmt:
        """Find the key that ``rank`` others stand before, and count the keys below it."""

        def bit(n: Var) -> Stmt:
            tried = Var("tried", self.key.ty)
            shift = build.const(self.kind.bits - 1, self.kind) - build.cast(n, self.kind)
            step = build.intrinsic("shift_left", build.const(1, self.kind), shift)
            return seq(
                Bind(tried, self.key + step),
                self.count_where(lambda key: build.lt(key, tried)),
                IfThenElse(build.le(self.counts, rank), BufferStore(self.found, tried, (ZERO,))),
            )

        least = build.const(-(2 ** (self.kind.bits - 1)), self.kind)
        return seq(
            BufferStore(self.found, least, (ZERO,)),
            serial_loop(build.const(self.kind.bits, "int64"), bit, "bit"),
            self.count_where(lambda key: build.lt(key, self.key)),
        )

    def store_index(self, rank: Expr, to: Buffer, index: tuple[Expr, ...]) -> Stmt:
        """Store the position of the element of the rank: of equal elements those before it come first in the line."""
        equal, position, wanted = (
            make_buffer("equal", "int64", (1,)),
            make_buffer("place", "int64", (1,)),
            build.index_var("wanted"),
        )
        seen, passed = read(equal, (ZERO,)), read(position, (ZERO,))

        def step(n: Var) -> Stmt:
            more = seen + build.cast(build.eq(read(self.keys, (n,)), self.key), "int64")
            return seq(
                BufferStore(equal, more, (ZERO,)),
                BufferStore(position, passed + build.cast(build.le(seen, wanted), "int64"), (ZERO,)),
            )

        return seq(
            self.find(rank), AllocBuffer(equal), AllocBuffer(position), Bind(wanted, rank - self.counts),
            BufferStore(equal, ZERO, (ZERO,)), BufferStore(position, ZERO, (ZERO,)), serial_loop(self.length, step, "n"),
            BufferStore(to, passed, index),
        )  # fmt: skip

    def store_first(self, count: Expr, to: Buffer) -> Stmt:
        """Store the positions of the first ``count`` elements in the order of the line; ``to`` has room for one more."""
        taken, room = make_buffer("taken", "int64", (2,)), build.index_var("room")
        result, equals = [read(taken, (build.const(n, "int64"),)) for n in range(2)]

        def step(n: Var) -> Stmt:
            key, equal, take = read(self.keys, (n,)), build.index_var("equal"), build.index_var("take")
            below = build.cast(build.lt(key, self.key), "int64")
            fits = build.cast(build.lt(equals, room), "int64")
            return seq(
                Bind(equal, build.cast(build.eq(key, self.key), "int64")),
                Bind(take, below + equal * fits),
                BufferStore(to, n, (result,)),
                BufferStore(taken, result + take, (ZERO,)),
                BufferStore(taken, equals + equal, (ONE,)),
            )

        return seq(
            self.find(count - 1), AllocBuffer(taken), Bind(room, count - self.counts),
            *[BufferStore(taken, ZERO, (build.const(n, "int64"),)) for n in range(2)], serial_loop(self.length, step, "n"),
        )  # fmt: skip


def median_index(lines: te.Tensor) -> te.Tensor:
    """Place of the lower middle element of each line along the last axis, or of the first NaN where there is one."""
    length = lines.shape[-1]
    last = length - 1

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def line(i: list[Var]) -> Stmt:
            chosen, rank = Selection(ins[0].dtype, length), build.index_var("rank")
            prepared = chosen.prepare(lambda n: read(ins[0], (*i, n)))
            if not ins[0].dtype.is_float:
                return seq(prepared, chosen.store_index(last // 2, outs[0], tuple(i)))
            nans = chosen.count_where(lambda key: build.eq(key, max_key(chosen.kind)))
            wanted = Bind(rank, build.select(build.gt(chosen.counts, ZERO), length - chosen.counts, last // 2))
            return seq(prepared, nans, wanted, chosen.store_index(rank, outs[0], tuple(i)))

        return loop_over_lines(lines.shape[:-1], line)

    return te.extern(lines.shape[:-1], [lines], emit, "median_place", "int64")


def first_sorted(x: te.Tensor, axis: int, descending: bool, count: Expr) -> te.Tensor:
    """Indices of the first ``count`` (at least one) elements of each line in sorted order: those are selected, then merged."""
    length = x.shape[axis]
    rest = [d for a, d in enumerate(x.shape) if a != axis]
    shape = put_at(x.shape, axis, count)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def line(i: list[Var]) -> Stmt:
            positions = make_buffer("selected", "int64", (count + 1,))
            chosen = Selection(ins[0].dtype, length, descending)
            merged = MergeSort(ins[0], count, descending).emit(
                lambda n: read(ins[0], index_at(i, axis, read(positions, (n,)))),
                lambda m, n: BufferStore(outs[0], read(positions, (n,)), index_at(i, axis, m)),
            )
            prepared = chosen.prepare(lambda n: read(ins[0], index_at(i, axis, n)))
            return seq(AllocBuffer(positions), prepared, chosen.store_first(count, positions), merged)

        return loop_over_lines(rest, line)

    return te.extern(shape, [x], emit, "first_sorted", "int64")
