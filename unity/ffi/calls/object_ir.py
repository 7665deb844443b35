"""LLVM IR text of functions that read and make Python objects: what checked entries and drivers write alike."""

from __future__ import annotations

from ..dtype import DataType
from ..machine_code.layout import OBJECT_TYPE
from ..native.runtime_table import slot_offset


def llvm_scalar(dtype: DataType) -> str:
    """LLVM's type of a scalar in raw entries (bool is one byte, narrow floats are their bits)."""
    if dtype.code == "handle":
        return "ptr"
    return {32: "float", 64: "double"}[dtype.bits] if dtype.is_float and not dtype.is_narrow else f"i{dtype.bits}"


class ObjectWriter:
    """Writes one function. ``emit`` appends an instruction with a result, ``do`` one without; where what ``require`` asks for does
    not hold, the function goes on at the label ``failure``."""

    failure = "fail"

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def emit(self, text: str) -> str:
        """An instruction with a result; the result's name."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def do(self, text: str) -> None:
        """An instruction without result."""
        self.lines.append(f"  {text}")

    def label(self) -> str:
        """A fresh label name."""
        self.count += 1
        return f"b{self.count}"

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")

    def require(self, condition: str) -> None:
        """Go on only where an i1 holds."""
        label = self.label()
        self.do(f"br i1 {condition}, label %{label}, label %{self.failure}")
        self.start(label)

    def gep(self, base: str, offset: int) -> str:
        """An address at a byte offset."""
        return self.emit(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def load(self, base: str, offset: int, kind: str = "ptr") -> str:
        """Load at a byte offset."""
        return self.emit(f"load {kind}, ptr {self.gep(base, offset)}")

    def store(self, kind: str, value: str, base: str, offset: int = 0) -> None:
        """Store at a byte offset."""
        self.do(f"store {kind} {value}, ptr {self.gep(base, offset)}")

    def word(self, name: str) -> str:
        """A word of the runtime table."""
        return self.emit(f"load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {slot_offset(name)})")

    def is_type(self, obj: str, name: str) -> str:
        """i1: the object's type is exactly the table's."""
        return self.emit(f"icmp eq ptr {self.load(obj, OBJECT_TYPE)}, {self.word(name)}")

    def truth(self, obj: str) -> str:
        """i1: the object is ``True``; it must be that or ``False``."""
        yes = self.emit(f"icmp eq ptr {obj}, {self.word('True')}")
        no = self.emit(f"icmp eq ptr {obj}, {self.word('False')}")
        self.require(self.emit(f"or i1 {yes}, {no}"))
        return yes

    def narrowed(self, number: str, dtype: DataType) -> str:
        """An i64 as an integer of fewer bits, which must hold it."""
        kind = f"i{dtype.bits}"
        value = self.emit(f"trunc i64 {number} to {kind}")
        back = self.emit(f"{'sext' if dtype.is_int else 'zext'} {kind} {value} to i64")
        self.require(self.emit(f"icmp eq i64 {back}, {number}"))
        return value

    def number(self, dtype: DataType, place: str) -> str:
        """The scalar at an address as a Python object."""
        kind = llvm_scalar(dtype)
        value = self.load(place, 0, kind)
        if kind in ("float", "double"):
            wide = value if kind == "double" else self.emit(f"fpext {kind} {value} to double")
            return self.emit(f"call ptr @PyFloat_FromDouble(double {wide})")
        if dtype.is_bool:
            return self.emit(f"call ptr @unity_bool(i1 {self.emit(f'icmp ne i8 {value}, 0')})")
        if kind == "ptr":
            value, kind = self.emit(f"ptrtoint ptr {value} to i64"), "i64"
        wide = value if kind == "i64" else self.emit(f"{'sext' if dtype.is_int else 'zext'} {kind} {value} to i64")
        return self.emit(f"call ptr @PyLong_From{'' if dtype.is_int else 'Unsigned'}LongLong(i64 {wide})")
