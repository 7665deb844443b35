"""The native driver in LLVM IR: memory. Storage from the arena or as objects, tensors inside it, new tensors, views, moves."""

from __future__ import annotations

from ...ffi.abi import Dim
from ...ffi.dtype import DataType
from ...ffi.runtime_table import DTYPE_INDEX
from ..executable import bytecode as bc
from .values import ValueWriter


class MemoryWriter(ValueWriter):
    """Writes the instructions that make and drop tensors."""

    records: dict[int, str]
    """Leaf record of each register whose tensor was read by a check."""

    def builtin(self, name: str, instruction: bc.Call) -> None:
        """An operation in Python."""
        result = self.python(self.env("builtin", name), [self.boxed(a) for a in instruction.args])
        self.set_object(instruction.dst, self.require_object(result))

    def kill(self, instruction: bc.Call) -> None:
        """Drop a register's references."""
        reg = instruction.args[0]
        assert isinstance(reg, bc.Reg)
        for slot in self.references(reg.index):
            old = self.emit(f"load ptr, ptr {slot}")
            self.do(f"store ptr null, ptr {slot}")
            self.do(f"call void @unity_decref(ptr {old})")

    def references(self, index: int) -> list[str]:
        """Places of the frame where a register may hold references."""
        kind = self.kind(index).kind
        if kind == "tensor":
            return [f"%o{index}", f"%w{index}"]
        return [f"%o{index}"] if kind == "object" else [f"%w{index}"] if self.owned_storage else []

    def alloc_storage(self, instruction: bc.Call) -> None:
        """Bytes: an object where tensors in it may become objects, else a piece of the arena."""
        size = instruction.args[0]
        assert isinstance(size, bc.Size)
        count, dst = self.dim(size.dim), instruction.dst
        self.report_unless(self.emit(f"icmp sge i64 {count}, 0"), 5, count)
        self.do(f"store i64 {count}, ptr %z{dst}")
        if self.owned_storage:
            place, out = self.alloca("i64"), self.alloca("ptr")
            self.store("i64", count, place)
            made = self.emit(f"call ptr @unity_new_array(i64 {DTYPE_INDEX['uint8']}, i64 1, ptr {place}, ptr {out})")
            self.require_object(made)
            self.do(f"store ptr {made}, ptr %w{dst}")
            self.do(f"store ptr {self.emit(f'load ptr, ptr {out}')}, ptr %p{dst}")
            return
        data = self.emit(f"call ptr @unity.arena(ptr %env, ptr %arena, i64 {count})")
        self.report_unless(self.emit(f"icmp ne ptr {data}, null"), 10, count)
        self.do(f"store ptr {data}, ptr %p{dst}")

    def extent_bytes(self, dtype: str, dims: tuple[Dim, ...]) -> str:
        """Size of a tensor; negative and overflowing ones are errors."""
        found = self.known_sizes.get((dtype, dims))
        if found is not None:
            return found
        fixed = constant_bytes(dtype, dims)
        if fixed is not None:
            return str(fixed)
        size = str(DataType(dtype).itemsize)
        for d in dims:
            value = self.dim(d)
            self.report_unless(self.emit(f"icmp sge i64 {value}, 0"), 5, value)
            both = self.emit(f"call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {size}, i64 {value})")
            size = self.emit(f"extractvalue {{ i64, i1 }} {both}, 0")
            over = self.emit(f"extractvalue {{ i64, i1 }} {both}, 1")
            high = self.emit(f"icmp slt i64 {size}, 0")
            bad = self.emit(f"or i1 {over}, {high}")
            self.report_unless(self.emit(f"xor i1 {bad}, true"), 7, value)
        self.known_sizes[dtype, dims] = size
        return size

    def place_in(self, instruction: bc.Call, data: str, room: str, fixed_room: int | None, aligned: bool) -> None:
        """A typed register over memory at an offset, inside ``room`` bytes."""
        known = self.kind(instruction.dst)
        offset_arg = instruction.args[1]
        assert isinstance(offset_arg, bc.Size)
        item, start, needed = DataType(known.dtype).itemsize, offset_arg.dim, constant_bytes(known.dtype, known.dims)
        if fixed_room is not None and needed is not None and isinstance(start, int):
            if start >= 0 and start + needed <= fixed_room and (aligned or item == 1) and start % item == 0:
                address = self.emit(f"getelementptr i8, ptr {data}, i64 {start}") if start else data
                self.do(f"store ptr {address}, ptr %p{instruction.dst}")
                return
        offset = self.dim(offset_arg.dim)
        size = self.extent_bytes(known.dtype, known.dims)
        left = self.emit(f"sub i64 {room}, {offset}")
        fits = self.emit(
            f"and i1 {self.emit(f'icmp sge i64 {offset}, 0')}, {self.emit(f'icmp sge i64 {left}, {size}')}"
        )
        self.report_unless(fits, 6, size, room)
        address = self.emit(f"getelementptr i8, ptr {data}, i64 {offset}")
        if item > 1 and not (aligned and isinstance(start, int) and start % item == 0):
            low = self.emit(f"and i64 {self.emit(f'ptrtoint ptr {address} to i64')}, {item - 1}")
            self.report_unless(self.emit(f"icmp eq i64 {low}, 0"), 6, size, room)
        self.do(f"store ptr {address}, ptr %p{instruction.dst}")

    def tensor_in(self, instruction: bc.Call) -> None:
        """A tensor inside storage."""
        reg, dst = instruction.args[0], instruction.dst
        if not isinstance(reg, bc.Reg) or self.kind(reg.index).kind != "storage":
            self.builtin("tensor_in", instruction)
            return
        data, room = self.emit(f"load ptr, ptr %p{reg.index}"), self.emit(f"load i64, ptr %z{reg.index}")
        self.place_in(instruction, data, room, self.fixed_size(reg.index), True)
        if self.owned_storage:
            self.set_owner(dst, self.emit(f"load ptr, ptr %w{reg.index}"))

    def fixed_size(self, index: int) -> int | None:
        """Size of a storage register where it is a number."""
        sizes = [i.args[0] for i in self.writers.get(index, ()) if self.row_name(i) == "alloc_storage"]
        only = sizes[0] if len(sizes) == 1 else None
        return only.dim if isinstance(only, bc.Size) and isinstance(only.dim, int) else None

    def row_name(self, instruction: bc.Call) -> str:
        """Name of what an instruction calls."""
        return self.program.table[instruction.function].name

    def set_owner(self, index: int, owner: str) -> None:
        """The object that keeps a typed register's memory."""
        self.do(f"call void @unity_incref(ptr {owner})")
        self.do(f"store ptr {owner}, ptr %w{index}")

    def new_tensor(self, instruction: bc.Call) -> None:
        """A tensor with memory of its own: it is a Python object from the start."""
        known, dst = self.kind(instruction.dst), instruction.dst
        dims, out = self.dims_array(known.dims), self.alloca("ptr")
        made = self.emit(
            f"call ptr @unity_new_tensor(i64 {DTYPE_INDEX[known.dtype]}, i64 {len(known.dims)}, ptr {dims}, ptr {out})"
        )
        self.require_object(made)
        self.do(f"store ptr {made}, ptr %o{dst}")
        self.do(f"store ptr {self.emit(f'load ptr, ptr {out}')}, ptr %p{dst}")

    def view(self, instruction: bc.Call) -> None:
        """The same memory under another type."""
        reg, dst = instruction.args[0], instruction.dst
        if not isinstance(reg, bc.Reg) or self.kind(reg.index).kind != "tensor" or self.kind(dst).kind != "tensor":
            self.builtin("view", instruction)
            return
        source = self.kind(reg.index)
        room = self.extent_bytes(source.dtype, source.dims)
        fixed = constant_bytes(source.dtype, source.dims)
        self.place_in(instruction, self.emit(f"load ptr, ptr %p{reg.index}"), room, fixed, False)
        if self.covered(reg.index):
            owner, _ = self.boxed_register(reg.index)
            self.set_owner(dst, owner)
            self.do(f"call void @unity_decref(ptr {owner})")
            return
        keeper, obj = self.emit(f"load ptr, ptr %w{reg.index}"), self.emit(f"load ptr, ptr %o{reg.index}")
        has = self.emit(f"icmp ne ptr {keeper}, null")
        self.set_owner(dst, self.emit(f"select i1 {has}, ptr {keeper}, ptr {obj}"))

    def move(self, instruction: bc.Call) -> None:
        """A value into another register."""
        source, dst = instruction.args[0], instruction.dst
        if self.kind(dst).kind != "tensor" or not isinstance(source, bc.Reg) or self.covered(source.index):
            self.set_object(dst, self.owned(source))
            return
        if self.kind(source.index).kind == "object":
            record = self.records.get(source.index)
            if record is None:
                self.set_object(dst, self.owned(source))
                return
            data = self.load(record, 0)
            keeper = "null"
        else:
            data, keeper = self.emit(f"load ptr, ptr %p{source.index}"), self.emit(f"load ptr, ptr %w{source.index}")
        self.do(f"store ptr {data}, ptr %p{dst}")
        obj = self.emit(f"load ptr, ptr %o{source.index}")
        for slot, value in ((f"%o{dst}", obj), (f"%w{dst}", keeper)):
            if value != "null":
                self.do(f"call void @unity_incref(ptr {value})")
                self.do(f"store ptr {value}, ptr {slot}")


def constant_bytes(dtype: str, dims: tuple[Dim, ...]) -> int | None:
    """Size of a tensor where every dimension is a number that memory can have."""
    size = DataType(dtype).itemsize
    for d in dims:
        if not isinstance(d, int) or d < 0:
            return None
        size *= d
    return size if size < 1 << 47 else None
