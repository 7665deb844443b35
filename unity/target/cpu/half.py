"""The conversions of ``half`` and ``bfloat`` that LLVM writes as calls, and the functions they reach.

Our own code asks before it writes such a conversion (`target/llvm/narrow.py`). LLVM intrinsics called by name and imported IR
come as they are: their module gets the functions that LLVM calls, under the names of GCC's and LLVM's run-time libraries, private.
"""

from __future__ import annotations

from functools import cache

from ...ffi.dtype import DataType
from ...ffi.machine_code.elf import read_object
from ...ffi.machine_code.llvm import CompileOptions, compile_ir
from ..llvm.lltypes import llvm_type, value_type
from ..llvm.narrow import narrow, widen
from ..llvm.writer import FunctionWriter, Kernel, ModuleWriter

_TRIAL = """
define void @trial(ptr %p, float %x, half %y) {
  %a = fptrunc float %x to half
  %b = fpext half %y to float
  store half %a, ptr %p
  %q = getelementptr i32, ptr %p, i64 1
  store float %b, ptr %q
  ret void
}
"""
_CALLED = {
    "__extendhfsf2": ("float16", "float32"), "__truncsfhf2": ("float32", "float16"), "__truncdfhf2": ("float64", "float16"),
    "__truncsfbf2": ("float32", "bfloat16"), "__truncdfbf2": ("float64", "bfloat16"),
}  # fmt: skip
"""Source and target of each conversion that is a call on some processor."""


@cache
def converts_half(options: CompileOptions) -> bool:
    """True if the processor converts between ``half`` and ``float`` without a call: LLVM is asked."""
    return not read_object(compile_ir(_TRIAL, options)).undefined


def conversion_functions(module: ModuleWriter) -> str:
    """Definitions of the functions that LLVM calls for conversions, for modules with ``small_floats``; "" for others."""
    if not module.small_floats:
        return ""
    texts = [_conversion(module, name, *[DataType(t) for t in types]) for name, types in _CALLED.items()]
    kept = ", ".join([f"ptr @{name}" for name in _CALLED])
    used = f'@llvm.compiler.used = appending global [{len(_CALLED)} x ptr] [{kept}], section "llvm.metadata"\n'
    return "".join(texts) + used


def _conversion(module: ModuleWriter, name: str, source: DataType, target: DataType) -> str:
    w = FunctionWriter(module, Kernel(name, next(iter(module.functions.values()))))
    given, made = llvm_type(source), llvm_type(target)
    if target.bits < source.bits:
        result = narrow(w, "%x", target, source)
        result = w.emit(f"bitcast {value_type(target)} {result} to {made}")
    else:
        result = widen(w, w.emit(f"bitcast {given} %x to {value_type(source)}"), source)
    body = w.text()
    return f"define internal {made} @{name}({given} %x) nounwind {{\n{body}\n  ret {made} {result}\n}}\n"
