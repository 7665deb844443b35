"""``unity.relax.frontend``: importers, as in ``unity.frontend``."""

from ...frontend import detach_params

__all__ = ["detach_params"]
