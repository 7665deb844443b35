"""Device functions to LLVM IR for NVPTX: one module for all kernels of a group of tensor programs.

A device function is a PrimFunc made by ``split_host_device``: its parameters are data pointers and scalars, and its thread axes
are bound at the top.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from ...arith.analyzer import Analyzer
from ...ffi.device import CUDA_MEMORY
from ...ir.analysis.threads import MIN_BLOCKS_PER_SM, is_thread_axis
from ...ir.build import const, dtype_of, is_int
from ...ir.expr import Call, IntImm, Var
from ...ir.function import PrimFunc, may_alias
from ...ir.scalar import BufferLoad
from ...ir.stmt import AllocBuffer, AttrStmt, BufferStore
from ...ir.types import Expr, PointerType
from ...ir.walk import collect, substitute, used_vars
from ...support.errors import CodegenError
from ..kernel_groups import special_nodes
from ..llvm.casts import scalar_parameter
from ..llvm.small_indices import INDEX, size_word
from ..llvm.writer import Emitters, FunctionWriter, Kernel, ModuleWriter
from ..signature import written_pointers
from .arch import Arch
from .barriers import TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TensorMap, tensor_maps
from .places import places_of
from .registers import AXES, GLOBAL
from .warpgroup import sets_registers

VECTOR_ALIGN = CUDA_MEMORY.alignment
"""Alignment in bytes that a vector access may need of a pointer."""
TRIPLE = "nvptx64-nvidia-cuda"


@dataclass(slots=True, frozen=True)
class DeviceModule:
    """Kernels as LLVM IR: the text, symbols by function name, messages of checks (numbered from 1), and by function name the
    positions of pointers that must be aligned to ``VECTOR_ALIGN``, the parameters that a kernel writes through, and the tensor maps
    that a launch makes and gives it behind its parameters."""

    text: str
    symbols: dict[str, str]
    messages: list[str]
    aligned: dict[str, set[int]]
    written: dict[str, set[Var]]
    maps: dict[str, list[TensorMap]]


def device_symbol(name: str, suffix: str) -> str:
    """Symbol of a kernel, in characters that PTX allows."""
    return "unity_" + re.sub(r"[^A-Za-z0-9_]", lambda m: f"${ord(m.group()):x}", name + suffix.replace(".", "_"))


def write_kernels(
    functions: Mapping[str, PrimFunc], arch: Arch, suffix: str, emitters: Emitters, sizes: Container[Var] = ()
) -> DeviceModule:
    """LLVM IR of device functions for an architecture; their symbols end in ``suffix``. ``sizes``: parameters that are not below
    zero. Raises CodegenError E52x."""
    symbols = {name: device_symbol(name, suffix) for name in functions}
    module = ModuleWriter(functions, emitters, symbols, {}, features=arch.includes)
    module.estimates = True
    module.converts = frozenset(["float16", "bfloat16"] if arch.capability >= 80 else ["float16"])
    messages: list[str] = []
    maps = {name: tensor_maps(func) for name, func in functions.items()}
    aligned = {name: _vector_parameters(func, maps[name]) for name, func in functions.items()}
    written = {name: written_pointers(special_nodes(func)) for name, func in functions.items()}
    attributes: list[str] = []
    for number, (name, func) in enumerate(functions.items()):
        before = len(messages)
        _write_kernel(
            module,
            Kernel(name, func, messages),
            aligned[name],
            written[name],
            len(maps[name]),
            number + 1,
            sizes,
        )
        messages[before:] = [f"kernel {name}: {text}" for text in messages[before:]]
        bounds = block_bounds(func)
        limit = f' "nvvm.maxntid"="{",".join([str(n) for n in bounds])}"' if bounds else ""
        exclusive = math.prod(bounds) >= arch.max_threads or sets_registers(func) or _sized_at_launch(func)
        blocks = _min_blocks_per_sm(func) or int(exclusive)
        limit += f' "nvvm.minctasm"="{blocks}"' if bounds and blocks else ""
        attributes.append(f"attributes #{number + 1} = {{ nounwind{limit} }}")
    text = (
        f'target triple = "{TRIPLE}"\n{module.text()}\nattributes #0 = {{ nounwind }}\n' + "\n".join(attributes) + "\n"
    )
    return DeviceModule(text, symbols, messages, aligned, written, maps)


def _positive_sizes(func: PrimFunc, sizes: Container[Var]) -> list[Var]:
    """The sizes that are not zero in a kernel that runs: with a zero for one of them an extent of the launch is zero."""
    found: dict[Var, None] = {}
    for extent in thread_extents(func).values():
        used = [var for var in used_vars(extent) if var in sizes and var.ty is INDEX]
        for var in used:
            if is_int(Analyzer(used).simplify(substitute(extent, {var: const(0, dtype_of(var))})), 0):
                found[var] = None
    return list(found)


def _write_kernel(
    module: ModuleWriter,
    kernel: Kernel,
    aligned: set[int],
    written: set[Var],
    maps: int,
    group: int,
    sizes: Container[Var],
) -> None:
    func = kernel.func
    w = FunctionWriter(module, kernel, moves=True, places=places_of(func))
    no_alias = not may_alias(func)
    parameters = []
    for number, param in enumerate(func.params):
        operand = f"%p{number}"
        w.levels[operand] = 0
        if type(param.ty) is PointerType or dtype_of(param).code == "handle":
            if no_alias and param not in written:
                w.unchanging[param] = ", !invariant.load !1"
            if number in aligned:
                w.aligned[param] = VECTOR_ALIGN
            hints = " noalias" * no_alias + " readonly" * (no_alias and param not in written)
            parameters.append(f"{GLOBAL}{hints}{f' align {VECTOR_ALIGN}' if number in aligned else ''} {operand}")
            w.spaces[param] = GLOBAL, operand
            w.env[param] = w.emit(f"addrspacecast {GLOBAL} {operand} to ptr")
            continue
        parameters.append(scalar_parameter(w, param, operand))
    for buffer in func.buffer_map.values():
        raise CodegenError(
            "E520", f"the kernel {kernel.name} takes the buffer {buffer.name}, not its pointer", func.span
        )
    shape = f'byval([{TENSOR_MAP_BYTES} x i8]) align {TENSOR_MAP_ALIGN} "nvvm.grid_constant"'
    parameters += [f"ptr {shape} %map{number}" for number in range(maps)]
    w.sizes = {var: size_word(w, w.env[var]) for var in _positive_sizes(func, sizes)}
    w.statement(func.body)
    w.leave("0")
    symbol = module.symbols[kernel.name]
    module.bodies.append(f"define ptx_kernel void @{symbol}({', '.join(parameters)}) #{group} {{\n{w.body()}\n}}")


def _sized_at_launch(func: PrimFunc) -> bool:
    """True for a kernel with dynamic shared memory: that decides how many blocks a processor has, and registers need not be spared
    for more of them."""
    return any([alloc.buffer.scope == "shared.dyn" for alloc in collect(func.body, AllocBuffer)])


def _min_blocks_per_sm(func: PrimFunc) -> int:
    """Blocks that a multiprocessor is to have at a time, as the kernel says it; 0 where it does not."""
    bounds = [attr.value for attr in collect(func.body, AttrStmt) if attr.key == MIN_BLOCKS_PER_SM]
    return max([value.value if type(value) is IntImm else value for value in bounds], default=0)


def _vector_parameters(func: PrimFunc, maps: Sequence[TensorMap]) -> set[int]:
    """Positions of the pointers through which several elements, or boxes of a tensor, are read, written or copied at once."""
    found = collect(func.body, (BufferLoad, BufferStore, Call))
    accesses = [a for a in found if type(a) is not Call and a.indices and dtype_of(a.indices[-1]).lanes > 1]
    copies = [
        call
        for call in found
        if type(call) is Call and call.op_name == "T.ptx_cp_async" and not is_int(call.args[4], dtype_of(call).itemsize)
    ]
    used = {*[access.buffer.data for access in accesses], *[call.args[2] for call in copies], *[var for var, _ in maps]}
    return {number for number, param in enumerate(func.params) if param in used}


def thread_extents(func: PrimFunc) -> dict[str, Expr]:
    """Extent of each thread axis of a device function by its tag, in order of appearance."""
    found: dict[str, Expr] = {}
    for attr in collect(func.body, AttrStmt):
        if attr.key == "thread_extent" and is_thread_axis(attr) and attr.node.thread_tag in AXES:
            found.setdefault(attr.node.thread_tag, attr.value)
    return found


def block_bounds(func: PrimFunc) -> list[int]:
    """Threads of a block along x, y, z; empty if an extent is not constant."""
    extents = thread_extents(func)
    bounds = [extents.get(f"threadIdx.{axis}", const(1)) for axis in "xyz"]
    counts = [bound.value for bound in bounds if type(bound) is IntImm]
    return counts if len(counts) == len(bounds) else []
