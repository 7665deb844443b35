"""Importers: torch models (``torch.export``, ``torch.fx``, ``torch.compile``) become IRModules. torch is imported when used."""

from ..support.lazy import stub_names

__getattr__, __dir__, __all__ = stub_names(__name__)
