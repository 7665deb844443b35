"""IRModule after its pipeline -> bytecode: all graph functions of a module, with one set of tables."""

from __future__ import annotations

from dataclasses import replace

from ...ffi.abi import KernelSignature
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.names import NameSupply
from ...ir.types import TensorType, TupleType, Type
from ...support.recursion import deep_recursion
from ...support.source import Span
from ..executable import bytecode as bc
from .calls import compile_call
from .function import FunctionCompiler
from .loop import LoopCompiler, StepCompiler, is_tail_recursive
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
            if is_tail_recursive(name, fn):
                step = NameSupply([*mod.functions, *program.functions]).fresh(f"{name}.step")
                program.functions[step] = StepCompiler(module, name, step, fn, compile_call).compile()
                program.functions[name] = LoopCompiler(module, name, fn, compile_call, step).compile()
            else:
                program.functions[name] = FunctionCompiler(module, name, fn, compile_call).compile()
            program.functions[name] = with_host_values(module, program.functions[name], fn)
    return program


def with_host_values(module: ModuleCompiler, compiled: bc.VMFunction, fn: Function) -> bc.VMFunction:
    """A function with what its types say about the host: arguments that are given there, results that are wanted there."""

    def on_host(ty: Type, span: Span | None) -> list[bool]:
        """For each tensor of a type: True if its virtual device works on the host's memory."""
        if isinstance(ty, TupleType):
            return [there for field in ty.fields for there in on_host(field, span)]
        return [ty.vdevice is not None and module.works_on_host(ty.vdevice, span)] if isinstance(ty, TensorType) else []

    params = [k for k, param in enumerate(fn.params) if True in on_host(param.ty, param.span)]
    results = [k for k, there in enumerate(on_host(fn.ret_ty, fn.span)) if there]
    return replace(compiled, host_params=tuple(params), host_results=tuple(results)) if params or results else compiled
