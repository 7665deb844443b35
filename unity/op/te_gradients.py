"""Gradients of tensor programs that a user wrote: registered by name, named by ``R.call_dps_with_grad``.

``register_te_gradient("my_mul")`` enters a function of tensor expressions: ``(output_grad, *inputs, **te_grad_kwargs)`` -> the
gradient of each input; with several results ``output_grad`` is a list. The pass ``gradient`` asks here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..support.errors import TypeRuleError

TE_GRADIENTS: dict[str, Callable[..., Any]] = {}
"""Functions by name."""


def register_te_gradient(
    te_grad_name: str, te_grad_func: Callable[..., Any] | None = None, override: bool = False
) -> Callable[..., Any]:
    """Enter the gradient of tensor programs under a name; without a function, a decorator.

    Raises TypeRuleError E214 for a name that is taken, unless ``override`` says so.
    """

    def enter(func: Callable[..., Any]) -> Callable[..., Any]:
        if te_grad_name in TE_GRADIENTS and not override:
            raise TypeRuleError("E214", f"a gradient named {te_grad_name!r} is registered already",
                                help="pass override=True to replace it")  # fmt: skip
        TE_GRADIENTS[te_grad_name] = func
        return func

    return enter if te_grad_func is None else enter(te_grad_func)
