"""``unity.tir``: TVM's ``tvm.tir`` (and ``tvm.s_tir``, ``tvm.tirx``) by its names, which are defined in
``unity.transform.tensor_ir``; ``analysis``, ``stmt_functor`` and ``transform`` are modules beside this one."""

from typing import Any

from ..support.lazy import lazy_names
from ..transform import tensor_ir as _names
from ..transform.tensor_ir import *  # noqa: F403
from ..transform.tensor_ir import __all__ as __all__

_MODULES = ("analysis", "stmt_functor", "transform")
_module, _ = lazy_names(__name__, {name: f".{name}:" for name in _MODULES})


def __getattr__(name: str) -> Any:
    return _module(name) if name in _MODULES else getattr(_names, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
