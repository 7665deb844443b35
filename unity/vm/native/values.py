"""The native driver in LLVM IR: values. Registers as Python objects and back, scalars, addresses, conditions.

Invariant: ``boxed`` says whether the code that follows owns the reference; ``set_object`` takes one over.
"""

from __future__ import annotations

from ...ffi.abi import Dim
from ...ffi.calls.object_ir import llvm_scalar
from ...ffi.dtype import DataType
from ...ffi.native.native_helpers import LEAF_BYTES
from ...ffi.native.runtime_table import DTYPE_INDEX
from ..executable import bytecode as bc
from .ir import FunctionWriter


def is_checked_by_entry(w: FunctionWriter, index: int) -> bool:
    """True if the register is a parameter that the entry has checked."""
    return index < len(w.plan.params) and w.plan.params[index].kind != "object"


# ---- values as Python objects


def boxed(w: FunctionWriter, arg: bc.Arg) -> tuple[str, bool]:
    """(object, does this code own a reference)."""
    if isinstance(arg, bc.Reg):
        return boxed_register(w, arg.index)
    if isinstance(arg, bc.Imm):
        value = arg.value.hex() if isinstance(arg.value, float) else arg.value
        return w.env("imm", type(arg.value).__name__, value), False
    if isinstance(arg, bc.Const):
        return w.env("const", arg.index), False
    if isinstance(arg, bc.Func):
        return w.env("row", arg.index), False
    assert isinstance(arg, bc.Size)
    value = w.dim(arg.dim)
    if arg.dtype == "bool":
        bit = w.emit(f"icmp ne i64 {value}, 0")
        return w.require_object(w.emit(f"call ptr @unity_bool(i1 {bit})")), True
    make = "PyLong_FromUnsignedLongLong" if arg.dtype == "uint64" else "PyLong_FromLongLong"
    return w.require_object(w.emit(f"call ptr @{make}(i64 {value})")), True


def boxed_register(w: FunctionWriter, index: int) -> tuple[str, bool]:
    """A register's value as an object."""
    known = w.fn.registers[index]
    if known.kind == "tensor":
        if is_checked_by_entry(w, index):
            result = w.emit(f"call ptr @unity_leaf_tensor(ptr {w.leaf_record(index)}, i64 {DTYPE_INDEX[known.dtype]})")
            return w.require_object(w.label_device(result)), True
        dims, number = w.dims_array(known.dims), DTYPE_INDEX[known.dtype]
        obj, data = w.emit(f"load ptr, ptr %o{index}"), w.emit(f"load ptr, ptr %p{index}")
        owner = w.emit(f"load ptr, ptr %w{index}")
        result = w.emit(
            f"call ptr @unity.box(ptr {obj}, i64 {number}, i64 {len(known.dims)}, ptr {dims}, ptr {data}, ptr {owner})"
        )
        return w.require_object(w.label_device(result)), True
    obj = w.emit(f"load ptr, ptr %o{index}")
    none = w.word("None")
    return w.emit(f"select i1 {w.emit(f'icmp eq ptr {obj}, null')}, ptr {none}, ptr {obj}"), False


def new_reference(w: FunctionWriter, arg: bc.Arg) -> str:
    """The value as a new reference."""
    value, owns = boxed(w, arg)
    if not owns:
        w.do(f"call void @Py_IncRef(ptr {value})")
    return value


def python(w: FunctionWriter, function: str, args: list[tuple[str, bool]]) -> str:
    """Call a Python object with boxed arguments; the result may be null."""
    store_arguments(w, args)
    result = w.emit(f"call ptr @unity_call(ptr {function}, ptr %args, i64 {len(args)})")
    release(w, args)
    return result


def store_arguments(w: FunctionWriter, args: list[tuple[str, bool]]) -> None:
    """Put boxed values into the row of arguments of a call."""
    w.scratch = max(w.scratch, len(args))
    for position, (value, _) in enumerate(args):
        w.store("ptr", value, "%args", 8 * position)


def release(w: FunctionWriter, args: list[tuple[str, bool]]) -> None:
    """Give up the references that boxing made."""
    for value, owns in args:
        if owns:
            w.do(f"call void @Py_DecRef(ptr {value})")


def set_object(w: FunctionWriter, index: int, value: str) -> None:
    """Put a new reference into a register; a typed register takes the tensor apart."""
    if index < 0:
        w.do(f"call void @Py_DecRef(ptr {value})")
        return
    known = w.fn.registers[index]
    w.do(f"store ptr {value}, ptr %o{index}")
    if known.kind == "tensor":
        record = w.alloca(f"[{LEAF_BYTES} x i8]")
        fits = w.extract(value, record, known.dtype, len(known.dims), False)
        w.report_unless(fits, 9, str(index))
        w.do(f"store ptr {w.load(record, 0)}, ptr %p{index}")


def to_vm_value(w: FunctionWriter, value: str) -> str:
    """A result from Python as a value of the VM: arrays become tensors."""
    how = "unity.normal.on" if w.on_device else "unity.normal"
    result = w.emit(f"call ptr @{how}(ptr {w.env('fixed', 'value')}, ptr {value})")
    return w.require_object(result)


def condition(w: FunctionWriter, arg: bc.Arg) -> str:
    """A condition as i1."""
    if isinstance(arg, bc.Size):
        return w.emit(f"icmp ne i64 {w.dim(arg.dim)}, 0")
    if isinstance(arg, bc.Imm):
        return "true" if arg.value else "false"
    if isinstance(arg, bc.Reg) and w.fn.registers[arg.index] == bc.RegType("tensor", "bool", ()) and not w.on_device:
        data = w.emit(f"load ptr, ptr %p{arg.index}")
        return w.emit(f"icmp ne i8 {w.load(data, 0, 'i8')}, 0")
    result = w.require_object(python(w, w.env("fixed", "truth"), [boxed(w, arg)]))
    bit = w.emit(f"call i32 @PyObject_IsTrue(ptr {result})")
    w.do(f"call void @Py_DecRef(ptr {result})")
    return w.emit(f"icmp ne i32 {bit}, 0")


# ---- machine words


def pointer(w: FunctionWriter, arg: bc.Arg) -> str:
    """Address of a tensor argument."""
    if isinstance(arg, bc.Const):
        return w.env("data", arg.index)
    assert isinstance(arg, bc.Reg)
    return w.emit(f"load ptr, ptr %p{arg.index}")


def shape_of(w: FunctionWriter, arg: bc.Arg) -> tuple[Dim, ...]:
    """Dimensions of a tensor argument."""
    if isinstance(arg, bc.Const):
        return tuple(w.program.constants[arg.index].shape)
    assert isinstance(arg, bc.Reg)
    return w.fn.registers[arg.index].dims


def scalar(w: FunctionWriter, arg: bc.Arg, dtype: DataType) -> str:
    """A scalar argument with its LLVM type."""
    kind = llvm_scalar(dtype)
    if dtype.is_float and not dtype.is_narrow:
        wide = _unboxed(w, arg, "double", "unity_as_float")
        return f"{kind} {wide if kind == 'double' else w.emit(f'fptrunc double {wide} to {kind}')}"
    wide = integer(w, arg)
    if kind == "ptr":
        return f"ptr {w.emit(f'inttoptr i64 {wide} to ptr')}"
    return f"{kind} {wide if kind == 'i64' else w.emit(f'trunc i64 {wide} to {kind}')}"


def integer(w: FunctionWriter, arg: bc.Arg) -> str:
    """An integer argument as i64."""
    if isinstance(arg, bc.Size):
        return w.dim(arg.dim)
    if isinstance(arg, bc.Imm) and isinstance(arg.value, int):
        return str(int(arg.value))
    return _unboxed(w, arg, "i64", "unity_as_int")


def _unboxed(w: FunctionWriter, arg: bc.Arg, kind: str, reader: str) -> str:
    """The number in a Python object, read by a function of the runtime."""
    value, owns = boxed(w, arg)
    slot = w.alloca(kind)
    status = w.emit(f"call i32 @{reader}(ptr {value}, ptr {slot})")
    release(w, [(value, owns)])
    w.require(w.emit(f"icmp eq i32 {status}, 0"))
    return w.emit(f"load {kind}, ptr {slot}")
