"""Tensor programs to machine code: one LLVM module for all kernels, as text, then an object file.

Functions must be lowered (`transform/tir/pipeline.py`); what has no emitter is a CodegenError, and LLVM's verifier sees every
module before any of its passes do. Symbols of kernels are ``unity.kernel.<name>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...ffi.abi import BufferParam, KernelSignature, linkage_ir
from ...ffi.dtype import DataType
from ...ffi.machine_code.engine import CALLS_C
from ...ffi.machine_code.llvm import CompileOptions, assembly, compile_ir
from ...ffi.targets.kinds import LLVM
from ...ffi.targets.processor import host_triple
from ...ffi.targets.target import Target
from ...ir.build import dtype_of
from ...ir.expr import Var
from ...ir.function import PrimFunc, may_alias
from ...ir.module import IRModule
from ...ir.node import Node
from ...ir.types import PointerType
from ...ir.verifier.verifier import violations
from ...support.errors import CodegenError, FFIError, InternalError
from ...support.graph import strongly_connected
from ...support.options import made_folder, str_option
from ...support.recursion import deep_recursion
from ..kernel_groups import callees, imported_texts, special_nodes
from ..llvm.casts import convert, scalar_parameter
from ..llvm.lltypes import value_type
from ..llvm.math.library import scales_by_instruction
from ..llvm.writer import I64, Emitters, FunctionWriter, Kernel, ModuleWriter
from ..signature import find_symbols, kernel_signature, result_dtype
from .calls import try_intrinsics
from .emitters import CPU_EMITTERS
from .half import conversion_functions, converts_half
from .imported import linked, read_imported

MANY_BRANCHES = 256
"""Branches of one function up to which LLVM's own pipeline is used."""
MANY_CHOICES = 512
"""The same of choices between two numbers."""
MANY_LINES = 20_000
"""The same of instructions."""


@dataclass(slots=True, frozen=True)
class KernelLibrary:
    """Compiled kernels: object bytes, the IR text they came from, signatures by function name, LLVM symbols by function
    name, and external symbols the loader must supply."""

    object: bytes
    ir_text: str
    signatures: dict[str, KernelSignature]
    symbols: dict[str, str]
    symbols_needed: tuple[str, ...]


def kernel_symbol(name: str) -> str:
    """LLVM symbol of a kernel."""
    return "unity.kernel." + re.sub(r"[^A-Za-z0-9_.]", lambda m: f"${ord(m.group()):x}", name)


def write_module(
    functions: Mapping[str, PrimFunc], target: Target, suffix: str = "", emitters: Emitters = CPU_EMITTERS,
    nodes_of: Callable[[PrimFunc], list[Any]] = special_nodes,
) -> tuple[str, dict[str, KernelSignature], dict[str, str], tuple[str, ...]]:  # fmt: skip
    """IR text, signatures, symbols and needed external symbols of lowered tensor programs. Raises CodegenError."""
    symbols = {name: kernel_symbol(name) + suffix for name in functions}
    with target, deep_recursion():
        nodes = {name: nodes_of(func) for name, func in functions.items()}
        _refuse_recursion(functions, nodes)
        signatures = {name: kernel_signature(name, func, nodes[name]) for name, func in functions.items()}
        module = ModuleWriter(functions, emitters, symbols, signatures, features=target.processor.features)
        module.scales = scales_by_instruction(module.features)
        if "f16c" in module.features or converts_half(compile_options(target)):
            module.converts = frozenset(["float16"])
        texts = imported_texts([node for held in nodes.values() for node in held])
        module.imported, needed = read_imported(texts)
        module.externs.update(dict.fromkeys(needed))
        module.small_floats = any(["half" in text or "bfloat" in text for text in texts])
        final = {name: _write_kernel(module, name, func) for name, func in functions.items()}
        try_intrinsics(module)
    width = f' "prefer-vector-width"="{target.vector_bits}"' if target.vector_bits else ""
    names = "".join([linkage_ir(symbols[name], signature) for name, signature in final.items()])
    text = (
        f"{module.text()}\n{names}"
        + conversion_functions(module)
        + (
            f"@{CALLS_C} = weak constant i8 0\n"
            if any([not name.startswith("unity") for name in module.externs])
            else ""
        )
        + f'\nattributes #0 = {{ nounwind{width} "no-trapping-math"="true" }}\n'
    )
    with target:
        return linked(text, texts), final, symbols, tuple(module.externs)


def _refuse_recursion(functions: Mapping[str, PrimFunc], nodes: Mapping[str, Iterable[Node]]) -> None:
    """Tensor programs run on a bounded stack: cycles of calls are refused with CodegenError E526."""
    called = {name: callees(nodes[name], functions) for name in functions}
    for component in strongly_connected(functions, lambda name: called[name]):
        if len(component) > 1 or component[0] in called[component[0]]:
            names = ", ".join(sorted(component))
            raise CodegenError("E526", f"tensor programs cannot call each other in a cycle: {names}")


def _write_kernel(module: ModuleWriter, name: str, func: PrimFunc) -> KernelSignature:
    kernel = Kernel(name, func)
    result = result_dtype(func)
    kernel.result = DataType(result) if result else None
    w = FunctionWriter(module, kernel)
    parameters: list[str] = []
    no_alias = not may_alias(func)
    for number, param in enumerate(func.params):
        operand = f"%p{number}"
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            parameters.append(f"ptr{' noalias' if no_alias else ''} {operand}")
            w.env[param] = w.env[buffer.data] = operand
            w.buffers[buffer.data] = w.buffers[param] = buffer
            shown = module.signatures[name].params[number]
            if no_alias and type(shown) is BufferParam and not shown.written:
                w.unchanging[buffer.data] = ""
        elif type(param.ty) is PointerType or dtype_of(param).code == "handle":
            parameters.append(f"ptr {operand}")
            w.env[param] = operand
        else:
            parameters.append(scalar_parameter(w, param, operand))
    scalars = set(func.params)
    for number, var in enumerate(find_symbols(func)):
        parameters.append(f"i64 %s{number}")
        _bind_symbol(w, var, f"%s{number}", var in scalars)
    for buffer in func.buffer_map.values():
        if type(buffer.elem_offset) is Var and buffer.elem_offset not in w.env:
            w.env[buffer.elem_offset] = "0"  # the pointer given addresses element 0
    if kernel.result is not None:
        parameters.append("ptr %result")
    w.statement(func.body)
    w.leave("0" if kernel.result is None else str(kernel.message("it ended without returning a value")))
    body = w.body()
    module.bodies.append(f"define i32 @{module.symbols[name]}({', '.join(parameters)}) #0 {{\n{body}\n}}")
    return replace(module.signatures[name], messages=tuple(kernel.messages), packed_calls=tuple(kernel.packed_calls))


def _bind_symbol(w: FunctionWriter, var: Var, text: str, is_param: bool) -> None:
    dtype = dtype_of(var)
    if is_param:
        given = convert(w, w.env[var], dtype, I64)
        w.fail_unless(w.emit(f"icmp eq i64 {given}, {text}"), f"{var.name} differs from the extent declared with it")
        return
    if value_type(dtype) == "i64":
        w.env[var] = text
        return
    w.env[var] = convert(w, text, I64, dtype)
    whole = w.emit(f"icmp eq i64 {convert(w, w.env[var], dtype, I64)}, {text}")
    w.fail_unless(whole, f"{var.name} does not fit into {dtype.name}")


def compile_options(target: Target) -> CompileOptions:
    """LLVM's options for a target."""
    processor = target.processor
    return CompileOptions(pipeline="O2", opt=2, cpu=processor.cpu, features=processor.changes)


def text_options(text: str, target: Target) -> CompileOptions:
    """LLVM's options for a text. LLVM's passes take time quadratic in the branches and the choices of one function (instruction
    combining, vectorization and induction variables above all) and in the instructions of one block (scheduling, joining of
    registers): a function of many gets passes that are linear."""
    options = compile_options(target)
    most = {"\n  br i1 ": MANY_BRANCHES, " = select i1 ": MANY_CHOICES, "\n": MANY_LINES}
    if all([text.count(mark) <= limit for mark, limit in most.items()]):
        return options
    parts = text.split("\ndefine ")
    found = {mark: max([part.count(mark) for part in parts]) for mark in most}
    if all([found[mark] <= limit for mark, limit in most.items()]):
        return options
    short = found["\n  br i1 "] <= 3 * MANY_BRANCHES and found["\n"] <= MANY_LINES
    return replace(options, pipeline="long", opt=1 if short else 0)


def with_calls(text: str) -> str:
    """A text in which the functions to be inlined are called instead, where inlining makes one function longer than ``MANY_LINES``:
    a thousand powers one after the other."""
    lengths: dict[str, int] = {}
    for part in f"\n{text}".split("\ndefine ")[1:]:
        head, _, body = part.partition("\n")
        called = [(name, count) for name in lengths if (count := body.count(f"@{name}("))]
        length = body.count("\n") + sum([count * lengths[name] for name, count in called])
        if " alwaysinline " in head:
            lengths[head[head.index("@") + 1 : head.index("(", head.index("@"))]] = length
        elif length > MANY_LINES and called:
            return text.replace(" alwaysinline ", " noinline ")
    return text


def _check_triple(target: Target) -> None:
    """Raises CodegenError E530 for another machine type."""
    triple = target.get("mtriple", "")
    if triple and triple.partition("-")[0] != host_triple().partition("-")[0]:
        raise CodegenError("E530", f"no code generation for {triple} on this machine", help="leave -mtriple out")


def _check_functions(functions: Mapping[str, PrimFunc]) -> None:
    """Raises CodegenError E529 where LLVM's refusal comes from a program that breaks the rules of the IR."""
    for found in violations(IRModule(dict(functions), {}, {})):
        raise CodegenError("E529", f"not a valid program: {found.message}", found.span, found.notes, found.help)


def build_kernels(functions: Mapping[str, PrimFunc], target: Target) -> KernelLibrary:
    """Compile lowered tensor programs. Raises CodegenError E52x for what cannot be expressed, E530 for another target kind."""
    return compile_kernel_text(write_kernels(functions, target))


@dataclass(slots=True, frozen=True)
class KernelText:
    """Tensor programs written as LLVM IR, not compiled yet; fields as of ``KernelLibrary``."""

    functions: Mapping[str, PrimFunc]
    ir_text: str
    options: CompileOptions
    signatures: dict[str, KernelSignature]
    symbols: dict[str, str]
    symbols_needed: tuple[str, ...]


def write_kernels(functions: Mapping[str, PrimFunc], target: Target, suffix: str = "") -> KernelText:
    """Write lowered tensor programs as one LLVM module; their symbols end in ``suffix``. Raises as ``build_kernels``."""
    if target.kind != LLVM.name:
        raise CodegenError("E530", f"no code generation for target {target.kind!r}",
                           help='use unity.Target("llvm"); unity.check_gpu runs programs for GPUs on the processor')  # fmt: skip
    _check_triple(target)
    text, signatures, symbols, needed = write_module(functions, target, suffix)
    text = with_calls(text)
    return KernelText(functions, text, text_options(text, target), signatures, symbols, needed)


def compile_kernel_text(written: KernelText) -> KernelLibrary:
    """Compile a module; several threads may at the same time."""
    text, options = written.ir_text, written.options
    folder = str_option("UNITY_KEEP")
    if folder:
        made_folder(folder)
        (Path(folder) / "kernels.ll").write_text(text)
    try:
        data = compile_ir(text, options)
    except FFIError as error:
        _check_functions(written.functions)
        raise InternalError("E905", f"LLVM refuses generated code: {error.message}") from error
    if folder:
        (Path(folder) / "kernels.s").write_text(assembly(text, options))
    return KernelLibrary(data, text, written.signatures, written.symbols, written.symbols_needed)
