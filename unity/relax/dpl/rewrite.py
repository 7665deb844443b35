"""``unity.relax.dpl.rewrite``: the rewriting functions of ``unity.transform.dpl``."""

from ...transform.dpl.rewrite import rewrite_bindings, rewrite_call

__all__ = ["rewrite_bindings", "rewrite_call"]
