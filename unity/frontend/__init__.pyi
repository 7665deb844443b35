"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from .entry import compile as compile
from .torch.compiled_model import CompiledModel as CompiledModel
from .torch.context.context import torch_converter as torch_converter
from .torch.context.report import (
    Fallback as Fallback,
    FallbackWarning as FallbackWarning,
    ImportReport as ImportReport,
)
from .torch.dynamo import unity_backend as unity_backend
from .torch.exported_program import (
    detach_params as detach_params,
    from_exported_program as from_exported_program,
    from_fx as from_fx,
)
from .torch.operators.table import supported as supported
from .torch.runtime.operators import register_torch_operator as register_torch_operator
