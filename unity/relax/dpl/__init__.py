"""``unity.relax.dpl``: the pattern language of ``unity.transform.dpl``."""

from ...transform.dpl import *  # noqa: F403
from ...transform.dpl import __all__ as __all__
