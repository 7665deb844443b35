"""Importers: torch models (``torch.export``, ``torch.fx``, ``torch.compile``) become IRModules. torch is imported when used."""

from ..support.lazy import stub_names
from .compile import compile as compile  # at once: the module of this name would stand for the function

__getattr__, __dir__, __all__ = stub_names(__name__)
