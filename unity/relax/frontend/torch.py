"""``unity.relax.frontend.torch``: importers of torch models, as in ``unity.frontend``."""

from ...frontend import from_exported_program, from_fx

__all__ = ["from_exported_program", "from_fx"]
