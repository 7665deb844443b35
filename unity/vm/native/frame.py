"""The native driver of a program: ``body.F``, the frame of a function around its instructions, its errors and its exit.

Invariant: every reference a frame holds is dropped at its one exit, and the arena's lock is given back there.
"""

from __future__ import annotations

from .body import instructions
from .ir import KERNEL_FAILED, FunctionWriter, quoted
from .memory import references
from .segments import Layout, Segment
from .values import is_checked_by_entry, to_vm_value


class Frame:
    """``body.F``: registers and slots in the frame, parameters from their records, one exit."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.w = writer

    def text(self) -> str:
        """The function, and its segments where it has several."""
        self.parameters()
        instructions(self.w)
        self.holding = [k for k in range(len(self.w.fn.registers)) if self.may_hold(k)]
        self.places = [slot for k in self.holding for slot in references(self.w, k)]
        """The words that hold references; one more, always null, is for registers that never hold any."""
        if len(self.w.segments) > 1:
            return self.segmented()
        (only,) = self.w.segments
        lines = [
            self.definition(),
            *self.separate_slots(),
            *self.space(only),
            *self.clear(),
            *self.enter(),
            *only.lines,
        ]
        return self.written([*lines, *self.errors(), *self.leave()])

    def written(self, lines: list[str]) -> str:
        """Text of lines."""
        return "\n".join(lines) + "\n}\n"

    def definition(self) -> str:
        """The head of the function."""
        name = quoted("body." + self.w.fn.name)
        return f"define internal ptr {name}(ptr %env, ptr %leaves, ptr %symbols, i64 %limit) noinline {{\nentry:"

    def segmented(self) -> str:
        """A function for each segment, which says whether the function is done, and one that calls them."""
        layout = self.lay_out_frame()
        segments, lines = [], [self.definition(), f"  %frame = alloca [{layout.words} x i64], align 16"]
        lines.append(f"  call void @unity.clear(ptr %frame, i64 {layout.words})")
        lines += [
            *layout.addresses(["%result %arena"]),
            f"  %refs = getelementptr i64, ptr %frame, i64 {self.first_reference}",
        ]
        lines += self.enter()
        for number, segment in enumerate(self.w.segments):
            name = quoted(f"segment.{number}.{self.w.fn.name}")
            parameters = ("ptr %env", "ptr %leaves", "ptr %symbols", "i64 %limit", "ptr %frame")
            body = [*segment.lines, *self.errors(), "exit:", "  ret i1 true", "next:", "  ret i1 false"]
            head = f"define internal i1 {name}({', '.join(parameters)}) noinline {{\nentry:"
            segments.append(self.written([head, *layout.addresses(body), *self.space(segment), *body]))
            lines.append(f"  %done{number} = call i1 {name}({', '.join(parameters)})")
            lines += [f"  br i1 %done{number}, label %exit, label %after{number}", f"after{number}:"]
        lines += ["  br label %exit", *self.leave()]
        return "".join([*segments, self.written(lines)])

    def lay_out_frame(self) -> Layout:
        """The frame in memory."""
        layout, registers = Layout(), self.w.fn.registers
        for name in ("%at", "%result", "%value", "%code", "%first", "%second"):
            layout.add(name)
        layout.add("%arena", 4)
        slots = layout.add("%slots", self.w.slot_words)
        layout.offsets |= {f"%s{k}": slots + k for k in range(len(self.w.fn.slots))}
        for k, register in enumerate(registers):
            for letter in {"object": "", "storage": "pz"}.get(register.kind, "p"):
                layout.add(f"%{letter}{k}")
        self.first_reference = layout.words
        for slot in self.places:
            layout.add(slot)
        nothing = layout.add("%nothing")
        layout.offsets |= dict.fromkeys(self.idle_slots(), nothing)
        return layout

    def idle_slots(self) -> list[str]:
        """The word of registers that never hold references."""
        return [
            slot
            for k in sorted(set(range(len(self.w.fn.registers))) - set(self.holding))
            for slot in references(self.w, k)
        ]

    def separate_slots(self) -> list[str]:
        """The places of a function of one segment, each by itself, so that most of them are not memory at all."""
        fn = self.w.fn
        lines = ["  %at = alloca i64", "  %result = alloca ptr", "  %arena = alloca [4 x i64]"]
        lines += [f"  %slots = alloca [{self.w.slot_words} x i64]", "  %value = alloca ptr"]
        lines += [f"  %s{k} = getelementptr i64, ptr %slots, i64 {k}" for k in range(len(fn.slots))]
        lines.append(f"  %refs = alloca [{len(self.places) + 1} x ptr]")
        lines += [f"  {slot} = getelementptr ptr, ptr %refs, i64 {number}" for number, slot in enumerate(self.places)]
        lines += [f"  {slot} = getelementptr ptr, ptr %refs, i64 {len(self.places)}" for slot in self.idle_slots()]
        for k, register in enumerate(fn.registers):
            if register.kind != "object":
                lines += [f"  %p{k} = alloca ptr", f"  store ptr null, ptr %p{k}"]
            if register.kind == "storage":
                lines += [f"  %z{k} = alloca i64", f"  store i64 0, ptr %z{k}"]
        return [*lines, "  %code = alloca i64", "  %first = alloca i64", "  %second = alloca i64"]

    def space(self, segment: Segment) -> list[str]:
        """The allocations that a segment needs beside the places."""
        return [f"  %args = alloca [{segment.scratch} x ptr]", *segment.allocas]

    def clear(self) -> list[str]:
        """The places at the start."""
        slots, references = len(self.w.fn.slots), len(self.places) + 1
        lines = [
            f"  call void @unity.clear(ptr %slots, i64 {slots})",
            f"  call void @unity.clear(ptr %refs, i64 {references})",
        ]
        return [*lines, "  store i64 0, ptr %at", "  store ptr null, ptr %result"]

    def uses_arena(self) -> bool:
        """True if storage lies in the arena."""
        return not self.w.owned_storage and any([r.kind == "storage" for r in self.w.fn.registers])

    def enter(self) -> list[str]:
        """Take the arena."""
        return ["  call void @unity.arena.enter(ptr %env, ptr %arena)"] if self.uses_arena() else []

    def leave(self) -> list[str]:
        """The one exit."""
        lines = [
            "exit:",
            f"  call void @unity.drop(ptr %refs, i64 {len(self.places)})",
            "  %returned = load ptr, ptr %result",
        ]
        if self.uses_arena():
            leave = "unity.arena.leave.on" if self.w.on_device else "unity.arena.leave"
            lines.append(f"  call void @{leave}(ptr %env, ptr %arena, ptr %returned)")
        return [*lines, "  ret ptr %returned"]

    def errors(self) -> list[str]:
        """The blocks that raise and note errors."""
        return [
            "explain:  ; a fast check that failed: the same check in Python raises",
            f"  %recheckp = getelementptr i8, ptr %env, i64 {self.w.layout.word('fixed', 'recheck')}",
            "  %recheck.f = load ptr, ptr %recheckp",
            "  %recheck.at = load i64, ptr %at",
            "  %recheck.v = load ptr, ptr %value",
            f"  %unexpected = call ptr @unity.recheck(ptr %recheck.f, i64 {self.w.index}, i64 %recheck.at, ptr %recheck.v, "
            f"ptr %slots, i64 {len(self.w.fn.slots)})",
            "  store i64 9, ptr %code",
            "  store i64 0, ptr %first",
            "  %refused = icmp eq ptr %unexpected, null",
            "  br i1 %refused, label %fail, label %report",
            "failed:  ; a kernel: a status below zero means that a Python error is set",
            "  %status = load i64, ptr %second",
            "  %raised = icmp slt i64 %status, 0",
            "  br i1 %raised, label %fail, label %checked",
            "checked:  ; where the call stands and the slots say what the symbols of the kernel are",
            "  %checked.at = load i64, ptr %at",
            "  %checked.status = shl i64 %status, 32",
            "  %checked.first = or i64 %checked.status, %checked.at",
            "  %checked.slots = ptrtoint ptr %slots to i64",
            f"  store i64 {KERNEL_FAILED + self.w.index}, ptr %code",
            "  store i64 %checked.first, ptr %first",
            "  store i64 %checked.slots, ptr %second",
            "  br label %report",
            "report:",
            f"  %reportp = getelementptr i8, ptr %env, i64 {self.w.layout.word('fixed', 'report')}",
            "  %report.f = load ptr, ptr %reportp",
            "  %code.v = load i64, ptr %code",
            "  %first.v = load i64, ptr %first",
            "  %second.v = load i64, ptr %second",
            "  call void @unity_raise_by(ptr %report.f, i64 %code.v, i64 %first.v, i64 %second.v)",
            "  br label %fail",
            "fail:",
            f"  %notep = getelementptr i8, ptr %env, i64 {self.w.layout.word('fixed', 'note')}",
            "  %note = load ptr, ptr %notep",
            "  %where = load i64, ptr %at",
            f"  call void @unity.note(ptr %note, i64 {self.w.index}, i64 %where)",
            "  store ptr null, ptr %result",
            "  br label %exit",
        ]

    def may_hold(self, index: int) -> bool:
        """True if the register may hold references at the exit."""
        if self.w.fn.registers[index].kind != "tensor":
            return True
        if is_checked_by_entry(self.w, index):
            return False
        names = [self.w.program.table[i.function].name for i in self.w.writers.get(index, ())]
        return index < len(self.w.plan.params) or self.w.owned_storage or any([name != "tensor_in" for name in names])

    def parameters(self) -> None:
        """Depth of recursion, slots, and parameters."""
        here = self.w.emit("call ptr @llvm.frameaddress.p0(i32 0)")
        address = self.w.emit(f"ptrtoint ptr {here} to i64")
        self.w.report_unless(self.w.emit(f"icmp ugt i64 {address}, %limit"), 2, str(self.w.index))
        for number, slot in enumerate(self.w.plan.slots):
            self.w.set_slot_value(slot, self.w.load("%symbols", 8 * number, "i64"))
        for index, param in enumerate(self.w.plan.params):
            leaf = self.w.leaf_record(index)
            if param.kind == "tensor":
                self.w.do(f"store ptr {self.w.load(leaf, 0)}, ptr %p{index}")
                continue
            obj = self.w.load(leaf, 8)
            self.w.do(f"call void @Py_IncRef(ptr {obj})")
            if param.kind == "object":
                obj = to_vm_value(self.w, obj)
            elif param.slot is not None and param.dtype == "bool":
                self.w.set_slot_value(param.slot, self.w.load(leaf, 0, "i64"))
            self.w.do(f"store ptr {obj}, ptr %o{index}")
