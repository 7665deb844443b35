"""The native driver in LLVM IR: what each instruction becomes.

Native: entry values, checks of tensors and dimensions, formulas, storage, tensors, views, moves, kernels, calls inside the
program, registered functions, tuples, shapes, conditions, returns. Through a Python helper, instruction by instruction:
checks of shapes, scalars, tuples and functions; closures; ``print``, ``assert_op``, ``shape_of`` and the other builtins of
``builtins.py``; float arithmetic; views of tensors whose shape is unknown.
"""

from __future__ import annotations

from ..ffi.abi import BufferParam, Dim, KernelSignature
from ..ffi.dtype import DataType
from ..ffi.fastcall_ir import llvm_scalar
from ..ffi.native_helpers import LEAF_BYTES
from ..ffi.runtime_table import DTYPE_INDEX
from . import bytecode as bc
from .native_ir import FunctionWriter, quoted

RELEASE_BYTES = 512 << 10
"""A kernel whose tensors have this many bytes or more runs without the GIL (never one that calls back into Python)."""
_RECHECKED = ("check_shape", "check_scalar", "check_tuple", "check_function", "check_writable")


class BodyWriter(FunctionWriter):
    """Writes the instructions of one function."""

    def kind(self, index: int) -> bc.RegType:
        """Type of a register."""
        return self.fn.registers[index]

    def covered(self, index: int) -> bool:
        """Is the register a parameter that the entry has checked."""
        return index < len(self.plan.params) and self.plan.params[index].kind != "object"

    def leaf(self, index: int) -> str:
        """Leaf record of a parameter."""
        return self.gep("%leaves", LEAF_BYTES * index)

    def instructions(self) -> None:
        """All instructions; a label before each target."""
        targets = {i.target for i in self.fn.code if isinstance(i, (bc.Goto, bc.If))}
        self.records: dict[int, str] = {}
        open_block = True
        for number, instruction in enumerate(self.fn.code):
            if number in targets:
                if open_block:
                    self.do(f"br label %L{number}")
                self.start(f"L{number}")
                open_block = True
            elif not open_block:
                self.start(self.label())
                open_block = True
            if isinstance(instruction, bc.Goto):
                self.do(f"br label %L{instruction.target}")
                open_block = False
                continue
            self.number = number
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

    def is_done(self, instruction: bc.Call) -> bool:
        """Has the checked entry done this check."""
        first = instruction.args[0]
        return isinstance(first, bc.Reg) and self.covered(first.index)

    # ---- values as Python objects

    def boxed(self, arg: bc.Arg) -> tuple[str, bool]:
        """(object, does this code own a reference)."""
        if isinstance(arg, bc.Reg):
            return self.boxed_register(arg.index)
        if isinstance(arg, bc.Imm):
            value = arg.value.hex() if isinstance(arg.value, float) else arg.value
            return self.env("imm", type(arg.value).__name__, value), False
        if isinstance(arg, bc.Const):
            return self.env("const", arg.index), False
        if isinstance(arg, bc.Func):
            return self.env("row", arg.index), False
        assert isinstance(arg, bc.Size)
        value = self.dim(arg.dim)
        if arg.dtype == "bool":
            bit = self.emit(f"icmp ne i64 {value}, 0")
            return self.require_object(self.emit(f"call ptr @unity_bool(i1 {bit})")), True
        return self.require_object(self.emit(f"call ptr @unity_int(i64 {value})")), True

    def boxed_register(self, index: int) -> tuple[str, bool]:
        """A register's value as an object."""
        known = self.kind(index)
        if known.kind == "tensor":
            if self.covered(index):
                made = self.emit(f"call ptr @unity_leaf_tensor(ptr {self.leaf(index)}, i64 {DTYPE_INDEX[known.dtype]})")
                return self.require_object(made), True
            have, make, done = self.label(), self.label(), self.label()
            obj = self.emit(f"load ptr, ptr %o{index}")
            self.do(f"br i1 {self.emit(f'icmp ne ptr {obj}, null')}, label %{have}, label %{make}")
            self.start(have)
            self.do(f"call void @unity_incref(ptr {obj})")
            self.do(f"br label %{done}")
            self.start(make)
            dims = self.dims_array(known.dims)
            data, owner = self.emit(f"load ptr, ptr %p{index}"), self.emit(f"load ptr, ptr %w{index}")
            made = self.emit(f"call ptr @unity_view_tensor(i64 {DTYPE_INDEX[known.dtype]}, i64 {len(known.dims)}, ptr {dims}, ptr {data}, ptr {owner})")
            self.require_object(made)
            last = self.label()
            self.do(f"br label %{last}")
            self.start(last)
            self.do(f"br label %{done}")
            self.start(done)
            return self.emit(f"phi ptr [ {obj}, %{have} ], [ {made}, %{last} ]"), True
        obj = self.emit(f"load ptr, ptr %o{index}")
        none = self.word("None")
        return self.emit(f"select i1 {self.emit(f'icmp eq ptr {obj}, null')}, ptr {none}, ptr {obj}"), False

    def owned(self, arg: bc.Arg) -> str:
        """The value as a new reference."""
        value, owns = self.boxed(arg)
        if not owns:
            self.do(f"call void @unity_incref(ptr {value})")
        return value

    def python(self, function: str, args: list[tuple[str, bool]]) -> str:
        """Call a Python object with boxed arguments; the result may be null."""
        self.scratch = max(self.scratch, len(args))
        for position, (value, _) in enumerate(args):
            self.store("ptr", value, "%args", 8 * position)
        result = self.emit(f"call ptr @unity_call(ptr {function}, ptr %args, i64 {len(args)})")
        self.drop(args)
        return result

    def drop(self, args: list[tuple[str, bool]]) -> None:
        """Give up the references that boxing made."""
        for value, owns in args:
            if owns:
                self.do(f"call void @unity_decref(ptr {value})")

    def set_object(self, index: int, value: str) -> None:
        """Put a new reference into a register; a typed register takes the tensor apart."""
        if index < 0:
            self.do(f"call void @unity_decref(ptr {value})")
            return
        known = self.kind(index)
        old = self.emit(f"load ptr, ptr %o{index}")
        self.do(f"store ptr {value}, ptr %o{index}")
        self.do(f"call void @unity_decref(ptr {old})")
        if known.kind == "tensor":
            record = self.alloca(f"[{LEAF_BYTES} x i8]")
            fits = self.extract(value, record, known.dtype, len(known.dims), False)
            self.report_unless(fits, 9, str(index))
            self.do(f"store ptr {self.load(record, 0)}, ptr %p{index}")

    def normal(self, value: str) -> str:
        """A result from Python as a value of the VM: arrays become tensors."""
        other, done = self.label(), self.label()
        before = self.label()
        self.do(f"br label %{before}")
        self.start(before)
        plain = self.emit(f"or i1 {self.is_type(value, 'tensor')}, {self.emit(f'icmp eq ptr {value}, ' + self.word('None'))}")
        self.do(f"br i1 {plain}, label %{done}, label %{other}")
        self.start(other)
        made = self.python(self.env("fixed", "value"), [(value, True)])
        self.require_object(made)
        last = self.label()
        self.do(f"br label %{last}")
        self.start(last)
        self.do(f"br label %{done}")
        self.start(done)
        return self.emit(f"phi ptr [ {value}, %{before} ], [ {made}, %{last} ]")

    def condition(self, arg: bc.Arg) -> str:
        """A condition as i1."""
        if isinstance(arg, bc.Size):
            return self.emit(f"icmp ne i64 {self.dim(arg.dim)}, 0")
        if isinstance(arg, bc.Imm):
            return "true" if arg.value else "false"
        if isinstance(arg, bc.Reg) and self.kind(arg.index) == bc.RegType("tensor", "bool", ()):
            data = self.emit(f"load ptr, ptr %p{arg.index}")
            return self.emit(f"icmp ne i8 {self.load(data, 0, 'i8')}, 0")
        result = self.require_object(self.python(self.env("fixed", "truth"), [self.boxed(arg)]))
        bit = self.emit(f"call i32 @unity_as_bool(ptr {result})")
        self.do(f"call void @unity_decref(ptr {result})")
        return self.emit(f"icmp ne i32 {bit}, 0")

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
            result = self.emit(f"call ptr {quoted('call.' + entry.name)}(ptr %env, ptr %args, i64 %base)")
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

    def builtin(self, name: str, instruction: bc.Call) -> None:
        """An operation in Python."""
        result = self.python(self.env("builtin", name), [self.boxed(a) for a in instruction.args])
        self.set_object(instruction.dst, self.require_object(result))

    def packed(self, instruction: bc.Call) -> None:
        """A registered function, looked up now."""
        row = instruction.function
        args = [self.boxed(a) for a in instruction.args]
        found = self.emit(f"call ptr @PyDict_GetItemWithError(ptr {self.env('fixed', 'table')}, ptr {self.env('name', row)})")
        self.report_unless(self.emit(f"icmp ne ptr {found}, null"), 4, str(row))
        offset = self.load("%env", self.layout.word("fixed", "function_offset"), "i64")
        place = self.emit(f"getelementptr i8, ptr {found}, i64 {offset}")
        function = self.emit(f"load ptr, ptr {place}")
        self.do(f"call void @unity_incref(ptr {function})")
        result = self.python(function, args)
        self.do(f"call void @unity_decref(ptr {function})")
        self.set_object(instruction.dst, self.normal(self.require_object(result)))

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
        text = f"call i32 {quoted(self.program.symbol(name))}({', '.join(parts)})"
        status = self.emit(text) if signature.packed_calls else self.released(text, work, sizes)
        good, bad, raised = self.label(), self.label(), self.label()
        self.do(f"br i1 {self.emit(f'icmp eq i32 {status}, 0')}, label %{good}, label %{bad}")
        self.start(bad)
        wide = self.emit(f"sext i32 {status} to i64")
        self.do(f"br i1 {self.emit(f'icmp slt i64 {wide}, 0')}, label %fail, label %{raised}")
        self.start(raised)
        self.do(f"call void @unity_raise_by(ptr {self.env('fixed', 'report')}, i64 1, i64 {instruction.function}, i64 {wide})")
        self.do("br label %fail")
        self.start(good)
        if signature.result is not None:
            self.set_object(instruction.dst, self.require_object(self.number(DataType(signature.result), place)))

    def released(self, text: str, work: list[tuple[Dim, ...]], sizes: list[int]) -> str:
        """The call, without the GIL where the tensors are large."""
        constant = all([isinstance(d, int) for dims in work for d in dims])
        total = self.bytes_of(work, sizes) if not constant else ""
        if constant:
            count = 0
            for dims, size in zip(work, sizes):
                for d in dims:
                    size *= d  # type: ignore[operator]
                count += size
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

    def pointer(self, arg: bc.Arg) -> str:
        """Address of a tensor argument."""
        if isinstance(arg, bc.Const):
            return self.env("data", arg.index)
        assert isinstance(arg, bc.Reg)
        return self.emit(f"load ptr, ptr %p{arg.index}")

    def shape_of(self, arg: bc.Arg) -> tuple[Dim, ...]:
        """Dimensions of a tensor argument."""
        if isinstance(arg, bc.Const):
            return tuple(self.program.constants[arg.index].shape)
        assert isinstance(arg, bc.Reg)
        return self.kind(arg.index).dims

    def scalar(self, arg: bc.Arg, dtype: DataType) -> str:
        """A scalar argument with its LLVM type."""
        kind = llvm_scalar(dtype)
        if dtype.is_float:
            value, owns = self.boxed(arg)
            place = self.alloca("double")
            status = self.emit(f"call i32 @unity_as_float(ptr {value}, ptr {place})")
            self.drop([(value, owns)])
            self.require(self.emit(f"icmp eq i32 {status}, 0"))
            wide = self.emit(f"load double, ptr {place}")
            return f"{kind} {wide if kind == 'double' else self.emit(f'fptrunc double {wide} to {kind}')}"
        wide = self.integer(arg)
        if kind == "ptr":
            return f"ptr {self.emit(f'inttoptr i64 {wide} to ptr')}"
        return f"{kind} {wide if kind == 'i64' else self.emit(f'trunc i64 {wide} to {kind}')}"

    def integer(self, arg: bc.Arg) -> str:
        """An integer argument as i64."""
        if isinstance(arg, bc.Size):
            return self.dim(arg.dim)
        if isinstance(arg, bc.Imm) and isinstance(arg.value, int):
            return str(int(arg.value))
        value, owns = self.boxed(arg)
        place = self.alloca("i64")
        status = self.emit(f"call i32 @unity_as_int(ptr {value}, ptr {place})")
        self.drop([(value, owns)])
        self.require(self.emit(f"icmp eq i32 {status}, 0"))
        return self.emit(f"load i64, ptr {place}")

    def number(self, dtype: DataType, place: str) -> str:
        """The scalar at an address as a Python object."""
        kind = llvm_scalar(dtype)
        value = self.load(place, 0, kind)
        if dtype.is_float:
            wide = value if kind == "double" else self.emit(f"fpext {kind} {value} to double")
            return self.emit(f"call ptr @unity_float(double {wide})")
        if dtype.is_bool:
            return self.emit(f"call ptr @unity_bool(i1 {self.emit(f'icmp ne i8 {value}, 0')})")
        if kind == "ptr":
            return self.emit(f"call ptr @unity_uint(i64 {self.emit(f'ptrtoint ptr {value} to i64')})")
        wide = value if kind == "i64" else self.emit(f"{'sext' if dtype.is_int else 'zext'} {kind} {value} to i64")
        return self.emit(f"call ptr @unity_{'int' if dtype.is_int else 'uint'}(i64 {wide})")

    # ---- checks

    def recheck(self, instruction: bc.Call, arg: bc.Arg) -> None:
        """The same check in Python: raises, or returns the slots, which are stored."""
        count = len(self.fn.slots)
        place = self.alloca(f"[{max(1, count)} x i64]")
        for k in range(count):
            self.store("i64", self.emit(f"load i64, ptr %s{k}"), place, 8 * k)
        slots = self.require_object(self.emit(f"call ptr @unity_shape(ptr {place}, i64 {count})"))
        number = self.require_object(self.emit(f"call ptr @unity_int(i64 {self.index})"))
        at = self.require_object(self.emit(f"call ptr @unity_int(i64 {self.number})"))
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

    # ---- memory

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
            old = self.emit(f"load ptr, ptr %w{dst}")
            self.do(f"store ptr {made}, ptr %w{dst}")
            self.do(f"call void @unity_decref(ptr {old})")
            self.do(f"store ptr {self.emit(f'load ptr, ptr {out}')}, ptr %p{dst}")
            return
        data = self.emit(f"call ptr @unity.arena(ptr %env, ptr %arena, i64 {count})")
        self.report_unless(self.emit(f"icmp ne ptr {data}, null"), 10, count)
        self.do(f"store ptr {data}, ptr %p{dst}")

    def extent_bytes(self, dtype: str, dims: tuple[Dim, ...]) -> str:
        """Size of a tensor; negative and overflowing ones are errors."""
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
        return size

    def place_in(self, instruction: bc.Call, data: str, room: str) -> None:
        """A typed register over memory at an offset, inside ``room`` bytes."""
        known = self.kind(instruction.dst)
        offset_arg = instruction.args[1]
        assert isinstance(offset_arg, bc.Size)
        offset = self.dim(offset_arg.dim)
        size = self.extent_bytes(known.dtype, known.dims)
        left = self.emit(f"sub i64 {room}, {offset}")
        fits = self.emit(f"and i1 {self.emit(f'icmp sge i64 {offset}, 0')}, {self.emit(f'icmp sge i64 {left}, {size}')}")
        self.report_unless(fits, 6, size, room)
        address = self.emit(f"getelementptr i8, ptr {data}, i64 {offset}")
        item = DataType(known.dtype).itemsize
        if item > 1:
            low = self.emit(f"and i64 {self.emit(f'ptrtoint ptr {address} to i64')}, {item - 1}")
            self.report_unless(self.emit(f"icmp eq i64 {low}, 0"), 6, size, room)
        self.do(f"store ptr {address}, ptr %p{instruction.dst}")

    def tensor_in(self, instruction: bc.Call) -> None:
        """A tensor inside storage."""
        reg, dst = instruction.args[0], instruction.dst
        if not isinstance(reg, bc.Reg) or self.kind(reg.index).kind != "storage":
            self.builtin("tensor_in", instruction)
            return
        self.place_in(instruction, self.emit(f"load ptr, ptr %p{reg.index}"), self.emit(f"load i64, ptr %z{reg.index}"))
        if self.owned_storage:
            self.set_owner(dst, self.emit(f"load ptr, ptr %w{reg.index}"))

    def set_owner(self, index: int, owner: str) -> None:
        """The object that keeps a typed register's memory."""
        self.do(f"call void @unity_incref(ptr {owner})")
        for slot, value in ((f"%w{index}", owner), (f"%o{index}", "null")):
            old = self.emit(f"load ptr, ptr {slot}")
            self.do(f"store ptr {value}, ptr {slot}")
            self.do(f"call void @unity_decref(ptr {old})")

    def new_tensor(self, instruction: bc.Call) -> None:
        """A tensor with memory of its own: it is a Python object from the start."""
        known, dst = self.kind(instruction.dst), instruction.dst
        dims, out = self.dims_array(known.dims), self.alloca("ptr")
        made = self.emit(f"call ptr @unity_new_tensor(i64 {DTYPE_INDEX[known.dtype]}, i64 {len(known.dims)}, ptr {dims}, ptr {out})")
        self.require_object(made)
        old = self.emit(f"load ptr, ptr %o{dst}")
        self.do(f"store ptr {made}, ptr %o{dst}")
        self.do(f"call void @unity_decref(ptr {old})")
        self.do(f"store ptr {self.emit(f'load ptr, ptr {out}')}, ptr %p{dst}")

    def view(self, instruction: bc.Call) -> None:
        """The same memory under another type."""
        reg, dst = instruction.args[0], instruction.dst
        if not isinstance(reg, bc.Reg) or self.kind(reg.index).kind != "tensor" or self.kind(dst).kind != "tensor":
            self.builtin("view", instruction)
            return
        source = self.kind(reg.index)
        room = self.extent_bytes(source.dtype, source.dims)
        self.place_in(instruction, self.emit(f"load ptr, ptr %p{reg.index}"), room)
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
            self.do(f"call void @unity_incref(ptr {value})")
            old = self.emit(f"load ptr, ptr {slot}")
            self.do(f"store ptr {value}, ptr {slot}")
            self.do(f"call void @unity_decref(ptr {old})")

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
        self.do(f"br i1 {self.emit(f'icmp sgt i64 ' + self.load(obj, 16, 'i64') + f', {position.value}')}, label %{fast}, label %{slow}")
        self.start(slow)
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
    "bind_scalar": BodyWriter.bind_scalar, "set_slot": BodyWriter.set_slot, "kill": BodyWriter.kill,
    "alloc_storage": BodyWriter.alloc_storage, "tensor_in": BodyWriter.tensor_in, "new_tensor": BodyWriter.new_tensor,
    "view": BodyWriter.view, "move": BodyWriter.move, "tuple": BodyWriter.tuple_, "shape": BodyWriter.shape,
    "get_item": BodyWriter.get_item, "closure": BodyWriter.closure, "invoke": BodyWriter.invoke,
}  # fmt: skip
