"""The native driver in LLVM IR: checks. Tensors and dimensions are compared natively; what does not fit, and checks of other
kinds, run as the same instruction in Python, which raises the error or hands the slots back."""

from __future__ import annotations

from ...ffi.native.native_helpers import LEAF_BYTES
from ..executable import bytecode as bc
from .ir import FunctionWriter
from .values import boxed, integer, release


def recheck(w: FunctionWriter, instruction: bc.Call, arg: bc.Arg) -> None:
    """The same check in Python: raises, or returns the slots, which are stored."""
    value, owns = boxed(w, arg)
    function = w.env("fixed", "recheck")
    result = w.emit(
        f"call ptr @unity.recheck(ptr {function}, i64 {w.index}, i64 {w.current}, ptr {value}, ptr %slots, "
        f"i64 {len(w.fn.slots)})"
    )
    release(w, [(value, owns)])
    w.require_object(result)
    out = w.alloca("i64")
    for bind in [a for a in instruction.args if isinstance(a, bc.Bind)]:
        item = w.emit(f"call ptr @PyTuple_GetItem(ptr {result}, i64 {bind.slot})")
        w.do(f"call i32 @unity_as_int(ptr {item}, ptr {out})")
        w.set_slot_value(bind.slot, w.emit(f"load i64, ptr {out}"))
    w.do(f"call void @Py_DecRef(ptr {result})")


def check_tensor(w: FunctionWriter, instruction: bc.Call) -> None:
    """Read the tensor into a record; what does not fit is explained by Python."""
    reg, _, dtype, ndim = instruction.args
    assert isinstance(reg, bc.Reg) and isinstance(dtype, bc.Imm) and isinstance(ndim, bc.Imm)
    record = w.alloca(f"[{LEAF_BYTES} x i8]")
    w.records[reg.index] = record
    value = w.emit(f"load ptr, ptr %o{reg.index}")
    name = dtype.value if isinstance(dtype.value, str) else None
    fits = w.extract(value, record, name, int(ndim.value or 0) if ndim.value != -1 else -1, False)
    explain_unless(w, fits, value)
    if reg.index < len(w.plan.params) and w.fn.registers[reg.index].kind == "tensor":
        w.do(f"store ptr {w.load(record, 0)}, ptr %p{reg.index}")


def formulas(w: FunctionWriter, arg: bc.Arg) -> list[bc.Size] | None:
    """The formulas of a shape that the function itself computes; None for any other value."""
    made = w.writers.get(arg.index, []) if isinstance(arg, bc.Reg) and arg.index >= len(w.fn.params) else []
    if len(made) != 1 or w.program.table[made[0].function] != bc.Entry("builtin", "shape"):
        return None
    sizes = [a for a in made[0].args if isinstance(a, bc.Size)]
    return sizes if len(sizes) == len(made[0].args) else None


def check_shape(w: FunctionWriter, instruction: bc.Call) -> None:
    """A tuple of integers: in Python, unless the function computes it."""
    reg, _, ndim = instruction.args
    sizes = formulas(w, reg)
    if sizes is None or ndim not in (bc.Imm(-1), bc.Imm(len(sizes))):
        recheck(w, instruction, reg)


def match_shape(w: FunctionWriter, instruction: bc.Call) -> None:
    """Compare and bind dimensions of a tensor that was read, or of a shape that the function computes."""
    reg, _, *axes = instruction.args
    assert isinstance(reg, bc.Reg)
    record, sizes = w.records.get(reg.index), formulas(w, reg)
    if record is None and (sizes is None or len(sizes) != len(axes)):
        recheck(w, instruction, reg)
        return
    value = w.emit(f"load ptr, ptr %o{reg.index}")
    if record is not None:
        explain_unless(w, w.emit(f"icmp eq i64 {w.load(record, 24, 'i64')}, {len(axes)}"), value)
    extents = "" if record is None else w.load(record, 16)
    for axis, wanted in enumerate(axes):
        if isinstance(wanted, bc.Imm):
            continue
        extent = w.dim(sizes[axis].dim) if sizes is not None else w.load(extents, 8 * axis, "i64")
        if isinstance(wanted, bc.Bind):
            w.set_slot_value(wanted.slot, extent)
        elif isinstance(wanted, bc.Size):
            explain_unless(w, w.emit(f"icmp eq i64 {extent}, {w.dim(wanted.dim)}"), value)


def explain_unless(w: FunctionWriter, condition: str, value: str) -> None:
    """If an i1 does not hold, the same check in Python says why."""
    good, bad = w.label(), w.label()
    w.do(f"br i1 {condition}, label %{good}, label %{bad}")
    w.start(bad)
    w.do(f"store ptr {value}, ptr %value")
    w.do("br label %explain")
    w.start(good)


def check_equal(w: FunctionWriter, instruction: bc.Call) -> None:
    """Two sizes that must agree."""
    _, actual, expected = instruction.args
    assert isinstance(actual, bc.Size) and isinstance(expected, bc.Size)
    same = w.emit(f"icmp eq i64 {w.dim(actual.dim)}, {w.dim(expected.dim)}")
    explain_unless(w, same, w.word("None"))


def check_bounds(w: FunctionWriter, instruction: bc.Call) -> None:
    """A symbol between numbers."""
    _, size, *ends = instruction.args
    assert isinstance(size, bc.Size)
    value = w.dim(size.dim)
    for end, compare in zip(ends, ("sge", "sle")):
        if isinstance(end, bc.Imm) and end.value is not None:
            explain_unless(w, w.emit(f"icmp {compare} i64 {value}, {end.value}"), w.word("None"))


def bind_scalar(w: FunctionWriter, instruction: bc.Call) -> None:
    """An integer into a slot."""
    reg, bind = instruction.args
    assert isinstance(bind, bc.Bind)
    w.set_slot_value(bind.slot, integer(w, reg))


def set_slot(w: FunctionWriter, instruction: bc.Call) -> None:
    """A formula's value into a slot."""
    bind, size = instruction.args
    assert isinstance(bind, bc.Bind) and isinstance(size, bc.Size)
    w.set_slot_value(bind.slot, w.dim(size.dim))
