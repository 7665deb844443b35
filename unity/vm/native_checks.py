"""The native driver in LLVM IR: checks. Tensors and dimensions are compared natively; what does not fit, and checks of other
kinds, run as the same instruction in Python, which raises the error or hands the slots back."""

from __future__ import annotations

from ..ffi.native_helpers import LEAF_BYTES
from . import bytecode as bc
from .native_memory import MemoryWriter


class CheckWriter(MemoryWriter):
    """Writes the check instructions."""

    current: int
    """Number of the instruction that is being written."""

    def recheck(self, instruction: bc.Call, arg: bc.Arg) -> None:
        """The same check in Python: raises, or returns the slots, which are stored."""
        count = len(self.fn.slots)
        place = self.alloca(f"[{max(1, count)} x i64]")
        for k in range(count):
            self.store("i64", self.emit(f"load i64, ptr %s{k}"), place, 8 * k)
        slots = self.require_object(self.emit(f"call ptr @unity_shape(ptr {place}, i64 {count})"))
        number = self.require_object(self.emit(f"call ptr @unity_int(i64 {self.index})"))
        at = self.require_object(self.emit(f"call ptr @unity_int(i64 {self.current})"))
        value = self.boxed(arg)
        result = self.python(self.env("fixed", "recheck"), [(number, True), (at, True), value, (slots, True)])
        self.require_object(result)
        out = self.alloca("i64")
        for bind in [a for a in instruction.args if isinstance(a, bc.Bind)]:
            item = self.emit(f"call ptr @PyTuple_GetItem(ptr {result}, i64 {bind.slot})")
            self.do(f"call i32 @unity_as_int(ptr {item}, ptr {out})")
            self.do(f"store i64 {self.emit(f'load i64, ptr {out}')}, ptr %s{bind.slot}")
        self.do(f"call void @unity_decref(ptr {result})")

    def check_tensor(self, instruction: bc.Call) -> None:
        """Read the tensor into a record; what does not fit is explained by Python."""
        reg, _, dtype, ndim = instruction.args
        assert isinstance(reg, bc.Reg) and isinstance(dtype, bc.Imm) and isinstance(ndim, bc.Imm)
        record = self.alloca(f"[{LEAF_BYTES} x i8]")
        self.records[reg.index] = record
        value, owns = self.boxed(reg)
        name = dtype.value if isinstance(dtype.value, str) else None
        fits = self.extract(value, record, name, int(ndim.value or 0) if ndim.value != -1 else -1, False)
        self.drop([(value, owns)])
        good, bad = self.label(), self.label()
        self.do(f"br i1 {fits}, label %{good}, label %{bad}")
        self.start(bad)
        self.recheck(instruction, reg)
        self.report_unless("false", 9, str(reg.index))
        self.do(f"br label %{good}")
        self.start(good)
        if reg.index < len(self.plan.params) and self.kind(reg.index).kind == "tensor":
            self.do(f"store ptr {self.load(record, 0)}, ptr %p{reg.index}")

    def match_shape(self, instruction: bc.Call) -> None:
        """Compare and bind dimensions of a tensor that was read."""
        reg, _, *axes = instruction.args
        assert isinstance(reg, bc.Reg)
        record = self.records.get(reg.index)
        if record is None:
            self.recheck(instruction, reg)
            return
        good, bad = self.label(), self.label()
        ndim = self.load(record, 24, "i64")
        inside = self.label()
        self.do(f"br i1 {self.emit(f'icmp eq i64 {ndim}, {len(axes)}')}, label %{inside}, label %{bad}")
        self.start(inside)
        extents = self.load(record, 16)
        for axis, wanted in enumerate(axes):
            if isinstance(wanted, bc.Bind):
                self.do(f"store i64 {self.load(extents, 8 * axis, 'i64')}, ptr %s{wanted.slot}")
            elif isinstance(wanted, bc.Size):
                expected = self.dim(wanted.dim)
                same = self.emit(f"icmp eq i64 {self.load(extents, 8 * axis, 'i64')}, {expected}")
                label = self.label()
                self.do(f"br i1 {same}, label %{label}, label %{bad}")
                self.start(label)
        self.do(f"br label %{good}")
        self.start(bad)
        self.recheck(instruction, reg)
        self.report_unless("false", 9, str(reg.index))
        self.do(f"br label %{good}")
        self.start(good)

    def check_equal(self, instruction: bc.Call) -> None:
        """Two sizes that must agree."""
        _, actual, expected = instruction.args
        assert isinstance(actual, bc.Size) and isinstance(expected, bc.Size)
        same = self.emit(f"icmp eq i64 {self.dim(actual.dim)}, {self.dim(expected.dim)}")
        good, bad = self.label(), self.label()
        self.do(f"br i1 {same}, label %{good}, label %{bad}")
        self.start(bad)
        self.recheck(instruction, bc.Imm(None))
        self.do(f"br label %{good}")
        self.start(good)

    def bind_scalar(self, instruction: bc.Call) -> None:
        """An integer into a slot."""
        reg, bind = instruction.args
        assert isinstance(bind, bc.Bind)
        self.do(f"store i64 {self.integer(reg)}, ptr %s{bind.slot}")

    def set_slot(self, instruction: bc.Call) -> None:
        """A formula's value into a slot."""
        bind, size = instruction.args
        assert isinstance(bind, bc.Bind) and isinstance(size, bc.Size)
        self.do(f"store i64 {self.dim(size.dim)}, ptr %s{bind.slot}")
