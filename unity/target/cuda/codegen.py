"""Tensor programs to PTX and to host code that launches it, in one piece of a saved program (`ffi/cuda/image.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...ffi.abi import KernelSignature
from ...ffi.cuda.image import CudaCode, Image
from ...ffi.machine_code.llvm import CompileOptions, compile_ir
from ...ffi.targets.target import Target
from ...ir.analysis.threads import is_device_function
from ...ir.expr import Call, GlobalVar, Var
from ...ir.function import PrimFunc
from ...ir.walk import collect
from ...support.errors import FFIError, InternalError
from ...support.options import made_folder, str_option
from ...transform.infra.backend import KernelCode
from ..cpu.codegen import compile_options, write_module
from ..signature import symbol_vars
from .arch import Arch, arch_of, assembled_archs
from .assemble import assemble
from .emitters import GPU_EMITTERS
from .fast_math import FAST_EMITTERS
from .kernels import TRIPLE, DeviceModule, write_kernels
from .launch import Launcher


@dataclass(slots=True, frozen=True)
class CudaText:
    """Tensor programs as LLVM IR: kernels, and the host code that launches them."""

    device: DeviceModule
    host: str
    arch: Arch
    assembled: tuple[Arch, ...]
    """Architectures that machine code is made for at build."""
    host_options: CompileOptions
    """Those of code that only launches: quick to compile."""
    signatures: dict[str, KernelSignature]
    symbols: dict[str, str]


def ptx_options(arch: Arch) -> CompileOptions:
    """LLVM's options for kernels, which are written so that little is left to LLVM: loops over registers are written out, and the
    assembler shares, moves and unrolls by itself."""
    return CompileOptions(
        "light", 0, cpu=arch.name, features=f"+ptx{arch.ptx}", vectorize=False, triple=TRIPLE, assembly=True
    )


def write_programs(functions: Mapping[str, PrimFunc], target: Target, suffix: str = "") -> CudaText:
    """Write lowered tensor programs, host functions and device functions together. Raises CodegenError E52x, E531."""
    arch = arch_of(target)
    kernels = {name: func for name, func in functions.items() if is_device_function(func)}
    programs = {name: func for name, func in functions.items() if name not in kernels}
    emitters = FAST_EMITTERS if target.get("fast-math") else GPU_EMITTERS
    device = write_kernels(kernels, arch, suffix, emitters, _sizes(programs, kernels))
    launcher = Launcher(kernels, device)
    host, signatures, symbols, _ = write_module(programs, target, suffix, launcher.emitters(), launcher.nodes)
    options = replace(compile_options(target), pipeline="light", opt=0)
    return CudaText(device, host, arch, assembled_archs(target), options, signatures, symbols)


def _sizes(programs: Mapping[str, PrimFunc], kernels: Mapping[str, PrimFunc]) -> set[Var]:
    """Parameters of kernels that are sizes of tensors wherever they are launched."""
    found: set[Var] = set()
    other: set[Var] = set()
    for func in programs.values():
        symbols = {*symbol_vars(func)}
        for call in collect(func.body, Call):
            if type(call.op) is GlobalVar and call.op.name in kernels:
                for param, argument in zip(kernels[call.op.name].params, call.args):
                    (found if argument in symbols else other).add(param)
    return found - other


def ptx_of(device: DeviceModule, arch: Arch) -> str:
    """PTX of kernels. Raises InternalError E905 where LLVM refuses them."""
    try:
        return compile_ir(device.text, ptx_options(arch)).decode()
    except FFIError as error:
        raise InternalError("E905", f"LLVM refuses generated code: {error.message}") from error


def compile_programs(written: CudaText) -> KernelCode:
    """Compile what ``write_programs`` wrote; several threads may at the same time."""
    folder = str_option("UNITY_KEEP")
    if folder:
        made_folder(folder)
        (Path(folder) / "kernels.device.ll").write_text(written.device.text)
        (Path(folder) / "kernels.host.ll").write_text(written.host)
    ptx = ptx_of(written.device, written.arch) if written.device.symbols else ""
    if folder:
        (Path(folder) / "kernels.ptx").write_text(ptx)
    try:
        host = compile_ir(written.host, written.host_options)
    except FFIError as error:
        raise InternalError("E905", f"LLVM refuses generated code: {error.message}") from error
    images = [Image("ptx", written.arch.name, ptx.encode())] if ptx else []
    for arch in written.assembled if ptx else ():
        images.append(Image("cubin", arch.name, assemble(ptx_of(written.device, arch), arch.name).cubin))
    code = CudaCode(tuple(written.device.symbols.values()), tuple(written.device.messages), tuple(images), host)
    return KernelCode(code.pack(), written.signatures, written.symbols)


def generate(functions: Mapping[str, PrimFunc], target: Target, suffix: str) -> Callable[[], KernelCode]:
    """Write LLVM IR now, compile it when asked."""
    return partial(compile_programs, write_programs(functions, target, suffix))
