"""LLVM IR text that a program brings along (loop annotation or attribute ``pragma_import_llvm``), for ``T.call_extern``.

Not here: where it stands in a program (`target/kernel_groups.py`), calls (``calls.py``). Invariant: a text is tried in a process
of its own before it is parsed here, and its functions are called with the types they are defined with; they stay private to the
kernels that import them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ffi.machine_code.engine import process_symbol
from ...ffi.machine_code.llvm import parse_ir
from ...ffi.targets.llvm_binding import LLVM_LOCK
from ...ffi.targets.processor import compile_problems, host_triple
from ...ffi.targets.target import processor_in_use
from ...support.errors import CodegenError, FFIError
from ..kernel_groups import Importer


def read_imported(texts: Mapping[str, Importer]) -> tuple[dict[str, tuple[str, tuple[str, ...]]], list[str]]:
    """The functions that texts define, by LLVM types of result and parameters, and C functions they need. Raises CodegenError
    E450."""
    defined: dict[str, tuple[str, tuple[str, ...]]] = {}
    needed: list[str] = []
    for text, at in texts.items():
        module = _parsed(text, at)
        with LLVM_LOCK:
            for function in module.functions:
                name = function.name
                if not function.is_declaration:
                    if name in defined or name.startswith("unity."):
                        raise CodegenError("E450", f"{name} is defined twice, or a name of the compiler's", at.span)
                    kind = str(function.global_value_type)
                    result = kind[: kind.index("(")].strip()
                    defined[name] = result, tuple([str(a.type) for a in function.arguments])
                elif not name.startswith("llvm."):
                    needed.append(name)
    for name in needed:
        if name not in defined and not process_symbol(name):
            raise CodegenError(
                "E450", f"the imported LLVM IR calls {name}, and there is no such C function in this process"
            )
    return defined, [name for name in needed if name not in defined]


def _parsed(text: str, at: Importer) -> Any:
    if "\0" in text:
        raise CodegenError("E450", "the imported LLVM IR contains a null character", at.span)
    processor = processor_in_use()
    problems = compile_problems([text], processor.cpu, processor.changes)
    if problems:
        raise CodegenError("E450", f"LLVM does not take the imported IR: {problems[text]}", at.span)
    try:
        module = parse_ir(text)
    except FFIError as error:
        raise CodegenError("E450", f"LLVM does not take the imported IR: {error.message}", at.span) from error
    if module.triple and module.triple.partition("-")[0] != host_triple().partition("-")[0]:
        raise CodegenError("E450", f"the imported IR is for {module.triple}, this machine is {host_triple()}", at.span)
    return module


def linked(text: str, texts: Mapping[str, Importer]) -> str:
    """The text of kernels with the imported functions in it, private. Raises CodegenError E450."""
    if not texts:
        return text
    with LLVM_LOCK:
        whole = parse_ir(text)
        names: list[str] = []
        for other, at in texts.items():
            module = _parsed(other, at)
            module.triple, module.data_layout = whole.triple, whole.data_layout
            names += [f.name for f in module.functions if not f.is_declaration]
            try:
                whole.link_in(module)
            except RuntimeError as error:
                raise CodegenError(
                    "E450", f"the imported IR cannot be linked: {str(error).strip()}", at.span
                ) from error
        for name in names:
            whole.get_function(name).linkage = "internal"
        return str(whole)
