"""auto_inline: blocks whose values are cheaper to compute again than to keep are inlined into their readers.

A block is inlined when nothing is computed more often than before (every element is read at most once), or when its value is
cheap (no transcendental function) and no reduction would repeat it within itself; a value of few operations may be computed by
two or three reductions each (the rows of a softmax or a normalisation). What a program computes does not change by a bit.
Here: when inlining pays. Not here: how it is done
(`transform/schedule/rewrites/inline_blocks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.analysis.regions import opaque_buffers
from ....ir.buffer import Buffer
from ....ir.build import is_int
from ....ir.expr import Call, FloatImm, IntImm, Var
from ....ir.function import PrimFunc, is_scheduled
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Div, FloorDiv, FloorMod, Let, Mod, Mul
from ....ir.stmt import NOTHING, AllocBuffer, Block, BlockRealize, BufferStore, For, SeqStmt, Stmt, seq
from ....ir.structural import structural_equal, structural_hash
from ....ir.types import Expr
from ....ir.walk import children, collect, used_vars
from ...infra.passes import prim_func_pass
from ...schedule.rewrites.inline_blocks import Definition, definition, inline_reads, is_vector_load, realizes
from ...tir.analysis.loop_nests import slope

CHEAP_CALLS = frozenset([
    "T.if_then_else", "T.abs", "T.floor", "T.ceil", "T.trunc", "T.round", "T.nearbyint", "T.isnan", "T.isinf",
    "T.isfinite", "T.likely", "T.fma", "T.copysign", "T.bitwise_and", "T.bitwise_or", "T.bitwise_xor", "T.bitwise_not",
    "T.shift_left", "T.shift_right", "T.reinterpret",
])  # fmt: skip
"""Intrinsics of about one instruction."""


def is_expensive(value: Expr) -> bool:
    """True when computing the value once more costs more than reading it: transcendental functions, divisions of data."""
    for call in collect(value, Call):
        if call.op_name not in CHEAP_CALLS:
            return True
    return any([collect(node, BufferLoad) for node in collect(value, (Div, Mod, FloorDiv, FloorMod))])


class Size:
    """A product of extents: a number times symbolic factors."""

    __slots__ = ("factors", "number")

    def __init__(self, extents: list[Expr]) -> None:
        self.number = 1
        self.factors: list[Expr] = []
        work = list(extents)
        while work:
            extent = work.pop()
            if type(extent) is Mul:
                work += [extent.a, extent.b]
            elif type(extent) is IntImm:
                self.number *= extent.value
            else:
                self.factors.append(extent)

    def at_most(self, other: Size, times: int = 1) -> bool:
        """True when ``self * times <= other`` is seen (symbols are at least 1 for this purpose)."""
        left = list(other.factors)
        for factor in self.factors:
            match = next((i for i, f in enumerate(left) if f is factor or structural_equal(f, factor)), -1)
            if match < 0:
                return False
            del left[match]
        return self.number * times <= other.number


@dataclass(slots=True)
class Reading:
    """The reads of a buffer by one block: at how many places, how often it runs, and whether it reduces. A block that is ``closed``
    holds more than one store: how often that reads is not known."""

    realize: BlockRealize
    loads: list[BufferLoad]
    runs: Size
    reduces: bool
    closed: bool


def readings(blocks: list[BlockRealize], only: Buffer | None = None) -> dict[Buffer, list[Reading]]:
    """For each buffer, or ``only`` one, the blocks that read it."""
    found: dict[Buffer, list[Reading]] = {}
    for realize in blocks:
        by_buffer: dict[Buffer, list[BufferLoad]] = {}
        for load in collect(realize.block, BufferLoad):
            if only is not None and load.buffer is not only:
                continue
            by_buffer.setdefault(load.buffer, []).append(load)
        extents = [i.domain.extent for i in realize.block.iter_vars]
        reduces = any([i.kind != "S" for i in realize.block.iter_vars])
        closed = type(realize.block.body) is not BufferStore
        for buffer, loads in by_buffer.items():
            found.setdefault(buffer, []).append(
                Reading(realize, _distinct_indices(loads), Size(extents), reduces, closed)
            )
    return found


def _distinct_indices(loads: list[BufferLoad]) -> list[BufferLoad]:
    """One load for each different place."""
    if len(loads) == 1:
        return loads
    found: dict[int, list[BufferLoad]] = {}
    for load in loads:
        same = found.setdefault(structural_hash(load.indices), [])
        if not any([structural_equal(load.indices, known.indices) for known in same]):
            same.append(load)
    return [load for same in found.values() for load in same]


def repeats(found: list[Reading], buffer: Buffer) -> bool:
    """True when some element may be read more than once."""
    whole = Size(list(buffer.shape))
    if any([r.closed for r in found]):
        return True
    if len(found) == 1:
        return not _reads_once(found[0]) and not found[0].runs.at_most(whole, len(found[0].loads))
    total = sum([r.runs.number * len(r.loads) for r in found])
    return not all([r.runs.at_most(whole) for r in found]) or total > whole.number


def _reads_once(reading: Reading) -> bool:
    """True when every point of the block reads another element: each iterator stands in an index of its own, shifted at most."""
    if len(reading.loads) != 1:
        return False
    variables = [i.var for i in reading.realize.block.iter_vars if not is_int(i.domain.extent, 1)]
    found: set[Expr] = set()
    for index in reading.loads[0].indices:
        used = [v for v in used_vars(index) if v in variables]
        if len(used) == 1 and slope(index, used[0]) in (1, -1):
            found.add(used[0])
    return len(found) == len(variables)


def each_reads_once(found: list[Reading], buffer: Buffer) -> bool:
    """True when every block by itself reads an element at most once."""
    whole = Size(list(buffer.shape))
    return all([not r.closed and (_reads_once(r) or r.runs.at_most(whole, len(r.loads))) for r in found])


def work(value: Expr) -> int:
    """Operations on data in a value; arithmetic of indices is not counted."""
    count, stack = 0, [value]
    while stack:
        node = stack.pop()
        if type(node) is BufferLoad:
            continue
        count += not isinstance(node, (IntImm, FloatImm, Var, Let))
        stack += [child for child in children(node) if isinstance(child, Expr)]
    return count


def nodes(value: Expr) -> int:
    """Size of a value as text, arithmetic of indices included."""
    count, stack = 0, [value]
    while stack:
        count += 1
        stack += [child for child in children(stack.pop()) if isinstance(child, Expr)]
    return count


MOST_NODES = 2000
"""Largest growth of a program by copies of one value: chains of values read twice each would double with every link."""
MOST_INLINED = 128
"""Blocks that one reader takes in: each inlining walks the reader, so that chains of thousands would take quadratic time."""
SMALL_WORK = 8
"""Operations that cost less than writing a value and reading it back."""
MANY_READERS = 3
"""Most blocks of a program that each compute a value again instead of reading it."""


def plain_blocks(body: Stmt) -> list[BlockRealize] | None:
    """The blocks of a body where none holds another one, else None."""
    found = realizes(body)
    inner = [r for outer in found for r in realizes(outer.block.body)]
    return None if inner else found


class Statements:
    """The statements of a body at its top level, the buffers allocated there, and which statements write what."""

    def __init__(self, body: Stmt) -> None:
        self.stmts = list(body.stmts) if type(body) is SeqStmt else [body]
        self.own = {s.buffer: k for k, s in enumerate(self.stmts) if type(s) is AllocBuffer}
        self.writers: dict[Var, list[int]] = {}
        shared: dict[Var, Buffer] = {}
        self.blocked: set[Buffer] = set(opaque_buffers(body))
        """Buffers reached through pointers, views, masks or lanes."""
        for buffer in collect(body, Buffer):
            other = shared.setdefault(buffer.data, buffer)
            if other is not buffer:
                self.blocked |= {buffer, other}
        for index, stmt in enumerate(self.stmts):
            self.enter(index, collect(stmt, (BufferLoad, BufferStore, Block)))

    def enter(self, index: int, nodes: Sequence[Any]) -> None:
        """Record the writes of a statement."""
        for data in {node.buffer.data for node in nodes if type(node) is BufferStore}:
            self.writers.setdefault(data, []).append(index)


class _Program(Statements):
    """The statements with what each reads. Known once, updated where something changes."""

    def __init__(self, body: Stmt) -> None:
        self.blocks: dict[int, list[BlockRealize]] = {}
        self.readers: dict[Buffer, set[int]] = {}
        super().__init__(body)
        self.taken = [0] * len(self.stmts)
        """Blocks that each statement has taken in."""

    def enter(self, index: int, nodes: Sequence[Any]) -> None:
        super().enter(index, nodes)
        self.read(index, nodes)
        for node in nodes:
            if type(node) is Block:
                self.blocked.update([m.source.buffer for m in node.match_buffers])
            elif type(node) is BufferLoad and is_vector_load(node):
                self.blocked.add(node.buffer)

    def read(self, index: int, nodes: Sequence[Any]) -> None:
        """Record the blocks of a statement and what it reads: the loads among its nodes."""
        self.blocks[index] = realizes(self.stmts[index])
        for buffer in {node.buffer for node in nodes if type(node) is BufferLoad}:
            self.readers.setdefault(buffer, set()).add(index)

    def candidate(self, index: int) -> Definition | None:
        """The value that the statement computes, where it may and should be inlined."""
        blocks = self.blocks[index]
        store = blocks[0].block.body if len(blocks) == 1 else None
        if type(store) is not BufferStore or store.buffer not in self.own or store.buffer in self.blocked:
            return None
        if self.writers[store.buffer.data] != [index] or not _only_loops(self.stmts[index]):
            return None
        found = definition(blocks[0])
        if isinstance(found, str):
            return None
        users = sorted(self.readers.get(store.buffer, set()) - {index})
        if (
            not users
            or users[0] < index
            or max([self.taken[user] for user in users]) + self.taken[index] >= MOST_INLINED
        ):
            return None
        sources = {load.buffer.data for load in collect(found.value, BufferLoad)}
        if any([at > index for data in sources for at in self.writers.get(data, ())]):
            return None
        reading = readings([r for user in users for r in self.blocks[user]], store.buffer).get(store.buffer, [])
        return found if _is_profitable(found, reading) else None

    def inline(self, index: int, found: Definition) -> None:
        """Put the value where it is read and drop the statement and the buffer."""
        self.stmts[index] = self.stmts[self.own.pop(found.buffer)] = NOTHING
        for buffer in list(self.readers):
            self.readers[buffer].discard(index)
        for user in self.readers.pop(found.buffer, set()):
            self.stmts[user] = inline_reads(self.stmts[user], found)
            self.taken[user] += 1 + self.taken[index]
            self.read(user, collect(self.stmts[user], BufferLoad))


def _only_loops(stmt: Stmt) -> bool:
    """True for loops around one block: nothing else happens there."""
    while type(stmt) is For:
        stmt = stmt.body
    return type(stmt) is BlockRealize


def _is_profitable(producer: Definition, found: list[Reading]) -> bool:
    if not repeats(found, producer.buffer):
        return bool(found)
    if is_expensive(producer.value):
        return False
    copies = sum([len(reading.loads) for reading in found])
    if copies > 1 and copies * nodes(producer.value) > MOST_NODES:
        return False
    if not any([reading.reduces or reading.closed for reading in found]):
        return True
    few = len(found) <= MANY_READERS and work(producer.value) <= SMALL_WORK
    return few and each_reads_once(found, producer.buffer)


def inline_all(body: Stmt) -> Stmt:
    """The body with every block inlined for which it pays, readers first, so that a value has few readers left."""
    if type(body) is not SeqStmt or plain_blocks(body) is None:
        return body
    program = _Program(body)
    for index in reversed(range(len(program.stmts))):
        found = program.candidate(index)
        if found is not None:
            program.inline(index, found)
    return seq(*program.stmts, old=body)


@prim_func_pass()
def auto_inline(func: PrimFunc) -> PrimFunc:
    """Inline blocks whose values are cheaper to compute again than to keep.

    For unscheduled programs with blocks. Results are the same to the bit.
    """
    if is_scheduled(func):
        return func
    return replace(func, body=inline_all(func.body))
