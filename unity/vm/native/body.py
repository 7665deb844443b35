"""The native driver in LLVM IR: what each instruction becomes.

Native: entry values, checks of tensors and dimensions, formulas, storage, tensors, views, moves, kernels, calls inside the
program, registered functions, tuples, shapes, conditions, returns. Through a Python helper, instruction by instruction:
checks of shapes, scalars, tuples and functions; closures; ``print``, ``assert_op``, ``shape_of`` and the other builtins of
``vm/builtins/builtins.py``; float arithmetic; views of tensors whose shape is unknown.
"""

from __future__ import annotations

import math

from ...ffi.abi import BufferParam, Dim, KernelSignature
from ...ffi.dtype import DataType
from ..executable import bytecode as bc
from .checks import bind_scalar, check_bounds, check_equal, check_shape, check_tensor, match_shape, recheck, set_slot
from .ir import FunctionWriter, quoted, register_scalars
from .memory import alloc_storage, builtin, kill, move, new_tensor, tensor_in, view
from .segments import Segment, segment_starts
from .values import (
    boxed,
    condition,
    is_checked_by_entry,
    new_reference,
    pointer,
    python,
    release,
    scalar,
    set_object,
    shape_of,
    store_arguments,
    to_vm_value,
)

RELEASE_BYTES = 512 << 10
"""A kernel whose tensors have this many bytes or more runs without the GIL (never one that calls back into Python)."""


def instructions(w: FunctionWriter) -> None:
    """All instructions; a label before each target."""
    targets = {i.target for i in w.fn.code if isinstance(i, (bc.Goto, bc.If))}
    cuts = segment_starts(w.fn.code)
    open_block = True
    for number, instruction in enumerate(w.fn.code):
        if number in cuts:
            w.do("br label %next")
            end_segment(w)
        if number in targets:
            if open_block:
                w.do(f"br label %L{number}")
            w.start(f"L{number}")
            w.invalidate()
            open_block = True
        elif not open_block:
            w.start(w.label())
            open_block = True
        if isinstance(instruction, bc.Goto):
            w.do(f"br label %L{instruction.target}")
            open_block = False
            continue
        w.current = number
        w.do(f"store i64 {number}, ptr %at")
        if isinstance(instruction, bc.Call):
            if number < w.fn.prologue and is_already_checked(w, instruction):
                continue
            call(w, instruction)
        elif isinstance(instruction, bc.If):
            good = w.label()
            w.do(f"br i1 {condition(w, instruction.cond)}, label %{good}, label %L{instruction.target}")
            w.start(good)
        else:
            w.do(f"store ptr {new_reference(w, instruction.value)}, ptr %result")
            w.do("br label %exit")
            open_block = False
    if open_block:
        w.do("unreachable")
    end_segment(w)


def end_segment(w: FunctionWriter) -> None:
    """End a segment: what was computed in it is not known behind it."""
    w.segments.append(Segment(w.lines, w.allocas, w.scratch))
    w.lines, w.allocas, w.scratch, w.records = [], [], 1, {}
    w.invalidate()


def is_already_checked(w: FunctionWriter, instruction: bc.Call) -> bool:
    """True if the checked entry has done this check."""
    first = instruction.args[0]
    return isinstance(first, bc.Reg) and is_checked_by_entry(w, first.index)


# ---- calls


def call(w: FunctionWriter, instruction: bc.Call) -> None:
    """One call."""
    entry = w.program.table[instruction.function]
    if entry.kind == "kernel":
        kernel(w, w.program.kernels[entry.name], entry.name, instruction)
    elif entry.kind == "vm":
        args = [boxed(w, a) for a in instruction.args]
        store_arguments(w, args)
        result = w.emit(f"call ptr {quoted('call.' + entry.name)}(ptr %env, ptr %args, i64 %limit)")
        release(w, args)
        set_object(w, instruction.dst, w.require_object(result))
    elif entry.kind == "packed":
        packed(w, instruction)
    else:
        native = _NATIVE.get(entry.name)
        if native is not None:
            native(w, instruction)
        elif bc.OPERATIONS[entry.name][0].startswith("looked"):
            recheck(w, instruction, instruction.args[0])
        else:
            builtin(w, entry.name, instruction)


def packed(w: FunctionWriter, instruction: bc.Call) -> None:
    """A registered function, looked up now."""
    row = instruction.function
    if w.on_device:
        args = [(w.env("name", row), False), *[boxed(w, a) for a in instruction.args]]
        set_object(w, instruction.dst, w.require_object(python(w, w.env("fixed", "packed"), args)))
        return
    args = [boxed(w, a) for a in instruction.args]
    store_arguments(w, args)
    found = w.emit(f"call ptr @unity.find(ptr %env, ptr {w.env('name', row)})")
    w.report_unless(w.emit(f"icmp ne ptr {found}, null"), 4, str(row))
    result = w.emit(f"call ptr @unity.packed(ptr %env, ptr {found}, ptr %args, i64 {len(args)})")
    release(w, args)
    set_object(w, instruction.dst, w.require_object(result))


def kernel(w: FunctionWriter, signature: KernelSignature, name: str, instruction: bc.Call) -> None:
    """A raw entry, called directly."""
    w.used.add(name)
    parts: list[str] = []
    work: list[tuple[Dim, ...]] = []
    sizes: list[int] = []
    for arg, param in zip(instruction.args, signature.params):
        if isinstance(param, BufferParam):
            parts.append(f"ptr {pointer(w, arg)}")
            work.append(shape_of(w, arg))
            sizes.append(DataType(param.dtype).itemsize)
        else:
            parts.append(scalar(w, arg, DataType(param.dtype)))
    parts += [f"i64 {w.dim(a.dim)}" for a in instruction.args[len(signature.params) :] if isinstance(a, bc.Size)]
    place = ""
    if signature.result is not None:
        place = w.alloca("i64")
        w.store("i64", "0", place)
        parts.append(f"ptr {place}")
    text = f"call i32 {quoted(w.program.linked(name))}({', '.join(parts)})"
    status = w.emit(text) if signature.packed_calls or w.on_device else call_without_gil(w, text, work, sizes)
    good, bad = w.label(), w.label()
    w.do(f"br i1 {w.emit(f'icmp eq i32 {status}, 0')}, label %{good}, label %{bad}")
    w.start(bad)
    for k, position in enumerate(register_scalars(w.program, instruction), len(w.fn.slots)):
        kind, value = parts[position].split()
        w.store(kind, value, "%slots", 8 * k)
    wide = w.emit(f"sext i32 {status} to i64")
    w.branch_to_report(1, str(instruction.function), wide, "failed")
    w.start(good)
    if signature.result is not None:
        set_object(w, instruction.dst, w.require_object(w.number(DataType(signature.result), place)))


def call_without_gil(w: FunctionWriter, text: str, work: list[tuple[Dim, ...]], sizes: list[int]) -> str:
    """The call, without the GIL where the tensors are large."""
    numbers = [[d for d in dims if isinstance(d, int)] for dims in work]
    if all([len(known) == len(dims) for known, dims in zip(numbers, work)]):
        count = sum([size * math.prod(known) for known, size in zip(numbers, sizes)])
        return w.emit(text) if count < RELEASE_BYTES else _released(w, text)
    total = bytes_of(w, work, sizes)
    large, small, done = w.label(), w.label(), w.label()
    w.do(f"br i1 {w.emit(f'icmp sge i64 {total}, {RELEASE_BYTES}')}, label %{large}, label %{small}")
    w.start(large)
    first = _released(w, text)
    w.do(f"br label %{done}")
    w.start(small)
    second = w.emit(text)
    w.do(f"br label %{done}")
    w.start(done)
    return w.emit(f"phi i32 [ {first}, %{large} ], [ {second}, %{small} ]")


def _released(w: FunctionWriter, text: str) -> str:
    state = w.emit("call ptr @PyEval_SaveThread()")
    status = w.emit(text)
    w.do(f"call void @PyEval_RestoreThread(ptr {state})")
    return status


def bytes_of(w: FunctionWriter, work: list[tuple[Dim, ...]], sizes: list[int]) -> str:
    """Sum of the sizes of tensors."""
    total = "0"
    for dims, size in zip(work, sizes):
        product = str(size)
        for d in dims:
            product = w.emit(f"mul i64 {product}, {w.dim(d)}")
        total = w.emit(f"add i64 {total}, {product}")
    return total


# ---- tuples, shapes, functions


def tuple_(w: FunctionWriter, instruction: bc.Call) -> None:
    """A tuple of values."""
    items = [new_reference(w, a) for a in instruction.args]
    w.scratch = max(w.scratch, len(items))
    for position, value in enumerate(items):
        w.store("ptr", value, "%args", 8 * position)
    result = w.emit(f"call ptr @unity_tuple(ptr %args, i64 {len(items)})")
    set_object(w, instruction.dst, w.require_object(result))


def shape(w: FunctionWriter, instruction: bc.Call) -> None:
    """A shape value."""
    dims = w.dims_array(tuple([a.dim for a in instruction.args if isinstance(a, bc.Size)]))
    result = w.emit(f"call ptr @unity_shape(ptr {dims}, i64 {len(instruction.args)})")
    set_object(w, instruction.dst, w.require_object(result))


def get_item(w: FunctionWriter, instruction: bc.Call) -> None:
    """A field of a tuple."""
    reg, position = instruction.args
    assert isinstance(position, bc.Imm) and isinstance(position.value, int)
    if not isinstance(reg, bc.Reg) or w.fn.registers[reg.index].kind != "object":
        builtin(w, "get_item", instruction)
        return
    obj, _ = boxed(w, reg)
    fast, slow, try_size, done = w.label(), w.label(), w.label(), w.label()
    w.do(f"br i1 {w.is_type(obj, 'tuple')}, label %{try_size}, label %{slow}")
    w.start(try_size)
    w.do(
        f"br i1 {w.emit('icmp sgt i64 ' + w.load(obj, 16, 'i64') + f', {position.value}')}, label %{fast}, label %{slow}"
    )
    w.start(slow)
    with w.side_blocks():
        builtin(w, "get_item", instruction)
    w.do(f"br label %{done}")
    w.start(fast)
    item = w.emit(f"call ptr @PyTuple_GetItem(ptr {obj}, i64 {position.value})")
    w.do(f"call void @Py_IncRef(ptr {item})")
    set_object(w, instruction.dst, item)
    w.do(f"br label %{done}")
    w.start(done)


def closure(w: FunctionWriter, instruction: bc.Call) -> None:
    """A function with captured values."""
    result = python(w, w.env("fixed", "closure_of"), [boxed(w, a) for a in instruction.args])
    set_object(w, instruction.dst, w.require_object(result))


def invoke(w: FunctionWriter, instruction: bc.Call) -> None:
    """A call of a function value."""
    function, owns = boxed(w, instruction.args[0])
    known = w.emit(f"call i32 @PyCallable_Check(ptr {function})")
    w.report_unless(w.emit(f"icmp ne i32 {known}, 0"), 8, "0")
    args = [boxed(w, a) for a in instruction.args[1:]]
    if w.on_device:
        result = python(w, w.env("fixed", "invoke"), [(function, owns), *args])
    else:
        result = python(w, function, args)
        release(w, [(function, owns)])
    set_object(w, instruction.dst, to_vm_value(w, w.require_object(result)))


_NATIVE = {
    "check_tensor": check_tensor, "check_shape": check_shape, "match_shape": match_shape, "check_equal": check_equal,
    "check_bounds": check_bounds, "bind_scalar": bind_scalar, "set_slot": set_slot,
    "kill": kill,
    "alloc_storage": alloc_storage, "tensor_in": tensor_in, "new_tensor": new_tensor,
    "view": view, "move": move, "tuple": tuple_, "shape": shape,
    "get_item": get_item, "closure": closure, "invoke": invoke,
}  # fmt: skip
