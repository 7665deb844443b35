"""The native driver of a program: one LLVM module. Here: the module, and two of the three entries of a function.

Not here: the third, which does the work (``frame.py``).
"""

from __future__ import annotations

from ...ffi.abi import BufferParam, Dim, KernelSignature
from ...ffi.calls.object_ir import llvm_scalar
from ...ffi.dtype import DataType
from ...ffi.formula import FormulaEmitter
from ...ffi.native.native_helpers import HELPER_DECLARATIONS, LEAF_BYTES
from ..executable import bytecode as bc
from ..executable.entry import Param
from .frame import Frame
from .ir import DECLARATIONS, FIXED, ON_DEVICE, EnvLayout, FunctionWriter, quoted
from .support import SUPPORT_DECLARATIONS


def driver_ir(program: bc.Program, on_device: bool = False) -> tuple[str, EnvLayout]:
    """LLVM IR text of a program's driver and the layout of its environment. ``on_device``: its tensors lie in memory that the host
    does not read."""
    layout = EnvLayout()
    for name in FIXED:
        layout.word("fixed", name)
    used: set[str] = set()
    for name in ON_DEVICE if on_device else ():
        layout.word("fixed", name)
    called = _called_inside(program)
    parts = [
        function_ir(program, fn, index, layout, used, on_device, fn.name in called)
        for index, fn in enumerate(program.functions.values())
    ]
    symbols = {program.linked(name): program.kernels[name] for name in sorted(used)}
    kernels = [_declaration(symbol, signature) for symbol, signature in symbols.items()]  # equal programs share one
    head = [DECLARATIONS, HELPER_DECLARATIONS, SUPPORT_DECLARATIONS, *kernels]
    return "".join([*head, *parts]), layout


def _declaration(symbol: str, signature: KernelSignature) -> str:
    kinds = ["ptr" if isinstance(p, BufferParam) else llvm_scalar(DataType(p.dtype)) for p in signature.params]
    kinds += ["i64"] * len(signature.symbols) + (["ptr"] if signature.result is not None else [])
    return f"declare i32 {quoted(symbol)}({', '.join(kinds)})\n"


def _called_inside(program: bc.Program) -> set[str]:
    """The functions that functions of the program call."""
    entries = [
        program.table[instruction.function]
        for fn in program.functions.values()
        for instruction in fn.code
        if isinstance(instruction, bc.Call)
    ]
    return {entry.name for entry in entries if entry.kind == "vm"}


def function_ir(
    program: bc.Program, fn: bc.VMFunction, index: int, layout: EnvLayout, used: set[str], on_device: bool, inside: bool
) -> str:
    """``body.F``, ``drive.F`` and, for a function that others of the program call (``inside``), ``call.F``."""
    body = Frame(FunctionWriter(program, fn, index, layout, used, on_device)).text()
    drive = f"""
define ptr {quoted("drive." + fn.name)}(ptr %env, ptr %leaves, ptr %symbols) {{
  %limit = call i64 @unity.limit(ptr %env)
  %r = call ptr {quoted("body." + fn.name)}(ptr %env, ptr %leaves, ptr %symbols, i64 %limit)
  ret ptr %r
}}
"""
    return body + drive + (InternalEntry(program, fn, index, layout, used, on_device).text() if inside else "")


class InternalEntry(FunctionWriter):
    """``call.F``: arguments as objects; where a check fails, Python checks again and says why."""

    def text(self) -> str:
        """The function."""
        count = max(1, len(self.plan.params))
        leaves, symbols = (
            self.alloca(f"[{count * LEAF_BYTES} x i8]"),
            self.alloca(f"[{max(1, len(self.plan.slots))} x i64]"),
        )
        self.known: dict[int, str] = {}
        self.waiting: list[tuple[Dim, str]] = []
        self.formulas = FormulaEmitter(self.emit, lambda condition, *_: self.require(condition))
        for index, param in enumerate(self.plan.params):
            self.parameter(param, self.gep(leaves, LEAF_BYTES * index), self.load("%args", 8 * index))
        names = [self.known.get(k, "undef") for k in range(len(self.fn.slots))]
        for dim, extent in self.waiting:
            self.require(self.emit(f"icmp eq i64 {extent}, {self.formulas.value(dim, names)}"))
        for number, slot in enumerate(self.plan.slots):
            self.store("i64", self.known[slot], symbols, 8 * number)
        number = len(self.fn.params)
        lines = [
            f"define ptr {quoted('call.' + self.fn.name)}(ptr %env, ptr %args, i64 %limit) {{",
            "entry:",
            *self.allocas,
        ]
        lines += [f"  %slow = alloca [{number + 1} x ptr]", *self.lines]
        lines += [
            f"  %r = call ptr {quoted('body.' + self.fn.name)}(ptr %env, ptr {leaves}, ptr {symbols}, i64 %limit)",
            "  ret ptr %r",
            "fail:",
        ]
        lines += [
            "  call void @PyErr_Clear()",
            f"  %ep = getelementptr i8, ptr %env, i64 {self.layout.word('fixed', 'explain')}",
        ]
        lines += [
            "  %explain = load ptr, ptr %ep",
            f"  %number = call ptr @PyLong_FromLongLong(i64 {self.index})",
            "  store ptr %number, ptr %slow",
        ]
        for k in range(number):
            lines += [f"  %sa{k} = getelementptr ptr, ptr %args, i64 {k}", f"  %so{k} = load ptr, ptr %sa{k}"]
            lines += [f"  %sp{k} = getelementptr ptr, ptr %slow, i64 {k + 1}", f"  store ptr %so{k}, ptr %sp{k}"]
        lines += [f"  %e = call ptr @unity_call(ptr %explain, ptr %slow, i64 {number + 1})"]
        lines += ["  call void @Py_DecRef(ptr %number)", "  ret ptr %e", "}"]
        return "\n".join(lines) + "\n"

    def match(self, dim: Dim | None, value: str) -> None:
        """A symbol alone is defined by its first value; the rest waits until all are known."""
        if isinstance(dim, tuple) and dim[0] == "sym" and dim[1] not in self.known:
            self.known[dim[1]] = value
        elif dim is not None:
            self.waiting.append((dim, value))

    def parameter(self, param: Param, place: str, obj: str) -> None:
        """One argument into its record."""
        self.store("ptr", obj, place, 8)
        self.store("ptr", obj, place, 0)
        if param.kind == "tensor":
            self.require(self.extract(obj, place, param.dtype, len(param.axes), param.written))
            extents = self.load(place, 16)
            for axis, dim in enumerate(param.axes):
                self.match(dim, self.load(extents, 8 * axis, "i64"))
        elif param.kind == "shape":
            self.require(self.is_type(obj, "tuple"))
            self.require(self.emit(f"icmp eq i64 {self.load(obj, 16, 'i64')}, {len(param.axes)}"))
            for axis, dim in enumerate(param.axes):
                self.match(dim, self.integer(self.load(obj, 24 + 8 * axis), DataType("int64")))
        elif param.kind == "scalar":
            self.scalar(param, place, obj)

    def scalar(self, param: Param, place: str, obj: str) -> None:
        """A number of exactly the declared kind."""
        assert param.dtype is not None
        dtype = DataType(param.dtype)
        if dtype.is_float:
            self.require(self.is_type(obj, "float"))
            self.require(self.emit(f"icmp eq i32 {self.emit(f'call i32 @unity_as_float(ptr {obj}, ptr {place})')}, 0"))
        elif dtype.is_bool:
            self.store("i64", self.emit(f"zext i1 {self.truth(obj)} to i64"), place)
        else:
            value = self.integer(obj, dtype)
            self.store("i64", value, place)
            if param.slot is not None:
                self.match(("sym", param.slot), value)

    def integer(self, obj: str, dtype: DataType) -> str:
        """The i64 of an exact int that fits a dtype."""
        self.require(self.is_type(obj, "int"))
        out = self.alloca("i64")
        self.require(self.emit(f"icmp eq i32 {self.emit(f'call i32 @unity_as_int(ptr {obj}, ptr {out})')}, 0"))
        value = self.emit(f"load i64, ptr {out}")
        if dtype.bits < 64:
            self.narrowed(value, dtype)
        elif dtype.is_uint:
            self.require(self.emit(f"icmp sge i64 {value}, 0"))
        return value
