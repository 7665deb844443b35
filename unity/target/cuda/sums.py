"""Sums of products in registers that PTX names.

The sums of warpgroups are registers by name: a product goes on beside other instructions, and waits for one that copies its sums.
So are the many float32 sums of a thread, to which loops that are written out add products: as values they are thousands of nodes
for LLVM, which takes half of its time for them; as text several products are one. The assembler makes the same code of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.analysis.reductions import is_cell
from ...ir.buffer import Buffer
from ...ir.build import dtype_of, is_int
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.scalar import Add, Broadcast, BufferLoad, Mul, Ramp
from ...ir.stmt import BufferStore, For
from ...ir.types import Expr
from ...ir.walk import collect, used_vars
from ...support.errors import CodegenError
from ..llvm.indices import Offset, index_parts
from ..llvm.lltypes import memory_type, value_type
from ..llvm.small_indices import INDEX
from ..llvm.writer import STATEMENTS, FunctionWriter
from .registers import assembly, structure
from .written_loops import is_local, is_written_out

TOGETHER = 8
"""Rows of products that are added by one text."""
LEAST_LANES = 4
"""Least length of a row of sums whose names pay: they are read and given values one by one."""


@dataclass(slots=True)
class Sums:
    """Registers of 32 bits that PTX names, for the sums of a product of warpgroups, or for many of one thread."""

    name: str
    buffer: Buffer
    additions: frozenset[BufferStore] = frozenset()
    """The stores that add products."""
    waiting: list[tuple[int, list[str], list[str]]] = field(default_factory=list)
    """Products that wait to be added: the number of the first sum, the factors of each."""
    lanes: dict[str, list[str]] = field(default_factory=dict)
    """Those of vectors of the block."""

    def declare(self, w: FunctionWriter, count: int) -> None:
        """Have the registers of an array of ``count`` elements."""
        words = -(-count * self.buffer.dtype.itemsize // 4)
        w.entry.append(f'  call void asm sideeffect ".reg .b32 {self.name}<{words}>;", ""()')

    def read(self, w: FunctionWriter, offset: Offset | None, lanes: int, ty: str) -> str:
        """Operand of elements one after the other."""
        self._add(w)
        first, read = self._number(offset), self._read_words if self.buffer.dtype.itemsize == 4 else self._read_halves
        texts = read(w, first, lanes)
        if lanes == 1:
            return texts[0]
        result = "poison"
        for lane, text in enumerate(texts):
            result = w.emit(f"insertelement {ty} {result}, {self._element} {text}, i64 {lane}")
        return result

    def write(self, w: FunctionWriter, offset: Offset | None, lanes: int, ty: str, text: str) -> bool:
        """Elements one after the other get values."""
        self._add(w)
        first = self._number(offset)
        parts = self.lanes_of(w, ty, text, lanes)
        if self.buffer.dtype.itemsize == 4:
            moves = [f"mov.b32 {self.name}{first + lane}, ${lane};" for lane in range(lanes)]
            assembly(w, " ".join(moves), (), *[(self._element, part) for part in parts])
            return True
        for lane, part in enumerate(parts):
            word, half = divmod((first + lane) * self.buffer.dtype.itemsize, 4)
            pair = "{old, $0}" if half else "{$0, old}"
            kept = "{old, other}" if half else "{other, old}"
            register = f"{self.name}{word}"
            move = f"{{ .reg .b16 old, other; mov.b32 {kept}, {register}; mov.b32 {register}, {pair}; }}"
            assembly(w, move, (), (self._element, part))
        return True

    def add_products(self, w: FunctionWriter, offset: Offset, left: list[str], right: list[str]) -> None:
        """Add a product to each sum from a place on, now or with others that follow."""
        self.waiting.append((self._number(offset), left, right))
        if len(self.waiting) == TOGETHER:
            self._add(w)

    def _add(self, w: FunctionWriter) -> None:
        """Add the products that wait."""
        waiting, self.waiting = self.waiting, []  # before a check that the block waits for ends it
        operands: dict[str, int] = {}
        texts = []
        for first, *factors in waiting:
            left, right = [[operands.setdefault(factor, len(operands)) for factor in part] for part in factors]
            sums = [f"{self.name}{number}" for number in range(first, first + len(left))]
            texts += [f"fma.rn.f32 {cell}, ${a}, ${b}, {cell};" for cell, a, b in zip(sums, left, right)]
        if texts:
            given = ", ".join([f"float {operand}" for operand in operands])
            w.do(f'call void asm sideeffect "{" ".join(texts)}", "{",".join("f" * len(operands))}"({given})')

    def end_block(self, w: FunctionWriter) -> None:
        """Nothing waits: factors are operands of the block."""
        self._add(w)

    def begin_block(self) -> None:
        """Registers stay."""
        self.lanes.clear()

    def lanes_of(self, w: FunctionWriter, ty: str, text: str, lanes: int) -> list[str]:
        """Operands of the lanes of a vector."""
        if lanes == 1:
            return [text]
        if text not in self.lanes:
            self.lanes[text] = [w.emit(f"extractelement {ty} {text}, i64 {lane}") for lane in range(lanes)]
        return self.lanes[text]

    def words(self, w: FunctionWriter, offset: Expr, count: int) -> str:
        """Registers as PTX lists them, from an offset in elements on."""
        word = self._number(index_parts(w, offset)) * self.buffer.dtype.itemsize // 4
        return ", ".join([f"{self.name}{number}" for number in range(word, word + count)])

    @property
    def _element(self) -> str:
        return memory_type(self.buffer.dtype)

    def _read_words(self, w: FunctionWriter, first: int, count: int) -> list[str]:
        moves = [f"mov.b32 ${lane}, {self.name}{first + lane};" for lane in range(count)]
        kinds = [self._element] * count
        made = assembly(w, " ".join(moves), kinds)
        parts = [f"extractvalue {structure(kinds)} {made}, {lane}" for lane in range(count)]
        return [made] if count == 1 else [w.emit(part) for part in parts]

    def _read_halves(self, w: FunctionWriter, first: int, count: int) -> list[str]:
        parts = []
        for number in range(first, first + count):
            word, half = divmod(number * self.buffer.dtype.itemsize, 4)
            pair = "{other, $0}" if half else "{$0, other}"
            move = f"{{ .reg .b16 other; mov.b32 {pair}, {self.name}{word}; }}"
            parts.append(assembly(w, move, [self._element]))
        return parts

    def _number(self, offset: Offset | None) -> int:
        if offset is None or offset[0] != "0":
            raise CodegenError(
                "E526", f"{self.buffer.name} has sums of warpgroups, which are registers: its indices are constants",
                help="write the loop over it with T.unroll",
            )  # fmt: skip
        return offset[1]


def many_sums(func: PrimFunc) -> dict[Var, frozenset[BufferStore]]:
    """The arrays of float32 of a thread to which rows of products are added, and all whose places are known when loops are written
    out; the stores that add."""
    stores = collect(func.body, BufferStore)
    found: dict[Var, list[BufferStore]] = {}
    for store in stores:
        if _adds_products(store):
            found.setdefault(store.buffer.data, []).append(store)
    rows = {data for data, adds in found.items() if max([dtype_of(add.value).lanes for add in adds]) >= LEAST_LANES}
    written = {loop.loop_var for loop in collect(func.body, For) if is_written_out(loop)} if rows else set()
    for access in (*stores, *collect(func.body, BufferLoad)) if rows else ():
        if access.buffer.data in rows and not (access.predicate is None and _is_known(access.indices, written)):
            rows.discard(access.buffer.data)
    return {data: frozenset(found[data]) for data in rows}


def _adds_products(store: BufferStore) -> bool:
    value = store.value
    is_sum = type(value) is Add and type(value.b) is Mul and is_cell(value.a, store)
    return is_sum and store.buffer.dtype.name == "float32" and is_local(store.buffer.data)


def _first(indices: tuple[Expr, ...]) -> Expr | None:
    """The index of one element, or of the first of several one after the other; None for others."""
    if len(indices) != 1:
        return None
    index = indices[0]
    first = index.base if type(index) is Ramp and is_int(index.stride, 1) else index
    return first if first.ty is INDEX else None


def _is_known(indices: tuple[Expr, ...], written: set[Var]) -> bool:
    """True for a place that depends on nothing but loops that are written out."""
    first = _first(indices)
    return first is not None and not collect(first, BufferLoad) and written.issuperset(used_vars(first))


def store(w: FunctionWriter, stmt: BufferStore) -> None:
    """A store; products that may be contracted are added to the sums of a thread by their names."""
    place, value = w.places.get(stmt.buffer.data), stmt.value
    first = _first(stmt.indices) if w.fast and type(place) is Sums and stmt in place.additions else None
    if first is None:
        STATEMENTS[BufferStore](w, stmt)
        return
    assert type(place) is Sums and type(value) is Add and type(value.b) is Mul
    left, right = [_factors(w, place, factor, dtype_of(value).lanes) for factor in (value.b.a, value.b.b)]
    place.add_products(w, index_parts(w, first), left, right)


def _factors(w: FunctionWriter, place: Sums, factor: Expr, lanes: int) -> list[str]:
    if type(factor) is Broadcast:
        return [w.value(factor.value)] * lanes
    return place.lanes_of(w, value_type(dtype_of(factor)), w.value(factor), lanes)
