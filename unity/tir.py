"""``unity.tir``: TVM's ``tvm.tir`` by its names, which are defined in ``unity.transform.tensor_ir``."""

from .transform.tensor_ir import *  # noqa: F403
from .transform.tensor_ir import __all__ as __all__
