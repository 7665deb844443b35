"""``unity.tir``: TVM's ``tvm.tir`` by its names, which are defined in ``unity.transform.tensor_ir``."""

from typing import Any

from .transform import tensor_ir as _names
from .transform.tensor_ir import *  # noqa: F403
from .transform.tensor_ir import __all__ as __all__


def __getattr__(name: str) -> Any:
    return getattr(_names, name)
