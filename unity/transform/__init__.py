"""Passes and pipelines: the names a program takes from ``unity.transform``, listed in ``__init__.pyi``.

A pass with options is changed by ``with_options``: ``bind_params.with_options(params={"w": array})(mod)``. A pass is loaded when
its name is first used; ``PASSES`` loads all. Lowering of tensor programs lives in ``tir/``.
"""

from ..support.lazy import stub_names

__getattr__, __dir__, __all__ = stub_names(__name__)
