"""Targets: what a package registers to add one, code generation for processors, GPU programs checked on the processor."""

from ..support.lazy import stub_names

__getattr__, __dir__, __all__ = stub_names(__name__)
