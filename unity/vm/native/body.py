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
from .checks import CheckWriter
from .ir import quoted
from .segments import Segment, cut_places

RELEASE_BYTES = 512 << 10
"""A kernel whose tensors have this many bytes or more runs without the GIL (never one that calls back into Python)."""
_RECHECKED = ("check_shape", "check_scalar", "check_tuple", "check_function", "check_writable")


class BodyWriter(CheckWriter):
    """Writes the instructions of one function."""

    def instructions(self) -> None:
        """All instructions; a label before each target."""
        targets = {i.target for i in self.fn.code if isinstance(i, (bc.Goto, bc.If))}
        cuts = cut_places(self.fn.code)
        self.segments: list[Segment] = []
        self.records: dict[int, str] = {}
        open_block = True
        for number, instruction in enumerate(self.fn.code):
            if number in cuts:
                self.do("br label %next")
                self.cut()
            if number in targets:
                if open_block:
                    self.do(f"br label %L{number}")
                self.start(f"L{number}")
                self.forget()
                open_block = True
            elif not open_block:
                self.start(self.label())
                open_block = True
            if isinstance(instruction, bc.Goto):
                self.do(f"br label %L{instruction.target}")
                open_block = False
                continue
            self.current = number
            self.do(f"store i64 {number}, ptr %at")
            if isinstance(instruction, bc.Call):
                if number < self.fn.prologue and self.is_done(instruction):
                    continue
                self.call(instruction)
            elif isinstance(instruction, bc.If):
                good = self.label()
                self.do(f"br i1 {self.condition(instruction.cond)}, label %{good}, label %L{instruction.target}")
                self.start(good)
            else:
                self.do(f"store ptr {self.owned(instruction.value)}, ptr %result")
                self.do("br label %exit")
                open_block = False
        if open_block:
            self.do("unreachable")
        self.cut()

    def cut(self) -> None:
        """End a segment: what was computed in it is not known behind it."""
        self.segments.append(Segment(self.lines, self.allocas, self.scratch))
        self.lines, self.allocas, self.scratch, self.records = [], [], 1, {}
        self.forget()

    def is_done(self, instruction: bc.Call) -> bool:
        """Has the checked entry done this check."""
        first = instruction.args[0]
        return isinstance(first, bc.Reg) and self.covered(first.index)

    # ---- calls

    def call(self, instruction: bc.Call) -> None:
        """One call."""
        entry = self.program.table[instruction.function]
        if entry.kind == "kernel":
            self.kernel(self.program.kernels[entry.name], entry.name, instruction)
        elif entry.kind == "vm":
            args = [self.boxed(a) for a in instruction.args]
            self.scratch = max(self.scratch, len(args))
            for position, (value, _) in enumerate(args):
                self.store("ptr", value, "%args", 8 * position)
            result = self.emit(f"call ptr {quoted('call.' + entry.name)}(ptr %env, ptr %args, i64 %limit)")
            self.drop(args)
            self.set_object(instruction.dst, self.require_object(result))
        elif entry.kind == "packed":
            self.packed(instruction)
        else:
            native = _NATIVE.get(entry.name)
            if native is not None:
                native(self, instruction)
            elif entry.name in _RECHECKED:
                self.recheck(instruction, instruction.args[0])
            else:
                self.builtin(entry.name, instruction)

    def packed(self, instruction: bc.Call) -> None:
        """A registered function, looked up now."""
        row = instruction.function
        args = [self.boxed(a) for a in instruction.args]
        self.scratch = max(self.scratch, len(args))
        for position, (value, _) in enumerate(args):
            self.store("ptr", value, "%args", 8 * position)
        found = self.emit(f"call ptr @unity.find(ptr %env, ptr {self.env('name', row)})")
        self.report_unless(self.emit(f"icmp ne ptr {found}, null"), 4, str(row))
        result = self.emit(f"call ptr @unity.packed(ptr %env, ptr {found}, ptr %args, i64 {len(args)})")
        self.drop(args)
        self.set_object(instruction.dst, self.require_object(result))

    def kernel(self, signature: KernelSignature, name: str, instruction: bc.Call) -> None:
        """A raw entry, called directly."""
        self.used.add(name)
        parts: list[str] = []
        work: list[tuple[Dim, ...]] = []
        sizes: list[int] = []
        for arg, param in zip(instruction.args, signature.params):
            if isinstance(param, BufferParam):
                parts.append(f"ptr {self.pointer(arg)}")
                work.append(self.shape_of(arg))
                sizes.append(DataType(param.dtype).itemsize)
            else:
                parts.append(self.scalar(arg, DataType(param.dtype)))
        parts += [f"i64 {self.dim(a.dim)}" for a in instruction.args[len(signature.params) :] if isinstance(a, bc.Size)]
        place = ""
        if signature.result is not None:
            place = self.alloca("i64")
            self.store("i64", "0", place)
            parts.append(f"ptr {place}")
        text = f"call i32 {quoted(self.program.linked(name))}({', '.join(parts)})"
        status = self.emit(text) if signature.packed_calls else self.released(text, work, sizes)
        good, bad = self.label(), self.label()
        self.do(f"br i1 {self.emit(f'icmp eq i32 {status}, 0')}, label %{good}, label %{bad}")
        self.start(bad)
        wide = self.emit(f"sext i32 {status} to i64")
        self.go_report(1, str(instruction.function), wide, "failed")
        self.start(good)
        if signature.result is not None:
            self.set_object(instruction.dst, self.require_object(self.number(DataType(signature.result), place)))

    def released(self, text: str, work: list[tuple[Dim, ...]], sizes: list[int]) -> str:
        """The call, without the GIL where the tensors are large."""
        constant = all([isinstance(d, int) for dims in work for d in dims])
        total = self.bytes_of(work, sizes) if not constant else ""
        if constant:
            count = sum([size * math.prod([d for d in dims if isinstance(d, int)]) for dims, size in zip(work, sizes)])
            if count < RELEASE_BYTES:
                return self.emit(text)
            large = "true"
        else:
            large = self.emit(f"icmp sge i64 {total}, {RELEASE_BYTES}")
        free, held, done = self.label(), self.label(), self.label()
        self.do(f"br i1 {large}, label %{free}, label %{held}")
        self.start(free)
        state = self.emit("call ptr @unity_gil_release()")
        first = self.emit(text)
        self.do(f"call void @unity_gil_restore(ptr {state})")
        self.do(f"br label %{done}")
        self.start(held)
        second = self.emit(text)
        self.do(f"br label %{done}")
        self.start(done)
        return self.emit(f"phi i32 [ {first}, %{free} ], [ {second}, %{held} ]")

    def bytes_of(self, work: list[tuple[Dim, ...]], sizes: list[int]) -> str:
        """Sum of the sizes of tensors."""
        total = "0"
        for dims, size in zip(work, sizes):
            product = str(size)
            for d in dims:
                product = self.emit(f"mul i64 {product}, {self.dim(d)}")
            total = self.emit(f"add i64 {total}, {product}")
        return total

    # ---- tuples, shapes, functions

    def tuple_(self, instruction: bc.Call) -> None:
        """A tuple of values."""
        items = [self.owned(a) for a in instruction.args]
        self.scratch = max(self.scratch, len(items))
        for position, value in enumerate(items):
            self.store("ptr", value, "%args", 8 * position)
        made = self.emit(f"call ptr @unity_tuple(ptr %args, i64 {len(items)})")
        self.set_object(instruction.dst, self.require_object(made))

    def shape(self, instruction: bc.Call) -> None:
        """A shape value."""
        place = self.dims_array(tuple([a.dim for a in instruction.args if isinstance(a, bc.Size)]))
        made = self.emit(f"call ptr @unity_shape(ptr {place}, i64 {len(instruction.args)})")
        self.set_object(instruction.dst, self.require_object(made))

    def get_item(self, instruction: bc.Call) -> None:
        """A field of a tuple."""
        reg, position = instruction.args
        assert isinstance(position, bc.Imm) and isinstance(position.value, int)
        if not isinstance(reg, bc.Reg) or self.kind(reg.index).kind != "object":
            self.builtin("get_item", instruction)
            return
        obj, _ = self.boxed(reg)
        fast, slow, try_size, done = self.label(), self.label(), self.label(), self.label()
        self.do(f"br i1 {self.is_type(obj, 'tuple')}, label %{try_size}, label %{slow}")
        self.start(try_size)
        self.do(
            f"br i1 {self.emit('icmp sgt i64 ' + self.load(obj, 16, 'i64') + f', {position.value}')}, label %{fast}, label %{slow}"
        )
        self.start(slow)
        with self.aside():
            self.builtin("get_item", instruction)
        self.do(f"br label %{done}")
        self.start(fast)
        item = self.emit(f"call ptr @PyTuple_GetItem(ptr {obj}, i64 {position.value})")
        self.do(f"call void @unity_incref(ptr {item})")
        self.set_object(instruction.dst, item)
        self.do(f"br label %{done}")
        self.start(done)

    def closure(self, instruction: bc.Call) -> None:
        """A function with captured values."""
        made = self.python(self.env("fixed", "closure_of"), [self.boxed(a) for a in instruction.args])
        self.set_object(instruction.dst, self.require_object(made))

    def invoke(self, instruction: bc.Call) -> None:
        """A call of a function value."""
        function, owns = self.boxed(instruction.args[0])
        known = self.emit(f"call i32 @PyCallable_Check(ptr {function})")
        self.report_unless(self.emit(f"icmp ne i32 {known}, 0"), 8, "0")
        result = self.python(function, [self.boxed(a) for a in instruction.args[1:]])
        self.drop([(function, owns)])
        self.set_object(instruction.dst, self.normal(self.require_object(result)))


_NATIVE = {
    "check_tensor": BodyWriter.check_tensor, "match_shape": BodyWriter.match_shape, "check_equal": BodyWriter.check_equal,
    "check_bounds": BodyWriter.check_bounds, "bind_scalar": BodyWriter.bind_scalar, "set_slot": BodyWriter.set_slot,
    "kill": BodyWriter.kill,
    "alloc_storage": BodyWriter.alloc_storage, "tensor_in": BodyWriter.tensor_in, "new_tensor": BodyWriter.new_tensor,
    "view": BodyWriter.view, "move": BodyWriter.move, "tuple": BodyWriter.tuple_, "shape": BodyWriter.shape,
    "get_item": BodyWriter.get_item, "closure": BodyWriter.closure, "invoke": BodyWriter.invoke,
}  # fmt: skip
