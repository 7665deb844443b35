"""``unity.instrument``: TVM's ``tvm.instrument`` by its names, defined in ``unity.transform.instrument``."""

from .transform.instrument import *  # noqa: F403
from .transform.instrument import __all__ as __all__
