"""``unity.relax.dpl.pattern``: the patterns of ``unity.transform.dpl``."""

from ...transform.dpl import *  # noqa: F403
from ...transform.dpl import __all__ as __all__
