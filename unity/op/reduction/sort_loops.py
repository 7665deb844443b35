"""Programs that put the elements of lines in order: all of them by merging, the first few by insertion.

Both are stable, and NaN counts as the largest value: keys are integers that order as the values do, so that comparing them is one
instruction; both zeros are equal. Lines along another axis than the last are copied to contiguous memory, or
walked side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer, make_buffer
from ...ir.expr import IntImm, Var
from ...ir.node import replace
from ...ir.stmt import AllocBuffer, Bind, BufferStore, For, IfThenElse, Stmt, While, seq
from ...ir.types import Expr, prim_type
from ..common.loop_nests import loops, read, reduction_nest, serial_loop
from ..common.type_rules import ONE, ZERO, put_at

MOST_INSERTED = 32
"""Elements up to which the first of a line are kept in order by insertion."""
RUN = 32
"""Elements of the runs from which merging starts."""


def key_type(dtype: DataType) -> DataType:
    """Type of ``ordered_key`` of a value."""
    return DataType(f"int{max(32, dtype.bits) if dtype.is_float else max(8, dtype.bits)}")


def max_key(kind: DataType) -> Expr:
    """The key of NaN, and of the greatest integer."""
    return build.const(2 ** (kind.bits - 1) - 1, kind)


def ordered_key(value: Expr, descending: bool = False) -> Expr:
    """A signed integer that orders as the value does; backwards with ``descending``. NaN is the greatest value."""
    dtype = build.dtype_of(value)
    kind = key_type(dtype)
    if dtype.is_float:
        value = value if dtype.bits >= 32 else build.cast(value, "float32")
        zero = build.const(0.0, build.dtype_of(value))
        raw = build.intrinsic("reinterpret", build.select(build.eq(value, zero), zero, value), dtype=kind)
        sign = build.intrinsic("shift_right", raw, build.const(kind.bits - 1, kind))
        key = build.intrinsic("bitwise_xor", raw, build.intrinsic("bitwise_and", sign, max_key(kind)))
        key = build.intrinsic("bitwise_not", key) if descending else key
        edge = build.const(-(2 ** (kind.bits - 1)), kind) if descending else max_key(kind)
        return build.select(build.eq(value, value), key, edge)
    if dtype.is_uint and not dtype.is_bool:
        key = build.cast(build.intrinsic("bitwise_xor", value, build.const(1 << (dtype.bits - 1), dtype)), kind)
    else:
        key = build.cast(value, kind)
    return build.intrinsic("bitwise_not", key) if descending else key


def before(first: Expr, second: Expr, descending: bool) -> Expr:
    """True if the first value must precede the second (equal ones need not). No part of it is a branch."""
    if not build.dtype_of(first).is_float:
        return build.gt(first, second) if descending else build.lt(first, second)
    a, b = (second, first) if descending else (first, second)
    return build.select(build.eq(a, a), build.logical_not(build.le(b, a)), build.const(False))


def _counter(name: str) -> Buffer:
    return make_buffer(name, "int64", (1,))


def index_at(i: list[Var], axis: int, position: Expr) -> tuple[Expr, ...]:
    """Indices of a position along an axis of the line that the other indices name."""
    return (*i[:axis], position, *i[axis:])


class MergeSort:
    """The sort of one line: keys beside their indices, both twice, from one side to the other and back."""

    def __init__(self, data: Buffer, length: Expr, descending: bool) -> None:
        self.length, self.descending, self.kind = length, descending, key_type(data.dtype)
        self.padded = build.ceildiv(length, RUN) * RUN
        self.keys = make_buffer("keys", self.kind, (2, self.padded))
        self.indices = make_buffer("places", "int64", (2, self.padded))
        self.rank = make_buffer("rank", "int32", (RUN,))
        self.width, self.side = _counter("width"), _counter("side")

    def emit(self, load: Callable[[Expr], Expr], store: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """``load(n)`` is the element at a position of the line; ``store(m, n)`` says that the element at n comes m-th."""

        def key(n: Expr) -> Stmt:
            value = load(build.minimum(n, self.length - 1))
            return BufferStore(self.keys, ordered_key(value, self.descending), (ONE, n))

        begin = serial_loop(self.padded, key, "n")
        if type(self.length) is IntImm and self.length.value <= RUN:
            return self.sort_short(begin, store)
        span, side = read(self.width, (ZERO,)), read(self.side, (ZERO,))
        runs = build.ceildiv(self.length, span * 2)
        return seq(
            *[AllocBuffer(b) for b in (self.keys, self.indices, self.width, self.side)],
            begin,
            serial_loop(build.ceildiv(self.length, RUN), self.sort_run, "run"),
            BufferStore(self.width, build.const(RUN, "int64"), (ZERO,)),
            BufferStore(self.side, ZERO, (ZERO,)),
            While(
                build.lt(span, self.length),
                seq(
                    serial_loop(runs, self.merge, "k"),
                    BufferStore(self.width, span * 2, (ZERO,)),
                    BufferStore(self.side, ONE - side, (ZERO,)),
                ),
            ),
            serial_loop(self.length, lambda m: store(m, read(self.indices, (side, m))), "m"),
        )

    def sort_short(self, begin: Stmt, store: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """A line that is one short run: no element moves more than once."""
        return seq(
            AllocBuffer(self.keys),
            AllocBuffer(self.rank),
            begin,
            self.count_ranks(ZERO, self.length),
            serial_loop(self.length, lambda n: store(build.cast(read(self.rank, (n,)), "int64"), n), "n"),
        )

    def count_ranks(self, start: Expr, count: Expr) -> Stmt:
        """The position of an element of a short run is the number of those that come before it."""

        def key(i: Expr) -> Expr:
            return read(self.keys, (ONE, start + i))

        def first(i: Expr, j: Expr) -> Expr:
            earlier = build.logical_and(
                build.le(key(j), key(i)), build.logical_or(build.lt(key(j), key(i)), build.lt(j, i))
            )
            return build.select(earlier, build.const(1, "int32"), build.const(0, "int32"))

        return reduction_nest(self.rank, [count], first, init=0)

    def sort_run(self, k: Var) -> Stmt:
        """Sort a short run."""
        start, count = build.index_var("start"), build.index_var("count")

        def store(i: Var) -> Stmt:
            source = start + i
            to = (ZERO, start + build.cast(read(self.rank, (i,)), "int64"))
            return seq(
                BufferStore(self.keys, read(self.keys, (ONE, source)), to),
                BufferStore(self.indices, source, to),
            )

        return seq(
            AllocBuffer(self.rank),
            Bind(start, k * RUN),
            Bind(count, build.minimum(self.length - start, RUN)),
            self.count_ranks(start, count),
            serial_loop(count, store, "i"),
        )

    def merge(self, k: Var) -> Stmt:
        """Two neighbouring runs into one, from both ends at once: two chains of steps, neither of which branches. Runs that follow
        each other in order are copied."""
        start, middle, end, source = [build.index_var(n) for n in ("start", "middle", "end", "source")]
        span = read(self.width, (ZERO,))
        low = [_counter(n) for n in ("left", "right")]
        high = [_counter(n) for n in ("left_end", "right_end")]
        total = end - start

        def both(n: Var) -> Stmt:
            return seq(
                self.merge_front(low, n, source, start, middle, end),
                self.merge_back(high, n, source, start, middle, end),
            )

        def rest(n: Var) -> Stmt:
            return self.merge_front(low, total // 2, source, start, middle, end)

        def copy(n: Var) -> Stmt:
            at, target = (source, start + n), (ONE - source, start + n)
            return seq(
                BufferStore(self.keys, read(self.keys, at), target),
                BufferStore(self.indices, read(self.indices, at), target),
            )

        first = (start, middle, middle - 1, end - 1)
        behind, ahead = [read(self.keys, (source, n)) for n in (build.minimum(middle, end - 1), middle - 1)]
        return seq(
            *[AllocBuffer(b) for b in (*low, *high)],
            Bind(source, read(self.side, (ZERO,))),
            Bind(start, k * span * 2),
            Bind(middle, build.minimum(start + span, self.length)),
            Bind(end, build.minimum(middle + span, self.length)),
            *[BufferStore(b, value, (ZERO,)) for b, value in zip((*low, *high), first)],
            IfThenElse(
                build.ge(behind, ahead),
                serial_loop(total, copy, "n"),
                seq(serial_loop(total // 2, both, "p"), serial_loop(total % 2, rest, "odd")),
            ),
        )

    def merge_front(self, counters: list[Buffer], n: Expr, source: Expr, start: Expr, middle: Expr, end: Expr) -> Stmt:
        """The n-th element from the front."""

        def right(l: Expr, r: Expr, a: Expr, b: Expr) -> Expr:
            ahead = _both(_flag(build.lt(r, end)), _flag(build.lt(b, a)))
            return _either(_flag(build.ge(l, middle)), ahead)

        def inside(l: Expr, r: Expr) -> tuple[Expr, Expr]:
            return build.minimum(l, middle - 1), build.minimum(r, end - 1)

        return self.step(counters, inside, source, start + n, 1, right)

    def merge_back(self, counters: list[Buffer], n: Expr, source: Expr, start: Expr, middle: Expr, end: Expr) -> Stmt:
        """The n-th element from the back: of equal ones the right."""

        def right(l: Expr, r: Expr, a: Expr, b: Expr) -> Expr:
            not_before = 1 - _flag(build.lt(b, a))
            return _both(_flag(build.ge(r, middle)), _either(_flag(build.lt(l, start)), not_before))

        def inside(l: Expr, r: Expr) -> tuple[Expr, Expr]:
            return build.maximum(l, start), build.minimum(build.maximum(r, middle), end - 1)

        return self.step(counters, inside, source, end - 1 - n, -1, right)

    def step(
        self, counters: list[Buffer], inside: Callable[[Expr, Expr], tuple[Expr, Expr]], source: Expr, to: Expr, by: int,
        right: Callable[[Expr, Expr, Expr, Expr], Expr],
    ) -> Stmt:  # fmt: skip
        """Move one element; ``right(left index, right index, left key, right key)`` is one where it is the right one. All of it is
        arithmetic: a branch would be guessed wrong every other time."""
        l, r, left, right_, moved, taken = [build.index_var(n) for n in ("l", "r", "left", "right", "moved", "taken")]
        a, b = [Var(n, prim_type(self.kind)) for n in ("a", "b")]
        target = (ONE - source, to)
        return seq(
            *[Bind(var, read(c, (ZERO,))) for var, c in zip((l, r), counters)],
            *[Bind(var, value) for var, value in zip((left, right_), inside(l, r))],
            Bind(a, read(self.keys, (source, left))),
            Bind(b, read(self.keys, (source, right_))),
            Bind(moved, build.cast(right(l, r, a, b), "int64")),
            Bind(taken, left + moved * (right_ - left)),
            BufferStore(self.keys, read(self.keys, (source, taken)), target),
            BufferStore(self.indices, read(self.indices, (source, taken)), target),
            BufferStore(counters[0], l + (ONE - moved) * by, (ZERO,)),
            BufferStore(counters[1], r + moved * by, (ZERO,)),
        )


def _flag(condition: Expr) -> Expr:
    return build.cast(condition, "int32")


def _both(a: Expr, b: Expr) -> Expr:
    return build.intrinsic("bitwise_and", a, b)


def _either(a: Expr, b: Expr) -> Expr:
    return build.intrinsic("bitwise_or", a, b)


def argsort_axis(x: te.Tensor, axis: int, descending: bool) -> te.Tensor:
    """Indices of the elements in sorted order: short runs by counting, then merged."""
    length = x.shape[axis]
    rest = [d for a, d in enumerate(x.shape) if a != axis]

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        def line(i: list[Var]) -> Stmt:
            return MergeSort(ins[0], length, descending).emit(
                lambda n: read(ins[0], index_at(i, axis, n)), lambda m, n: BufferStore(outs[0], n, index_at(i, axis, m))
            )

        return loop_over_lines(rest, line)

    return te.extern(x.shape, [x], emit, "order", "int64")


def loop_over_lines(shape: Sequence[Expr], line: Callable[[list[Var]], Stmt]) -> Stmt:
    """Loops over lines, of which threads share the outermost; what is done inside one line stays in order."""
    nest = loops(shape, line)
    return replace(nest, kind="parallel") if shape and type(nest) is For else nest


def topk_axis(x: te.Tensor, axis: int, descending: bool, count: Expr) -> tuple[te.Tensor, te.Tensor]:
    """The first ``count`` (at least one) elements of each line in sorted order, and their indices: each element that belongs among
    those kept so far is inserted there."""
    length = x.shape[axis]
    rest = [d for a, d in enumerate(x.shape) if a != axis]
    shape = put_at(x.shape, axis, count)

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        data, (values, order) = ins[0], outs

        def element(i: list[Var], n: Var) -> Stmt:
            value, position = Var("value", prim_type(data.dtype)), _counter("place")
            p = read(position, (ZERO,))

            def index(which: Expr) -> tuple[Expr, ...]:
                return index_at(i, axis, which)

            def store(buffer: Buffer, what: Expr, where: Expr) -> Stmt:
                return BufferStore(buffer, what, index(where))

            def earlier(which: Expr) -> Expr:
                return before(value, read(values, index(which)), descending)

            previous = p - 1
            move = seq(
                store(values, read(values, index(previous)), p), store(order, read(order, index(previous)), p),
                BufferStore(position, previous, (ZERO,)),
            )  # fmt: skip
            there = build.if_then_else(build.gt(p, ZERO), earlier(build.maximum(previous, ZERO)), build.const(False))
            insert = seq(
                AllocBuffer(position),
                BufferStore(position, build.minimum(n, count - 1), (ZERO,)),
                While(there, move),
                store(values, value, p),
                store(order, n, p),
            )
            last = count - 1
            belongs = build.if_then_else(build.lt(n, count), build.const(True), earlier(last))
            return seq(Bind(value, read(data, index(n))), IfThenElse(belongs, insert))

        if axis == len(x.shape) - 1:
            return loop_over_lines(rest, lambda i: serial_loop(length, lambda n: element(i, n), "n"))
        return serial_loop(length, lambda n: loops(rest, lambda i: element(i, n)), "n")

    values, indices = te.extern([shape, shape], [x], emit, "first", [x.data_type, "int64"])
    return values, indices
