"""Unity: one module, one intermediate representation, from script to running machine code. Names are handed on lazily."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from .support.late import LOADERS
from .version import VERSION

if TYPE_CHECKING:  # what editors and type checkers see of the names below
    from . import relax, tir, topi
    from .ffi.device import Device, cpu, device
    from .ffi.library import register_library_kernel
    from .ffi.pool import num_threads, set_num_threads
    from .ffi.registry import (
        get_global_func,
        list_global_func_names,
        register_c_func,
        register_func,
        remove_global_func,
    )
    from .ffi.tensor import Tensor, tensor
    from .frontend.compile import compile
    from .frontend.precision import Calibration, calibrate, quantize
    from .ir.module import IRModule
    from .op.building.block_builder import BlockBuilder
    from .support.errors import UnityError
    from .target.gpu_check import check_gpu
    from .target.target import Target
    from .transform.schedule import Schedule
    from .vm.build import build
    from .vm.choices import explain_choices
    from .vm.executable import Executable, load
    from .vm.machine import VirtualMachine
    from .vm.torch_model.model import load_model

__version__ = VERSION

_NAMES = {
    "compile": ".frontend.compile", "build": ".vm.build", "VirtualMachine": ".vm.machine", "load": ".vm.executable",
    "Executable": ".vm.executable", "Tensor": ".ffi.tensor", "tensor": ".ffi.tensor", "Device": ".ffi.device",
    "device": ".ffi.device", "cpu": ".ffi.device", "register_func": ".ffi.registry", "register_c_func": ".ffi.registry",
    "get_global_func": ".ffi.registry", "list_global_func_names": ".ffi.registry", "remove_global_func": ".ffi.registry",
    "set_num_threads": ".ffi.pool", "num_threads": ".ffi.pool", "BlockBuilder": ".op.building.block_builder",
    "UnityError": ".support.errors", "Target": ".target.target", "IRModule": ".ir.module", "Schedule": ".transform.schedule",
    "check_gpu": ".target.gpu_check", "register_library_kernel": ".ffi.library", "explain_choices": ".vm.choices",
    "quantize": ".frontend.precision", "calibrate": ".frontend.precision", "Calibration": ".frontend.precision",
    "load_model": ".vm.torch_model.model",
}  # fmt: skip
_FRONT = ("relax", "tir", "topi")
_ROOMS = ("arith", "ffi", "frontend", "ir", "op", "script", "support", "target", "te", "transform", "vm")

__all__ = ["__version__", *_NAMES, *_FRONT, *_ROOMS]


for _word, _module in {
    "script": ".script", "passes": ".transform.library", "tensor intrinsics": ".target.tensor_intrin",
}.items():  # fmt: skip
    LOADERS[_word] = partial(importlib.import_module, _module, __name__)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name], __name__), name)
    elif name in _ROOMS or name in _FRONT:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
