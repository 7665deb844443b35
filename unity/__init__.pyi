"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from . import (
    instrument as instrument,
    meta_schedule as meta_schedule,
    relax as relax,
    runtime as runtime,
    testing as testing,
    tir as tir,
    topi as topi,
)
from .ffi.device import Device as Device, cpu as cpu, cuda as cuda, device as device
from .ffi.dtype import DataType as DataType
from .ffi.library import register_library_kernel as register_library_kernel
from .ffi.native.pool import num_threads as num_threads, set_num_threads as set_num_threads
from .ffi.registry import (
    get_global_func as get_global_func,
    list_global_func_names as list_global_func_names,
    register_c_func as register_c_func,
    register_func as register_func,
    remove_global_func as remove_global_func,
)
from .ffi.targets.target import Target as Target
from .ffi.tensor import Tensor as Tensor, tensor as tensor
from .frontend.entry import compile as compile
from .frontend.precision.precision import (
    Calibration as Calibration,
    calibrate as calibrate,
    quantize as quantize,
)
from .frontend.torch.runtime.model import load_model as load_model
from .ir.module import IRModule as IRModule
from .op.building.block_builder import BlockBuilder as BlockBuilder
from .support.errors import UnityError as UnityError
from .target.gpu_check import check_gpu as check_gpu
from .transform.schedule import Schedule as Schedule
from .vm import stages as stages
from .vm.build import build as build
from .vm.choices import explain_choices as explain_choices
from .vm.executable.executable import Executable as Executable
from .vm.load import load as load
from .vm.virtual_machine import VirtualMachine as VirtualMachine

__version__: str

nd = runtime
register_global_func = register_func
s_tir = tir
tirx = tir
TVMError = UnityError
