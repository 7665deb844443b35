"""Memory that statements touch: the regions that a block reads and writes, buffers whose accesses cannot be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..buffer import Buffer, BufferRegion, Range
from ..build import add, const, dtype_of, floordiv, maximum, minimum, mul, sub
from ..expr import Call, IntImm, Var
from ..node import Node
from ..scalar import Add, BufferLoad, FloorDiv, FloorMod, Let, Max, Min, Mul, Ramp, Sub
from ..stmt import AllocBuffer, AllocConst, Block, BlockRealize, BufferStore, DeclBuffer, For
from ..structural import structural_equal
from ..types import Expr
from ..walk import children, free_vars, nodes_in, substitute, used_vars

Bounds = dict[Var, tuple[Expr, Expr]]
"""Inner variables with their least and greatest values."""


def opaque_buffers(root: Node) -> list[Buffer]:
    """Buffers whose address is taken or whose pointer is passed on: their accesses cannot be seen."""
    return opaque_in(nodes_in(root))


def opaque_in(nodes: Sequence[Node]) -> list[Buffer]:
    """``opaque_buffers`` of what a walk has found."""
    buffers = {b.data: b for b in nodes if type(b) is Buffer}
    found: dict[Buffer, None] = {}
    for call in nodes:
        if not isinstance(call, Call):
            continue
        if call.op_name == "T.address_of" and type(call.args[0]) is BufferLoad:
            found[call.args[0].buffer] = None
        for arg in call.args:
            if isinstance(arg, Var) and arg in buffers:
                found[buffers[arg]] = None
    return list(found)


class _Interval:
    """``base + [low, high]``: base has no inner variable; low and high are expressions of the inner extents."""

    __slots__ = ("base", "high", "low")

    def __init__(self, base: Expr, low: Expr, high: Expr) -> None:
        self.base, self.low, self.high = base, low, high

    def range(self) -> Range:
        """As a Range."""
        one = const(1, dtype_of(self.base))
        return Range(add(self.base, self.low), add(sub(self.high, self.low), one))


def _zero(expr: Expr) -> Expr:
    return const(0, dtype_of(expr).element)


def _interval(expr: Expr, inner: Bounds) -> _Interval | None:
    """Values of an index while the inner variables run; None when not seen."""
    if not any([v in inner for v in free_vars(expr)]) and type(expr) is not Ramp:
        return _Interval(expr, _zero(expr), _zero(expr))
    match expr:
        case Var():
            low, high = inner[expr]
            return _Interval(low, _zero(expr), sub(high, low))
        case Add() | Sub():
            a, b = _interval(expr.a, inner), _interval(expr.b, inner)
            if a is None or b is None:
                return None
            if isinstance(expr, Add):
                return _Interval(add(a.base, b.base), add(a.low, b.low), add(a.high, b.high))
            return _Interval(sub(a.base, b.base), sub(a.low, b.high), sub(a.high, b.low))
        case Mul():
            factor, other = (expr.b, expr.a) if type(expr.b) is IntImm else (expr.a, expr.b)
            a = _interval(other, inner) if type(factor) is IntImm else None
            if a is None or type(factor) is not IntImm:
                return None
            low, high = mul(a.low, factor), mul(a.high, factor)
            if factor.value < 0:
                low, high = high, low
            return _Interval(mul(a.base, factor), low, high)
        case FloorDiv() if type(expr.b) is IntImm and expr.b.value > 0:
            a = _interval(expr.a, inner)
            if a is None:
                return None
            low, high = floordiv(add(a.base, a.low), expr.b), floordiv(add(a.base, a.high), expr.b)
            return _Interval(low, _zero(low), sub(high, low))
        case FloorMod() if type(expr.b) is IntImm and expr.b.value > 0:
            return _Interval(_zero(expr), _zero(expr), sub(expr.b, const(1, dtype_of(expr.b))))
        case Min() | Max():
            a, b = _interval(expr.a, inner), _interval(expr.b, inner)
            if a is None or b is None:
                return None
            pick = minimum if isinstance(expr, Min) else maximum
            low = pick(add(a.base, a.low), add(b.base, b.low))
            high = pick(add(a.base, a.high), add(b.base, b.high))
            return _Interval(low, _zero(low), sub(high, low))
        case Ramp() if type(expr.stride) is IntImm:
            a = _interval(expr.base, inner)
            if a is None:
                return None
            reach = const(expr.stride.value * (expr.lanes - 1), dtype_of(expr.base))
            return _Interval(a.base, minimum(a.low, add(a.low, reach)), maximum(a.high, add(a.high, reach)))
    return None


class _Touched:
    """Regions per buffer, joined as they come."""

    def __init__(self) -> None:
        self.boxes: dict[Buffer, list[_Interval | None]] = {}

    def add(self, buffer: Buffer, box: list[_Interval | None]) -> None:
        """Join a box of a buffer with what is known."""
        known = self.boxes.get(buffer)
        if known is None:
            self.boxes[buffer] = box
            return
        self.boxes[buffer] = [_join(a, b) for a, b in zip(known, box)]

    def regions(self) -> tuple[BufferRegion, ...]:
        """As BufferRegions; an unknown axis is the whole axis."""
        found = []
        for buffer, box in self.boxes.items():
            ranges = [
                interval.range() if interval is not None else Range(_zero(dim), dim)
                for interval, dim in zip(box, buffer.shape)
            ]
            found.append(BufferRegion(buffer, tuple(ranges)))
        return tuple(found)


def _join(a: _Interval | None, b: _Interval | None) -> _Interval | None:
    if a is None or b is None:
        return None
    if structural_equal(a.base, b.base):
        return _Interval(a.base, minimum(a.low, b.low), maximum(a.high, b.high))
    if type(a.base) is IntImm and type(b.base) is IntImm:
        zero = _zero(a.base)
        low = minimum(add(a.base, a.low), add(b.base, b.low))
        high = maximum(add(a.base, a.high), add(b.base, b.high))
        return _Interval(low, zero, sub(high, low))
    base_a, offset_a = _split_offset(a.base)
    base_b, offset_b = _split_offset(b.base)
    if structural_equal(base_a, base_b):
        low = minimum(add(a.low, offset_a), add(b.low, offset_b))
        return _Interval(base_a, low, maximum(add(a.high, offset_a), add(b.high, offset_b)))
    return None


def _split_offset(expr: Expr) -> tuple[Expr, Expr]:
    if isinstance(expr, (Add, Sub)) and type(expr.b) is IntImm:
        return expr.a, expr.b if isinstance(expr, Add) else const(-expr.b.value, expr.ty.dtype)
    return expr, _zero(expr)


class _RegionWalk:
    def __init__(self) -> None:
        self.reads, self.writes = _Touched(), _Touched()
        self.local: set[Buffer] = set()
        self.views: dict[Buffer, BufferRegion] = {}
        self.inner: Bounds = {}
        self.lets: dict[Var, Expr] = {}
        """Values of the local variables around, of which indices are made."""

    def named(self, index: Expr) -> Expr:
        """An index without local variables."""
        while self.lets and not self.lets.keys().isdisjoint(used_vars(index)):
            index = substitute(index, self.lets)
        return index

    def touch(self, touched: _Touched, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        if buffer in self.views:
            source = self.views[buffer]
            self.region(touched, source)
        elif buffer not in self.local:
            touched.add(buffer, [_interval(self.named(i), self.inner) for i in indices])

    def region(self, touched: _Touched, region: BufferRegion) -> None:
        """A whole region of a nested block or view."""
        if region.buffer in self.local:
            return
        box: list[_Interval | None] = []
        for bounds in region.region:
            low = _interval(bounds.min, self.inner)
            extent = _interval(bounds.extent, self.inner)
            if low is None or extent is None:
                box.append(None)
                continue
            one = const(1, dtype_of(bounds.extent))
            box.append(_Interval(low.base, low.low, add(low.high, sub(add(extent.base, extent.high), one))))
        touched.add(region.buffer, box)

    def visit(self, node: Any) -> None:
        kind = type(node)
        if kind is BufferLoad:
            self.touch(self.reads, node.buffer, node.indices)
        elif kind is BufferStore:
            self.touch(self.writes, node.buffer, node.indices)
        if kind is For:
            self.visit(node.min)
            self.visit(node.extent)
            low, high = _interval(node.min, self.inner), _interval(node.extent, self.inner)
            first = add(low.base, low.low) if low is not None else node.min
            reach = add(high.base, high.high) if high is not None else node.extent
            last = add(add(low.base, low.high), reach) if low is not None else add(node.min, reach)
            self.inner[node.loop_var] = (first, sub(last, const(1, dtype_of(node.loop_var))))
            self.visit(node.body)
            del self.inner[node.loop_var]
        elif kind is BlockRealize:
            for value in (*node.iter_values, node.predicate):
                self.visit(value)
            reads, writes = block_regions(node.block)
            mapping = {iv.var: value for iv, value in node.bindings}
            for touched, regions in ((self.reads, reads), (self.writes, writes)):
                for region in regions:
                    self.region(touched, substitute_region(region, mapping))
        elif kind in (AllocBuffer, AllocConst, DeclBuffer):
            self.local.add(node.buffer)
        elif kind is Let:
            self.visit(node.value)
            outer = self.lets
            self.lets = {**outer, node.var: node.value}
            self.visit(node.body)
            self.lets = outer
        elif not node.is_reference:
            for child in children(node):
                self.visit(child)


def substitute_region(region: BufferRegion, mapping: Mapping[Var, Expr]) -> BufferRegion:
    """A region with variables replaced; the buffer stays."""
    return BufferRegion(
        region.buffer,
        tuple([Range(substitute(r.min, mapping), substitute(r.extent, mapping)) for r in region.region]),
        region.span,
    )


def block_regions(block: Block, derive: bool = False) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """(reads, writes) of a block: what it declares, else (or with ``derive``) what follows from its body.

    Inner loops are widened to their whole range, an index that is not understood to the whole axis. Buffers allocated inside
    do not count. A reduction's read of the cell it updates is left out, as in a declaration.
    """
    if not derive and block.reads is not None and block.writes is not None:
        return block.reads, block.writes
    walk = _RegionWalk()
    walk.local.update(block.alloc_buffers)
    walk.views = {m.buffer: m.source for m in block.match_buffers}
    if block.init is not None:
        walk.visit(block.init)
    walk.visit(block.body)
    for buffer in opaque_buffers(block.body):
        if buffer not in walk.local and buffer not in walk.views:
            whole: list[_Interval | None] = [None] * len(buffer.shape)
            walk.reads.add(buffer, whole)
            walk.writes.add(buffer, list(whole))
    writes = walk.writes.regions()
    reads = walk.reads.regions()
    if block.init is not None:
        written = {w.buffer: w for w in writes}
        reads = tuple([r for r in reads if r.buffer not in written or not structural_equal(r, written[r.buffer])])
    if not derive:
        reads = block.reads if block.reads is not None else reads
        writes = block.writes if block.writes is not None else writes
    return reads, writes
