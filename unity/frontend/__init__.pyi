"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from ..vm.torch_model.operators import register_torch_operator as register_torch_operator
from .capture.remember import ExportNotRemembered as ExportNotRemembered
from .compile import compile as compile
from .compiled_model import CompiledModel as CompiledModel
from .dynamo import unity_backend as unity_backend
from .exported import detach_params as detach_params, from_exported_program as from_exported_program, from_fx as from_fx
from .translate.report import Fallback as Fallback, FallbackWarning as FallbackWarning, ImportReport as ImportReport
from .translate.torch_table import supported as supported
