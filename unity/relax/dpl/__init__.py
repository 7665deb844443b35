"""``unity.relax.dpl``: the pattern language of ``unity.transform.dpl``."""

from .pattern import *  # noqa: F403
from .pattern import __all__ as __all__
