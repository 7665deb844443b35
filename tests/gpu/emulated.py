"""Kernels of a PTX or LLVM text on an emulated device, with arrays as arguments."""

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from unity.ffi.cuda.context import Context, context
from unity.ffi.cuda.launch import launch
from unity.ffi.cuda.memory import allocate
from unity.ffi.cuda.module import Module

HEADER = ".version 8.6\n.target {arch}\n.address_size 64\n"


def ptx_of(text: str, cpu: str = "sm_80", features: str = "") -> str:
    """PTX of an LLVM text, optimised."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = "nvptx64-nvidia-cuda", str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


class Arrays:
    """Arrays in the memory of the device in force."""

    def __init__(self, index: int = 0) -> None:
        self.context: Context = context(index)
        self.blocks: list[Any] = []

    def put(self, array: np.ndarray) -> int:
        """A copy of an array; its address."""
        address = self.room(array.nbytes)
        kept = np.ascontiguousarray(array)
        with self.context.current():
            self.context.driver.call("cuMemcpyHtoD_v2", address, kept.ctypes.data, kept.nbytes)
        return address

    def room(self, size: int) -> int:
        """Memory in which nothing is stored."""
        self.blocks.append(allocate(self.context, size))
        return self.blocks[-1].address

    def get(self, address: int, shape: Any, dtype: Any) -> np.ndarray:
        """A copy of memory."""
        made = np.empty(shape, dtype)
        with self.context.current():
            self.context.driver.call("cuMemcpyDtoH_v2", made.ctypes.data, address, made.nbytes)
        return made

    def run(self, ptx: str, kernel: str, grid: Any, block: Any, *args: Any, shared: int = 0) -> None:
        """Load a module and launch a kernel; Python's integers are addresses."""
        self.launch(Module(self.context, ptx.encode()), kernel, grid, block, *args, shared=shared)

    def launch(self, module: Module, kernel: str, grid: Any, block: Any, *args: Any, shared: int = 0) -> None:
        """Launch a kernel of a module that is loaded, and wait for it."""
        function = module.function(kernel)
        if shared > 48 << 10:
            self.context.driver.call("cuFuncSetAttribute", function, 8, shared)
        given = [ctypes.c_uint64(a) if type(a) is int else a for a in args]
        launch(self.context, function, grid, block, given, shared)
        self.context.synchronize()


def kernel(body: str, arch: str = "sm_80", before: str = "", limits: str = "") -> str:
    """PTX of a kernel ``k`` with two addresses: %x and %y, %t the thread, %g its number in the grid, %xt and %yt its words."""
    return f"""{HEADER.format(arch=arch)}{before}
.visible .entry k(.param .b64 x, .param .b64 y) {limits}
{{
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b32 %t, %g, %b; .reg .b64 %d<20>; .reg .b64 %x, %y, %xt, %yt, %o;
  ld.param.b64 %x, [x]; ld.param.b64 %y, [y];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %r0, %ntid.x; mad.lo.s32 %g, %b, %r0, %t;
  mul.wide.u32 %o, %g, 4; add.s64 %xt, %x, %o; add.s64 %yt, %y, %o;
{body}
  ret;
}}
"""


def lanes_of(
    text: str, given: np.ndarray, count: int = 32, blocks: int = 1, kind: Any = np.uint32, words: int = 1
) -> np.ndarray:
    """The words that the threads of a kernel store, each given one of an array."""
    arrays = Arrays()
    y = arrays.put(np.full(count * blocks * words, 0xFFFFFFFF, np.uint32))
    arrays.run(text, "k", (blocks,), (count,), arrays.put(given), y)
    return arrays.get(y, count * blocks * words, kind)
