"""Keys of values: equal for values that mean the same of the same variables, whichever objects they are.

Variables, constants and whatever binds variables count by identity, so a wrong match cannot happen; so do types of scalars, of
which there is one each.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

from ....ir.expr import Constant, IntImm, Var
from ....ir.function import Function, PrimFunc
from ....ir.node import ASIDE, DERIVED, Node
from ....ir.types import PrimType


@cache
def _meaning(kind: Any) -> tuple[str, ...] | None:
    """The fields that are part of the meaning; None for what counts by identity."""
    if not issubclass(kind, Node) or kind in (Var, Constant, Function, PrimFunc, PrimType) or kind.binds:
        return None
    return tuple([name for name, role in kind.plan if role not in (ASIDE, DERIVED)])


def value_key(value: Any) -> Hashable:
    """Key of an expression, a type or an attribute."""
    kind: Any = type(value)
    if kind is IntImm:
        return (kind, value.value, value.ty)
    if kind in (tuple, list):
        return (kind, tuple([value_key(v) for v in value]))
    if value is None or kind in (int, str, bool):
        return (kind, value)
    if kind is float:
        return (kind, value.hex())
    if isinstance(value, dict):
        return (dict, tuple([(k, value_key(v)) for k, v in value.items()]))
    names = _meaning(kind)
    return value if names is None else (kind, tuple([value_key(getattr(value, name)) for name in names]))
