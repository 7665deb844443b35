"""``unity.relax``: TVM's ``tvm.relax`` by its names: expressions, ``op``, ``BlockBuilder``, visitors, ``analysis``, ``transform``,
``dpl``, ``frontend``.

Front door: nothing is defined here but names. Expressions are in ``unity.op.building.relax``, passes in ``unity.transform``.
The packages below are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from ..op.building.relax import *  # noqa: F403
from ..op.building.relax import __all__ as _EXPRESSIONS
from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from ..vm.executable.executable import Executable, Executable as VMExecutable
    from ..vm.virtual_machine import VirtualMachine
    from .transform import get_default_pipeline, get_pipeline, register_pipeline
    from .vm_build import build

__getattr__, _ = lazy_names(
    __name__,
    {
        "VirtualMachine": "..vm.virtual_machine",
        "Executable": "..vm.executable.executable",
        "VMExecutable": "..vm.executable.executable:Executable",
        "build": ".vm_build",
        "get_pipeline": ".transform",
        "get_default_pipeline": ".transform",
        "register_pipeline": ".transform",
    },
)

__all__ = [
    *_EXPRESSIONS,
    "Executable",
    "VMExecutable",
    "VirtualMachine",
    "build",
    "get_default_pipeline",
    "get_pipeline",
    "register_pipeline",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "analysis", "dpl", "expr_functor", "frontend", "transform", "vm_build"])
