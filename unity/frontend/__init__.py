"""Importers: torch models (``torch.export``, ``torch.fx``, ``torch.compile``) become IRModules. torch is imported when used."""

from .compile import CompiledModel, compile
from .dynamo import unity_backend
from .exported import detach_params, from_exported_program, from_fx
from .fallback import register_torch_operator
from .report import Fallback, FallbackWarning, ImportReport
from .torch_table import supported

__all__ = [
    "CompiledModel",
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
