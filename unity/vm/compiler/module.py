"""IRModule after its pipeline -> bytecode: all graph functions of a module, with one set of tables."""

from __future__ import annotations

from ...ffi.abi import KernelSignature
from ...ir.function import Function
from ...ir.module import IRModule
from ...support.recursion import deep_recursion
from ..executable import bytecode as bc
from .calls import compile_call
from .function import FunctionCompiler
from .loop import LoopCompiler, StepCompiler, calls_itself_last
from .tables import ModuleCompiler


def compile_module(
    mod: IRModule, signatures: dict[str, KernelSignature], symbols: dict[str, str] | None = None
) -> bc.Program:
    """Bytecode of all graph functions of a module. ``signatures`` are those of its compiled tensor programs,
    ``symbols`` their names in the object code.

    Raises VMError E62x for a module the pipeline has not lowered far enough.
    """
    program = bc.Program(kernels=dict(signatures), symbols=dict(symbols or {}))
    module = ModuleCompiler(mod, program)
    with deep_recursion():
        for name, fn in mod.functions.items():
            if type(fn) is not Function:
                continue
            if calls_itself_last(name, fn):
                step = fresh_step(f"{name}.step", mod, program)
                program.functions[step] = StepCompiler(module, name, step, fn, compile_call).compile()
                program.functions[name] = LoopCompiler(module, name, fn, compile_call, step).compile()
            else:
                program.functions[name] = FunctionCompiler(module, name, fn, compile_call).compile()
    return program


def fresh_step(hint: str, mod: IRModule, program: bc.Program) -> str:
    """A name that no function of the module or the program has."""
    found, count = hint, 0
    while found in mod.functions or found in program.functions:
        count += 1
        found = f"{hint}{count}"
    return found
