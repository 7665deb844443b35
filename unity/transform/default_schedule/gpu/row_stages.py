"""Chains of consecutive stages over the same rows: at least one reduces along its row, the others are its producers or consumers.

The row loops of one stage follow from those of another through the buffers between them: an axis that one stage indexes by a
row loop must be indexed by a row loop of the other as well. Not here: how chains are scheduled (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....ir.buffer import Buffer
from ....ir.build import is_int
from ....ir.expr import IntImm, Var
from ....ir.scalar import BufferLoad
from ....ir.stmt import BufferStore
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, used_vars
from ...schedule import LoopRV, Schedule
from ...schedule.core.tree import ROOT
from ...tir.analysis.loop_nests import reduced_value, slope, stride_class
from .common.stages import Stage, is_simple, size_of, stage_of, variables

FEW_ROWS = 32
"""Below this number of rows, a stage without a reduction that has more than LONG elements per row does not join a chain."""
LONG = 1 << 16
LONGER = 64
"""Elements of a stage's row for each of the reduction's above which it does not join: the threads of the reduction are few."""
SHARED_BYTES = 16 * 1024
"""Most bytes of a row that are kept in shared memory."""


@dataclass(slots=True, frozen=True)
class Member:
    """A stage of a chain: its loops over rows, in the order of the rows, its loops along a row, and their iterators."""

    stage: Stage
    store: BufferStore
    rows: tuple[LoopRV, ...]
    inner: tuple[LoopRV, ...]
    row_vars: tuple[Var, ...]
    inner_vars: tuple[Var, ...]
    inner_extents: tuple[Expr, ...]

    @property
    def reduces(self) -> bool:
        """True if it reduces along the row."""
        return self.stage.block.init is not None

    @property
    def loads(self) -> list[BufferLoad]:
        """The elements that it reads, except the one that it writes."""
        return [load for load in collect(self.store.value, BufferLoad) if load.buffer is not self.store.buffer]

    @property
    def reads(self) -> set[Buffer]:
        """The buffers that it reads, except the one that it writes."""
        return {load.buffer for load in self.loads}


@dataclass(slots=True)
class RowStages:
    """A chain: the extents of the row loops, its stages in order, and for each buffer between them the row loop of each axis (None
    if there is none). ``own``: buffers that only these stages use."""

    extents: tuple[Expr, ...]
    members: list[Member]
    row_axes: dict[Buffer, tuple[int | None, ...]] = field(default_factory=dict)
    own: set[Buffer] = field(default_factory=set)

    def add(self, member: Member, number: int) -> None:
        """Insert a stage into the chain."""
        self.members.insert(number, member)
        self.row_axes[member.store.buffer] = _row_axes(member.store, member)

    @property
    def name(self) -> str:
        """The names of its blocks."""
        return ", ".join([member.stage.name for member in self.members])

    @property
    def anchor(self) -> Member:
        """The first stage that reduces."""
        return next(member for member in self.members if member.reduces)

    @property
    def rows_contiguous(self) -> bool:
        """True if contiguous elements of the largest operand of the first reduction belong to different rows."""
        anchor = self.anchor
        if not anchor.rows or not anchor.inner:
            return False
        loads = sorted(anchor.loads, key=lambda load: -len(load.indices))
        return bool(loads) and stride_class(loads[0], anchor.row_vars[-1]) == 1


def row_stages(sch: Schedule) -> list[RowStages]:
    """The chains of a program whose stages are not bound."""
    root = sch.get_block(ROOT)
    blocks = sch.get_child_blocks(root)
    stages = [stage_of(sch, rv) for rv in blocks]
    used = [{region.buffer for region in (*sch.get(rv).reads, *sch.get(rv).writes)} for rv in blocks]
    allocated = set(sch.get(root).alloc_buffers)
    found: list[RowStages] = []
    next_free = 0
    for number, stage in enumerate(stages):
        anchor = _anchor(stage) if number >= next_free and stage is not None else None
        if anchor is None:
            continue
        group = RowStages(tuple([stage.extents[stage.loops.index(loop)] for loop in anchor.rows]), [])  # type: ignore[union-attr]
        group.add(anchor, 0)
        first, last = number, number + 1
        while last < len(stages) and _extend(group, stages[last], before=False):
            last += 1
        while first > next_free and _extend(group, stages[first - 1], before=True):
            first -= 1
        while len(group.members) > 1 and _needs_exchange(group):
            group.members.pop()
            last -= 1
        outside = set().union(*used[:first], *used[last:])
        while not group.members[0].reduces and group.members[0].store.buffer not in allocated - outside:
            first += 1
            outside |= group.members.pop(0).reads
        group.own = {m.store.buffer for m in group.members} & (allocated - outside)
        found.append(group)
        next_free = last
    return found


def _member(stage: Stage, rows: Sequence[Var]) -> Member | None:
    """The stage with the given iterators as its rows; None if it reduces over only some of its other loops."""
    vars_ = variables(stage)
    store = stage.store
    assert store is not None
    row_loops = [stage.loops[vars_.index(var)] for var in rows]
    others = [
        k for k, loop in enumerate(stage.loops)
        if loop not in row_loops and not (is_int(stage.extents[k], 1) and stage.kinds[k] != "R")
    ]  # fmt: skip
    inner = [k for k in others if vars_[k] is not None]
    reduces = stage.block.init is not None
    if len(inner) != len(others) or any([(stage.kinds[k] == "R") != reduces for k in others]):
        return None
    if reduces and reduced_value(store) is None:
        return None
    return Member(
        stage, store, tuple(row_loops), tuple([stage.loops[k] for k in inner]), tuple(rows),
        tuple([v for k, v in enumerate(vars_) if k in inner and v is not None]),
        tuple([stage.extents[k] for k in inner]),
    )  # fmt: skip


def _anchor(stage: Stage) -> Member | None:
    """A stage that reduces along rows and reads its largest operand once."""
    if not is_simple(stage) or stage.block.init is None:
        return None
    rows = [v for v, kind, e in zip(variables(stage), stage.kinds, stage.extents) if kind == "S" and not is_int(e, 1)]
    found = _member(stage, [v for v in rows if v is not None])
    if found is None or not any([_reads_once(load, found, stage) for load in found.loads]):
        return None
    return found


def _reads_once(load: BufferLoad, member: Member, stage: Stage) -> bool:
    """True if every point of a stage reads a different element."""
    extents = {v: e for v, e in zip(variables(stage), stage.extents) if v is not None}
    alone: set[Var] = set()  # a diagonal has such an iterator more than once
    joined: list[Var] = []
    for index, width in zip(load.indices, load.buffer.shape):
        used = [v for v in used_vars(index) if v in extents and not is_int(extents[v], 1)]
        if len(used) == 1 and slope(index, used[0]) in (1, -1):
            alone.add(used[0])
            continue
        joined += used
        if used and not (type(width) is IntImm and size_of([extents[v] for v in used]) <= width.value):
            return False
    expected = {v for v in (*member.row_vars, *member.inner_vars) if not is_int(extents[v], 1)}
    return len(joined) == len(set(joined)) and alone.isdisjoint(joined) and expected == alone.union(joined)


def _extend(group: RowStages, stage: Stage | None, before: bool) -> bool:
    """Add a neighbouring stage to a chain where it works on the same rows."""
    if stage is None or not is_simple(stage) or stage.store is None:
        return False
    store = stage.store
    if before:
        row_axes = _axes_read(group, store.buffer)
        accesses: list[BufferLoad | BufferStore] = [store]
        if row_axes is None:
            return False
        known = {store.buffer: row_axes}
    else:
        accesses = [load for load in collect(store.value, BufferLoad) if load.buffer in group.row_axes]
        known = group.row_axes
        if store.buffer in group.row_axes or not accesses or any([store.buffer in m.reads for m in group.members]):
            return False
    rows = _rows_of(accesses, known, len(group.extents))
    vars_ = variables(stage)
    if rows is None or not all([var in vars_ and stage.kinds[vars_.index(var)] == "S" for var in rows]):
        return False
    if not all([structural_equal(stage.extents[vars_.index(var)], e) for var, e in zip(rows, group.extents)]):
        return False
    member = _member(stage, rows)
    if member is None:
        return False
    constant = all([type(e) is IntImm for e in (*group.extents, *member.inner_extents)])
    length = size_of(member.inner_extents)
    if constant and not member.reduces and size_of(group.extents) < FEW_ROWS and length > LONG:
        return False
    if constant and length > LONGER * size_of(group.anchor.inner_extents):
        return False
    group.add(member, 0 if before else len(group.members))
    return True


def _axes_read(group: RowStages, buffer: Buffer) -> tuple[int | None, ...] | None:
    """The row loop at each axis of a buffer, as the members of a chain read it; None if they do not read it, or disagree."""
    found = {_row_axes(load, member) for member in group.members for load in member.loads if load.buffer is buffer}
    written = any([member.store.buffer is buffer for member in group.members])
    return found.pop() if len(found) == 1 and not written else None


def _row_axes(access: BufferLoad | BufferStore, member: Member) -> tuple[int | None, ...]:
    rows: list[Expr] = list(member.row_vars)
    return tuple([next((k for k, var in enumerate(rows) if index is var), None) for index in access.indices])


def _rows_of(
    accesses: list[BufferLoad | BufferStore], known: dict[Buffer, tuple[int | None, ...]], count: int
) -> list[Var] | None:
    """The iterators at the axes of the rows."""
    found: dict[int, Var] = {}
    for access in accesses:
        for index, row in zip(access.indices, known[access.buffer]):
            if row is None:
                continue
            if not isinstance(index, Var) or found.setdefault(row, index) is not index:
                return None
    rows = [found[k] for k in range(count) if k in found]
    return rows if len(rows) == len(set(rows)) == count else None


def _needs_exchange(group: RowStages) -> bool:
    """True if the last member of a chain reads elements that another thread of its block computed and that are not in shared
    memory."""
    last = group.members[-1]
    for member in group.members[:-1]:
        if member.inner and not member.reduces and not reads_own(member, last) and not fits_shared(member):
            return True
    return False


def fits_shared(member: Member) -> bool:
    """True if shared memory can hold the elements of a row that a stage computes."""
    constant = all([type(e) is IntImm for e in member.inner_extents])
    return constant and size_of(member.inner_extents) * member.store.buffer.dtype.itemsize <= SHARED_BYTES


def reads_own(writer: Member, reader: Member) -> bool:
    """True if each thread reads only the elements of a buffer that it writes, because both stages go over them in the same
    order."""
    loads = [load for load in reader.loads if load.buffer is writer.store.buffer]
    if loads and not structural_equal(writer.inner_extents, reader.inner_extents):
        return False
    mapping = dict(zip((*writer.row_vars, *writer.inner_vars), (*reader.row_vars, *reader.inner_vars)))
    expected = [mapping.get(i, i) if isinstance(i, Var) else i for i in writer.store.indices]
    return all([structural_equal(tuple(expected), load.indices) for load in loads])
