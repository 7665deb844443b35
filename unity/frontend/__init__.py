"""Importers: torch models (``torch.export``, ``torch.fx``, ``torch.compile``) become IRModules. torch is imported when used."""

from typing import TYPE_CHECKING

from ..support.late import lazy_names
from .compile import compile

if TYPE_CHECKING:
    from ..vm.torch_model.operators import register_torch_operator
    from .compiled_model import CompiledModel
    from .dynamo import unity_backend
    from .exported import detach_params, from_exported_program, from_fx
    from .remember import ExportNotRemembered
    from .report import Fallback, FallbackWarning, ImportReport
    from .torch_table import supported

_PLACES = {
    "compiled_model": ("CompiledModel",),
    "dynamo": ("unity_backend",),
    "exported": (
        "detach_params",
        "from_exported_program",
        "from_fx",
    ),
    ".vm.torch_model.operators": ("register_torch_operator",),
    "remember": ("ExportNotRemembered",),
    "report": (
        "Fallback",
        "FallbackWarning",
        "ImportReport",
    ),
    "torch_table": ("supported",),
}

__getattr__, __dir__ = lazy_names(__name__, _PLACES)

__all__ = [
    "CompiledModel",
    "ExportNotRemembered",
    "Fallback",
    "FallbackWarning",
    "ImportReport",
    "compile",
    "detach_params",
    "from_exported_program",
    "from_fx",
    "register_torch_operator",
    "supported",
    "unity_backend",
]
