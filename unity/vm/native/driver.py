"""The native driver of a program: one LLVM module. Here: the module, and two of the three entries of a function.

Not here: the third, which does the work (``frame.py``).
"""

from __future__ import annotations

from ...ffi.abi import BufferParam, KernelSignature
from ...ffi.calls.fastcall_ir import NUMBER_DECLARATION, ArgumentWriter
from ...ffi.calls.object_ir import llvm_scalar
from ...ffi.device import Device
from ...ffi.dtype import DataType
from ...ffi.native.native_helpers import HELPER_DECLARATIONS, LEAF_BYTES
from ..executable import bytecode as bc
from ..executable.entry import plan_entry
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
    head = [DECLARATIONS, NUMBER_DECLARATION, HELPER_DECLARATIONS, SUPPORT_DECLARATIONS, *kernels]
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
    return body + drive + (InternalEntry(program, fn, index, layout, on_device).text() if inside else "")


class InternalEntry(ArgumentWriter):
    """``call.F``: arguments as objects; where a check fails, Python checks again and says why."""

    def __init__(self, program: bc.Program, fn: bc.VMFunction, index: int, layout: EnvLayout, on_device: bool) -> None:
        super().__init__(plan_entry(fn, program).spec)
        self.fn, self.index, self.layout, self.on_device = fn, index, layout, on_device

    def device_words(self, device: Device) -> tuple[str, str] | None:
        """Those of the environment: the tensors of a program lie on one device."""
        if not self.on_device:
            return None
        words = [self.layout.word("fixed", name) for name in ("device", "place")]
        return self.load("%env", words[0]), self.load("%env", words[1], "i64")

    def text(self) -> str:
        """The function."""
        self.store_symbols(self.arguments())
        count = len(self.spec.args)
        lines = [
            f"define ptr {quoted('call.' + self.fn.name)}(ptr %env, ptr %args, i64 %limit) {{",
            "entry:",
            f"  %leaves = alloca [{max(1, count) * LEAF_BYTES} x i8], align 16",
            f"  %symbols = alloca [{max(1, len(self.spec.symbols))} x i64], align 16",
            *[f"  {space}" for space in self.SPACE],
            f"  %slow = alloca [{count + 1} x ptr]",
            "  %again = or i1 false, false",
            *self.lines,
            f"  %r = call ptr {quoted('body.' + self.fn.name)}(ptr %env, ptr %leaves, ptr %symbols, i64 %limit)",
            "  ret ptr %r",
            "fail:",
            "  call void @PyErr_Clear()",
            f"  %ep = getelementptr i8, ptr %env, i64 {self.layout.word('fixed', 'explain')}",
            "  %explain = load ptr, ptr %ep",
            f"  %number = call ptr @PyLong_FromLongLong(i64 {self.index})",
            "  store ptr %number, ptr %slow",
            "  %rest = getelementptr ptr, ptr %slow, i64 1",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 {8 * count}, i1 false)",
            f"  %e = call ptr @unity_call(ptr %explain, ptr %slow, i64 {count + 1})",
            "  call void @Py_DecRef(ptr %number)",
            "  ret ptr %e",
            "}",
        ]
        return "\n".join(lines) + "\n"
