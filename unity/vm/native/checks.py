"""The native driver in LLVM IR: checks. Tensors and dimensions are compared natively; what does not fit, and checks of other
kinds, run as the same instruction in Python, which raises the error or hands the slots back."""

from __future__ import annotations

from ...ffi.native_helpers import LEAF_BYTES
from ..executable import bytecode as bc
from .memory import MemoryWriter


class CheckWriter(MemoryWriter):
    """Writes the check instructions."""

    current: int
    """Number of the instruction that is being written."""

    def recheck(self, instruction: bc.Call, arg: bc.Arg) -> None:
        """The same check in Python: raises, or returns the slots, which are stored."""
        value, owns = self.boxed(arg)
        function = self.env("fixed", "recheck")
        result = self.emit(
            f"call ptr @unity.recheck(ptr {function}, i64 {self.index}, i64 {self.current}, ptr {value}, ptr %slots, "
            f"i64 {len(self.fn.slots)})"
        )
        self.drop([(value, owns)])
        self.require_object(result)
        out = self.alloca("i64")
        for bind in [a for a in instruction.args if isinstance(a, bc.Bind)]:
            item = self.emit(f"call ptr @PyTuple_GetItem(ptr {result}, i64 {bind.slot})")
            self.do(f"call i32 @unity_as_int(ptr {item}, ptr {out})")
            self.set_slot_value(bind.slot, self.emit(f"load i64, ptr {out}"))
        self.do(f"call void @unity_decref(ptr {result})")

    def check_tensor(self, instruction: bc.Call) -> None:
        """Read the tensor into a record; what does not fit is explained by Python."""
        reg, _, dtype, ndim = instruction.args
        assert isinstance(reg, bc.Reg) and isinstance(dtype, bc.Imm) and isinstance(ndim, bc.Imm)
        record = self.alloca(f"[{LEAF_BYTES} x i8]")
        self.records[reg.index] = record
        value = self.emit(f"load ptr, ptr %o{reg.index}")
        name = dtype.value if isinstance(dtype.value, str) else None
        fits = self.extract(value, record, name, int(ndim.value or 0) if ndim.value != -1 else -1, False)
        self.explain_unless(fits, value)
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
        value = self.emit(f"load ptr, ptr %o{reg.index}")
        ndim = self.load(record, 24, "i64")
        self.explain_unless(self.emit(f"icmp eq i64 {ndim}, {len(axes)}"), value)
        extents = self.load(record, 16)
        for axis, wanted in enumerate(axes):
            if isinstance(wanted, bc.Bind):
                self.set_slot_value(wanted.slot, self.load(extents, 8 * axis, "i64"))
            elif isinstance(wanted, bc.Size):
                expected = self.dim(wanted.dim)
                same = self.emit(f"icmp eq i64 {self.load(extents, 8 * axis, 'i64')}, {expected}")
                self.explain_unless(same, value)

    def explain_unless(self, condition: str, value: str) -> None:
        """Where an i1 does not hold, the same check in Python says why."""
        good, bad = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{good}, label %{bad}")
        self.start(bad)
        self.do(f"store ptr {value}, ptr %value")
        self.do("br label %explain")
        self.start(good)

    def check_equal(self, instruction: bc.Call) -> None:
        """Two sizes that must agree."""
        _, actual, expected = instruction.args
        assert isinstance(actual, bc.Size) and isinstance(expected, bc.Size)
        same = self.emit(f"icmp eq i64 {self.dim(actual.dim)}, {self.dim(expected.dim)}")
        self.explain_unless(same, self.word("None"))

    def check_bounds(self, instruction: bc.Call) -> None:
        """A symbol between numbers."""
        _, size, *ends = instruction.args
        assert isinstance(size, bc.Size)
        value = self.dim(size.dim)
        for end, compare in zip(ends, ("sge", "sle")):
            if isinstance(end, bc.Imm) and end.value is not None:
                self.explain_unless(self.emit(f"icmp {compare} i64 {value}, {end.value}"), self.word("None"))

    def bind_scalar(self, instruction: bc.Call) -> None:
        """An integer into a slot."""
        reg, bind = instruction.args
        assert isinstance(bind, bc.Bind)
        self.set_slot_value(bind.slot, self.integer(reg))

    def set_slot(self, instruction: bc.Call) -> None:
        """A formula's value into a slot."""
        bind, size = instruction.args
        assert isinstance(bind, bc.Bind) and isinstance(size, bc.Size)
        self.set_slot_value(bind.slot, self.dim(size.dim))
