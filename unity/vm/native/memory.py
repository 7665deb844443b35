"""The native driver in LLVM IR: memory. Storage from the arena or as objects, tensors inside it, new tensors, views, moves."""

from __future__ import annotations

from ...ffi.abi import Dim
from ...ffi.dtype import DataType
from ...ffi.native.runtime_table import DTYPE_INDEX
from ..executable import bytecode as bc
from .ir import FunctionWriter
from .values import boxed, boxed_register, is_checked_by_entry, new_reference, python, set_object


def builtin(w: FunctionWriter, name: str, instruction: bc.Call) -> None:
    """An operation in Python."""
    result = python(w, w.env("builtin", name), [boxed(w, a) for a in instruction.args])
    set_object(w, instruction.dst, w.require_object(result))


def kill(w: FunctionWriter, instruction: bc.Call) -> None:
    """Drop a register's references."""
    reg = instruction.args[0]
    assert isinstance(reg, bc.Reg)
    for slot in references(w, reg.index):
        old = w.emit(f"load ptr, ptr {slot}")
        w.do(f"store ptr null, ptr {slot}")
        w.do(f"call void @Py_DecRef(ptr {old})")


def references(w: FunctionWriter, index: int) -> list[str]:
    """Places of the frame where a register may hold references."""
    kind = w.fn.registers[index].kind
    if kind == "tensor":
        return [f"%o{index}", f"%w{index}"]
    return [f"%o{index}"] if kind == "object" else [f"%w{index}"] if w.owned_storage else []


def alloc_storage(w: FunctionWriter, instruction: bc.Call) -> None:
    """Bytes: an object where tensors in it may become objects, else a piece of the arena."""
    size = instruction.args[0]
    assert isinstance(size, bc.Size)
    count, dst = w.dim(size.dim), instruction.dst
    w.report_unless(w.emit(f"icmp sge i64 {count}, 0"), 5, count)
    w.do(f"store i64 {count}, ptr %z{dst}")
    if w.on_device and w.owned_storage:
        block, address = device_block(w, count)
        w.do(f"store ptr {block}, ptr %w{dst}")
        w.do(f"store ptr {address}, ptr %p{dst}")
        return
    if w.owned_storage:
        size_slot, out = w.alloca("i64"), w.alloca("ptr")
        w.store("i64", count, size_slot)
        result = w.emit(f"call ptr @unity_new_array(i64 {DTYPE_INDEX['uint8']}, i64 1, ptr {size_slot}, ptr {out})")
        w.require_object(result)
        w.do(f"store ptr {result}, ptr %w{dst}")
        w.do(f"store ptr {w.emit(f'load ptr, ptr {out}')}, ptr %p{dst}")
        return
    data = w.emit(f"call ptr @unity.arena{'.on' if w.on_device else ''}(ptr %env, ptr %arena, i64 {count})")
    if w.on_device:
        w.require_object(data)  # Python has raised
    else:
        w.report_unless(w.emit(f"icmp ne ptr {data}, null"), 10, count)
    w.do(f"store ptr {data}, ptr %p{dst}")


def device_block(w: FunctionWriter, count: str) -> tuple[str, str]:
    """Memory of the device from Python: a new reference to the object that keeps it, and its address."""
    number = w.require_object(w.emit(f"call ptr @PyLong_FromLongLong(i64 {count})"))
    result = w.require_object(python(w, w.env("fixed", "new_block"), [(w.word("None"), False), (number, True)]))
    block, number = [w.emit(f"call ptr @PyTuple_GetItem(ptr {result}, i64 {k})") for k in (0, 1)]
    out = w.alloca("i64")
    w.do(f"call i32 @unity_as_int(ptr {number}, ptr {out})")
    address = w.emit(f"inttoptr i64 {w.emit(f'load i64, ptr {out}')} to ptr")
    w.do(f"call void @Py_IncRef(ptr {block})")
    w.do(f"call void @Py_DecRef(ptr {result})")
    return block, address


def extent_bytes(w: FunctionWriter, dtype: str, dims: tuple[Dim, ...]) -> str:
    """Size of a tensor; negative and overflowing ones are errors."""
    found = w.known_sizes.get((dtype, dims))
    if found is not None:
        return found
    fixed = constant_bytes(dtype, dims)
    if fixed is not None:
        return str(fixed)
    size = str(DataType(dtype).itemsize)
    for d in dims:
        value = w.dim(d)
        w.report_unless(w.emit(f"icmp sge i64 {value}, 0"), 5, value)
        both = w.emit(f"call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {size}, i64 {value})")
        size = w.emit(f"extractvalue {{ i64, i1 }} {both}, 0")
        over = w.emit(f"extractvalue {{ i64, i1 }} {both}, 1")
        high = w.emit(f"icmp slt i64 {size}, 0")
        bad = w.emit(f"or i1 {over}, {high}")
        w.report_unless(w.emit(f"xor i1 {bad}, true"), 7, value)
    w.known_sizes[dtype, dims] = size
    return size


def place_in(
    w: FunctionWriter, instruction: bc.Call, data: str, room: str, fixed_room: int | None, aligned: bool
) -> None:
    """A typed register over memory at an offset, inside ``room`` bytes."""
    known = w.fn.registers[instruction.dst]
    offset_arg = instruction.args[1]
    assert isinstance(offset_arg, bc.Size)
    item, start, needed = DataType(known.dtype).itemsize, offset_arg.dim, constant_bytes(known.dtype, known.dims)
    if fixed_room is not None and needed is not None and isinstance(start, int):
        if start >= 0 and start + needed <= fixed_room and (aligned or item == 1) and start % item == 0:
            address = w.emit(f"getelementptr i8, ptr {data}, i64 {start}") if start else data
            w.do(f"store ptr {address}, ptr %p{instruction.dst}")
            return
    offset = w.dim(offset_arg.dim)
    size = extent_bytes(w, known.dtype, known.dims)
    left = w.emit(f"sub i64 {room}, {offset}")
    fits = w.emit(f"and i1 {w.emit(f'icmp sge i64 {offset}, 0')}, {w.emit(f'icmp sge i64 {left}, {size}')}")
    w.report_unless(fits, 6, size, room)
    address = w.emit(f"getelementptr i8, ptr {data}, i64 {offset}")
    if item > 1 and not (aligned and isinstance(start, int) and start % item == 0):
        low = w.emit(f"and i64 {w.emit(f'ptrtoint ptr {address} to i64')}, {item - 1}")
        w.report_unless(w.emit(f"icmp eq i64 {low}, 0"), 6, size, room)
    w.do(f"store ptr {address}, ptr %p{instruction.dst}")


def tensor_in(w: FunctionWriter, instruction: bc.Call) -> None:
    """A tensor inside storage."""
    reg, dst = instruction.args[0], instruction.dst
    if not isinstance(reg, bc.Reg) or w.fn.registers[reg.index].kind != "storage":
        builtin(w, "tensor_in", instruction)
        return
    data, room = w.emit(f"load ptr, ptr %p{reg.index}"), w.emit(f"load i64, ptr %z{reg.index}")
    place_in(w, instruction, data, room, fixed_size(w, reg.index), True)
    if w.owned_storage:
        set_owner(w, dst, w.emit(f"load ptr, ptr %w{reg.index}"))


def fixed_size(w: FunctionWriter, index: int) -> int | None:
    """Size of a storage register where it is a number."""
    sizes = [i.args[0] for i in w.writers.get(index, ()) if w.program.table[i.function].name == "alloc_storage"]
    only = sizes[0] if len(sizes) == 1 else None
    return only.dim if isinstance(only, bc.Size) and isinstance(only.dim, int) else None


def set_owner(w: FunctionWriter, index: int, owner: str) -> None:
    """The object that keeps a typed register's memory."""
    w.do(f"call void @Py_IncRef(ptr {owner})")
    w.do(f"store ptr {owner}, ptr %w{index}")


def new_tensor(w: FunctionWriter, instruction: bc.Call) -> None:
    """A tensor with memory of its own: it is a Python object from the start."""
    known, dst = w.fn.registers[instruction.dst], instruction.dst
    if w.on_device:
        block, address = device_block(w, extent_bytes(w, known.dtype, known.dims))
        result = w.label_device(w.emit(
            f"call ptr @unity_view_tensor(i64 {DTYPE_INDEX[known.dtype]}, i64 {len(known.dims)}, "
            f"ptr {w.dims_array(known.dims)}, ptr {address}, ptr {block})"
        ))  # fmt: skip
        w.do(f"call void @Py_DecRef(ptr {block})")
        w.do(f"store ptr {w.require_object(result)}, ptr %o{dst}")
        w.do(f"store ptr {address}, ptr %p{dst}")
        return
    dims, out = w.dims_array(known.dims), w.alloca("ptr")
    result = w.emit(
        f"call ptr @unity_new_tensor(i64 {DTYPE_INDEX[known.dtype]}, i64 {len(known.dims)}, ptr {dims}, ptr {out})"
    )
    w.require_object(result)
    w.do(f"store ptr {result}, ptr %o{dst}")
    w.do(f"store ptr {w.emit(f'load ptr, ptr {out}')}, ptr %p{dst}")


def view(w: FunctionWriter, instruction: bc.Call) -> None:
    """The same memory under another type."""
    reg, dst = instruction.args[0], instruction.dst
    if (
        not isinstance(reg, bc.Reg)
        or w.fn.registers[reg.index].kind != "tensor"
        or w.fn.registers[dst].kind != "tensor"
    ):
        builtin(w, "view", instruction)
        return
    source = w.fn.registers[reg.index]
    room = extent_bytes(w, source.dtype, source.dims)
    fixed = constant_bytes(source.dtype, source.dims)
    place_in(w, instruction, w.emit(f"load ptr, ptr %p{reg.index}"), room, fixed, False)
    if is_checked_by_entry(w, reg.index):
        owner, _ = boxed_register(w, reg.index)
        set_owner(w, dst, owner)
        w.do(f"call void @Py_DecRef(ptr {owner})")
        return
    keeper, obj = w.emit(f"load ptr, ptr %w{reg.index}"), w.emit(f"load ptr, ptr %o{reg.index}")
    has = w.emit(f"icmp ne ptr {keeper}, null")
    set_owner(w, dst, w.emit(f"select i1 {has}, ptr {keeper}, ptr {obj}"))


def move(w: FunctionWriter, instruction: bc.Call) -> None:
    """A value into another register."""
    source, dst = instruction.args[0], instruction.dst
    if w.fn.registers[dst].kind != "tensor" or not isinstance(source, bc.Reg) or is_checked_by_entry(w, source.index):
        set_object(w, dst, new_reference(w, source))
        return
    if w.fn.registers[source.index].kind == "object":
        record = w.records.get(source.index)
        if record is None:
            set_object(w, dst, new_reference(w, source))
            return
        data = w.load(record, 0)
        keeper = "null"
    else:
        data, keeper = w.emit(f"load ptr, ptr %p{source.index}"), w.emit(f"load ptr, ptr %w{source.index}")
    w.do(f"store ptr {data}, ptr %p{dst}")
    obj = w.emit(f"load ptr, ptr %o{source.index}")
    for slot, value in ((f"%o{dst}", obj), (f"%w{dst}", keeper)):
        if value != "null":
            w.do(f"call void @Py_IncRef(ptr {value})")
            w.do(f"store ptr {value}, ptr {slot}")


def constant_bytes(dtype: str, dims: tuple[Dim, ...]) -> int | None:
    """Size of a tensor where every dimension is a number that memory can have."""
    size = DataType(dtype).itemsize
    for d in dims:
        if not isinstance(d, int) or d < 0:
            return None
        size *= d
    return size if size < 1 << 47 else None
