"""The native driver in LLVM IR: values. Registers as Python objects and back, scalars, addresses, conditions.

Invariant: ``boxed`` says whether the code that follows owns the reference; ``set_object`` takes one over.
"""

from __future__ import annotations

from ...ffi.abi import Dim
from ...ffi.dtype import DataType
from ...ffi.fastcall_ir import llvm_scalar
from ...ffi.native_helpers import LEAF_BYTES
from ...ffi.runtime_table import DTYPE_INDEX
from ..executable import bytecode as bc
from .ir import FunctionWriter


class ValueWriter(FunctionWriter):
    """Writes code that moves values between registers, Python objects and machine words."""

    def kind(self, index: int) -> bc.RegType:
        """Type of a register."""
        return self.fn.registers[index]

    def covered(self, index: int) -> bool:
        """Is the register a parameter that the entry has checked."""
        return index < len(self.plan.params) and self.plan.params[index].kind != "object"

    def leaf(self, index: int) -> str:
        """Leaf record of a parameter."""
        return self.gep("%leaves", LEAF_BYTES * index)

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
            dims, number = self.dims_array(known.dims), DTYPE_INDEX[known.dtype]
            obj, data = self.emit(f"load ptr, ptr %o{index}"), self.emit(f"load ptr, ptr %p{index}")
            owner = self.emit(f"load ptr, ptr %w{index}")
            made = self.emit(
                f"call ptr @unity.box(ptr {obj}, i64 {number}, i64 {len(known.dims)}, ptr {dims}, ptr {data}, ptr {owner})"
            )
            return self.require_object(made), True
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
        self.do(f"store ptr {value}, ptr %o{index}")
        if known.kind == "tensor":
            record = self.alloca(f"[{LEAF_BYTES} x i8]")
            fits = self.extract(value, record, known.dtype, len(known.dims), False)
            self.report_unless(fits, 9, str(index))
            self.do(f"store ptr {self.load(record, 0)}, ptr %p{index}")

    def normal(self, value: str) -> str:
        """A result from Python as a value of the VM: arrays become tensors."""
        made = self.emit(f"call ptr @unity.normal(ptr {self.env('fixed', 'value')}, ptr {value})")
        return self.require_object(made)

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

    # ---- machine words

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
