"""Where the numbers of a thread are while its kernel is written: what a block knows of its arrays.

Arrays of a thread are indexed by constants, because loops over them are written out. So a block knows what it stored: a read takes
the operand, and only the last value of each cell is stored, where the block ends. LLVM makes registers of what is left. Sums of
products are registers by name (`sums.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ffi.dtype import DataType
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.function import PrimFunc
from ...ir.scalar import BufferLoad
from ...ir.stmt import AllocBuffer, Bind, DeclBuffer
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import CodegenError
from ..llvm.indices import Offset, index_parts
from ..llvm.lltypes import memory_type
from ..llvm.vectors import shuffled
from ..llvm.writer import FunctionWriter
from .registers import LOCAL, element, structure
from .sums import Sums, many_sums

Words = tuple[Expr, Expr, DataType]
"""A place in an array of a thread: its pointer, an offset and the type in which it counts."""
REGISTERS = {
    "T.ptx_mma": (6, 8, 10), "T.ptx_ldmatrix": (3,), "T.ptx_wgmma": (6, 10), "T.tvm_fill_fragment": (0,),
    "T.tvm_load_matrix_sync": (0,), "T.tvm_store_matrix_sync": (0,), "T.tvm_mma_sync": (0, 2, 4, 6),
}  # fmt: skip
"""The arguments of matrix instructions that are arrays of a thread: the next one says which elements."""


@dataclass(slots=True)
class _Cell:
    """Elements of an array that are known together. ``waits``: memory does not have them yet."""

    first: int
    lanes: int
    ty: str
    text: str
    waits: bool


@dataclass(slots=True)
class Cells:
    """An array of a thread, as far as the current block knows it."""

    element: str
    """LLVM type of an element."""
    itemsize: int
    pointer: str = ""
    """Given when the array is allocated."""
    known: dict[int, _Cell] = field(default_factory=dict)
    """By element."""

    def read(self, w: FunctionWriter, offset: Offset | None, lanes: int, ty: str) -> str | None:
        """Operand of elements one after the other as an LLVM type; None where it is not known now which they are: memory has
        them all then."""
        if offset is None or offset[0] != "0":
            self.end_block(w)
            return None
        first = offset[1]
        cell = self.known.get(first)
        if cell is None or cell.first + cell.lanes < first + lanes:
            halves = self._joined(w, first, lanes, ty)
            if halves:
                return halves
        elif cell.first == first and cell.lanes == lanes:
            return cell.text if cell.ty == ty else w.emit(f"bitcast {cell.ty} {cell.text} to {ty}")
        elif cell.ty == f"<{cell.lanes} x {ty}>":
            return w.emit(f"extractelement {cell.ty} {cell.text}, i64 {first - cell.first}")
        self._leave_memory(w, first, lanes, read=True)
        text = w.emit(f"load {ty}, {LOCAL} {self._address(w, first)}, align {self.itemsize}")
        return self._know(_Cell(first, lanes, ty, text, False)).text

    def _joined(self, w: FunctionWriter, first: int, lanes: int, ty: str) -> str:
        """Elements as the two vectors of one length that are known of them; "" where they are not."""
        low, high = self.known.get(first), self.known.get(first + lanes // 2)
        if low is None or high is None or (low.first, low.lanes) != (first, lanes // 2) or low.ty != high.ty:
            return ""
        if (high.first, high.lanes) != (first + low.lanes, low.lanes) or ty != low.ty.replace(
            f"<{low.lanes}", f"<{lanes}"
        ):
            return ""
        return shuffled(w, low.ty, low.text, range(lanes), high.text)

    def write(self, w: FunctionWriter, offset: Offset | None, lanes: int, ty: str, text: str) -> bool:
        """Elements one after the other get values; False where it is not known now which they are: what is known is stored, and
        forgotten."""
        if offset is None or offset[0] != "0":
            self.end_block(w)
            self.begin_block()
            return False
        self._leave_memory(w, offset[1], lanes, read=False)
        self._know(_Cell(offset[1], lanes, ty, text, True))
        return True

    def end_block(self, w: FunctionWriter) -> None:
        """Store what waits."""
        for cell in self.known.values():
            self._store(w, cell)

    def begin_block(self) -> None:
        """Other ways may lead here."""
        self.known.clear()

    def _know(self, cell: _Cell) -> _Cell:
        self.known.update(dict.fromkeys(range(cell.first, cell.first + cell.lanes), cell))
        return cell

    def _leave_memory(self, w: FunctionWriter, first: int, lanes: int, read: bool) -> None:
        """Forget cells that share elements with an access; those of which something is needed again are stored."""
        for number in range(first, first + lanes):
            cell = self.known.get(number)
            if cell is not None:
                end = cell.first + cell.lanes
                if read or cell.first < first or end > first + lanes:
                    self._store(w, cell)
                for other in range(cell.first, end):
                    del self.known[other]

    def _store(self, w: FunctionWriter, cell: _Cell) -> None:
        if cell.waits:
            cell.waits = False
            w.do(f"store {cell.ty} {cell.text}, {LOCAL} {self._address(w, cell.first)}, align {self.itemsize}")

    def _address(self, w: FunctionWriter, first: int) -> str:
        return w.emit(f"getelementptr {self.element}, {LOCAL} {self.pointer}, i64 {first}") if first else self.pointer


def places_of(func: PrimFunc) -> dict[Var, Cells | Sums]:
    """Places for the arrays of a thread in a kernel, before they are allocated; none where a pointer goes elsewhere. Raises
    CodegenError E526 for sums of warpgroups that another instruction takes."""
    found = collect(func.body, (Call, Bind, DeclBuffer, AllocBuffer))
    calls = [node for node in found if type(node) is Call]
    sums = {call.args[10]: call for call in calls if call.op_name == "T.ptx_wgmma"}
    taken = {node.buffer.data for node in found if type(node) is DeclBuffer}
    taken |= {node.value for node in found if type(node) is Bind and type(node.value) is Var}
    for call in calls:
        held = REGISTERS.get(call.op_name, ())
        taken |= {arg for place, arg in enumerate(call.args) if type(arg) is Var and place not in held}
        taken |= {arg.buffer.data for arg in call.args if call.op_name == "T.address_of" and type(arg) is BufferLoad}
        if call.op_name != "T.ptx_wgmma":
            taken |= {arg for place in held if (arg := call.args[place]) in sums and type(arg) is Var}
    many = {data: adds for data, adds in many_sums(func).items() if data not in taken}
    for var, call in sums.items():
        if var in taken:
            raise CodegenError(
                "E526", "sums of warpgroups are registers, whose pointer no other instruction takes", call.span
            )
    places: dict[Var, Cells | Sums] = {}
    for node in found:
        if type(node) is AllocBuffer and node.buffer.data not in taken:
            buffer = node.buffer
            if buffer.data in sums or buffer.data in many:
                places[buffer.data] = Sums(f"sums{len(places)}_", buffer, many.get(buffer.data, frozenset()))
            elif buffer.scope.startswith("wmma."):
                places[buffer.data] = Cells("i32", 4)
            elif buffer.scope in ("local", ""):
                item = memory_type(buffer.dtype) if buffer.dtype.lanes == 1 else f"[{buffer.dtype.itemsize} x i8]"
                places[buffer.data] = Cells(item, buffer.dtype.itemsize)
    return places


def give_slot(w: FunctionWriter, buffer: Buffer, item: str, align: int, count: int) -> None:
    """Memory for an array of a thread, which becomes registers where all its places are known."""
    slot = w.slot(item, align, count)
    w.entry.append(f"  {slot}.local = addrspacecast ptr {slot} to {LOCAL}")
    w.env[buffer.data], w.spaces[buffer.data] = slot, (LOCAL, f"{slot}.local")
    place = w.places.get(buffer.data)
    if isinstance(place, Cells):
        place.pointer = f"{slot}.local"


def load_words(
    w: FunctionWriter, base: Expr, offset: Expr, dtype: DataType, count: int, kind: str
) -> list[tuple[str, str]]:
    """Registers out of an array of a thread, from an offset in elements of a type on: (type, operand) of each."""
    place, first = _constant_place(w, base, offset, dtype)
    each = 4 // dtype.itemsize
    if place is not None:
        return [(kind, place.read(w, ("0", first + each * number), each, kind) or "") for number in range(count)]
    ptr, found = element(w, base, offset, dtype), []
    for number in range(count):
        at = w.emit(f"getelementptr i32, ptr {ptr}, i64 {number}") if number else ptr
        found.append((kind, w.emit(f"load {kind}, ptr {at}, align 4")))
    return found


def store_words(
    w: FunctionWriter, base: Expr, offset: Expr, dtype: DataType, result: str | list[str], count: int, kind: str
) -> None:
    """The parts of a result, or operands, as registers of an array of a thread."""
    place, first = _constant_place(w, base, offset, dtype)
    each, whole = 4 // dtype.itemsize, structure([kind] * count)
    ptr = "" if place is not None else element(w, base, offset, dtype)
    for number in range(count):
        if isinstance(result, list):
            part = result[number]
        else:
            part = w.emit(f"extractvalue {whole} {result}, {number}") if count > 1 else result
        if place is not None:
            place.write(w, ("0", first + each * number), each, kind, part)
        else:
            at = w.emit(f"getelementptr i32, ptr {ptr}, i64 {number}") if number else ptr
            w.do(f"store {kind} {part}, ptr {at}, align 4")


def _constant_place(w: FunctionWriter, base: Expr, offset: Expr, dtype: DataType) -> tuple[Cells | None, int]:
    """The cells of an array and the number of one, where these are known; else memory has all of them."""
    place = w.places.get(base) if type(base) is Var else None
    if not isinstance(place, Cells):
        return None, 0
    text, first = index_parts(w, offset)
    if text == "0" and place.itemsize == dtype.itemsize:
        return place, first
    place.write(w, None, 0, "", "")
    return None, 0
