"""Types of parameters changed by a function of one's own: ``update_param_type.with_options(update=fn)(mod)``.

``update(var)`` gives the new type of a parameter, or None to leave it; all types that follow are deduced anew. What the body
says itself (results of call_dps) must fit the new types: the verifier says where it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.expr import Var
from ....ir.function import Function
from ....ir.types import Type
from ...infra.passes import function_pass
from ..rewriting.reinfer_types import with_params


@function_pass()
def update_param_type(fn: Function, *, update: Callable[[Var], Type | None] | None = None) -> Function:
    """Change types of parameters by the function ``update(var)``, and deduce all types that follow.

    ``update``: parameter to its new type or None.
    """
    if update is None:
        return fn
    mapping: dict[Any, Any] = {}
    for param in fn.params:
        ty = update(param)
        if ty is not None and ty is not param.ty:
            mapping[param] = Var(param.name, ty, param.span)
    if not mapping:
        return fn
    return with_params(fn, fn.params, mapping)
