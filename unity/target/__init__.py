"""Target descriptions, code generation through LLVM, GPU programs checked on the processor."""

from ..support.lazy import stub_names

__getattr__, __dir__, __all__ = stub_names(__name__)
