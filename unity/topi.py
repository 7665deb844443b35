"""``unity.topi``: TVM's ``tvm.topi`` by its names, which are found by ``unity.op.building.topi``."""

from typing import Any

from .op.building import topi as _topi


def __getattr__(name: str) -> Any:
    return getattr(_topi, name)


def __dir__() -> list[str]:
    return dir(_topi)
