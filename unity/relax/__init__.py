"""``unity.relax``: TVM's ``tvm.relax`` by its names: expressions, ``op``, ``BlockBuilder``, visitors, ``analysis``, ``transform``,
``dpl``, ``frontend``.

``relax.Var("x", relax.TensorType((n, 4), "float32"))``, ``relax.op.add(x, y)``, ``relax.const(1.0)``, ``relax.BlockBuilder()``.
Passes are in ``unity.transform``. What runs programs is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import te
from ..ir.expr import ExternFunc, GlobalVar, MatchCast, StringImm, VarBinding
from ..ir.module import IRModule
from ..ir.op import OPS
from ..ir.types import Expr, Type, prim_type
from ..op import OPERATORS
from ..op.building.block_builder import BlockBuilder
from ..op.common.gradients import register_te_gradient
from ..op.common.table import constant as const
from ..op.composite import COMPOSITES
from ..support.arguments import make_public, public
from ..support.errors import ArgumentError, suggest
from ..support.lazy import lazy_names, same_module
from .calls import *  # noqa: F403
from .calls import CALLS, __all__ as _CALLS
from .mutator import PyExprMutator
from .nodes import *  # noqa: F403
from .nodes import __all__ as _NODES
from .visitor import ExprFunctor, PyExprVisitor

extern = ExternFunc


def PrimValue(value: Any) -> Expr:
    """A scalar as a value of the graph."""
    return te.value.to_scalar(value, "int64" if isinstance(value, int) and not isinstance(value, bool) else None)


prim_value = PrimValue


class _Operators:
    """Operators whose names begin with a prefix: ``relax.op.nn.relu``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = f"{self._prefix}.{name}"
        if self._prefix == "R" and name in CALLS:
            return public(CALLS[name])
        if full in OPERATORS or full in COMPOSITES:
            return OPERATORS.get(full) or public(COMPOSITES[full])
        if any([n.startswith(f"{full}.") for n in OPERATORS]):
            return _Operators(full)
        close = suggest(full, OPS)
        raise AttributeError(f"there is no operator {full}" + (f"; {close}" if close else ""))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentError(
            "E717", f"{self._prefix} is not an operator", help="operators are below it: relax.op.nn.relu(x)"
        )

    def __dir__(self) -> list[str]:
        return sorted({n[len(self._prefix) + 1 :].partition(".")[0] for n in OPERATORS if n.startswith(self._prefix)})


op = _Operators("R")

if TYPE_CHECKING:
    from ..vm.executable.executable import Executable, Executable as VMExecutable
    from ..vm.virtual_machine import VirtualMachine
    from .transform import get_default_pipeline, get_pipeline, register_pipeline
    from .vm_build import build

_LATE = {
    "VirtualMachine": "..vm.virtual_machine",
    "Executable": "..vm.executable.executable",
    "VMExecutable": "..vm.executable.executable:Executable",
    "build": ".vm_build",
    "get_pipeline": ".transform",
    "get_default_pipeline": ".transform",
    "register_pipeline": ".transform",
}
__getattr__, _ = lazy_names(__name__, _LATE)

__all__ = [
    *_CALLS, *_NODES, "BlockBuilder", "Expr", "ExprFunctor", "ExternFunc", "GlobalVar", "IRModule", "MatchCast", "PrimValue",
    "PyExprMutator", "PyExprVisitor", "StringImm", "Type", "VarBinding", "const", "extern", "op", "prim_type", "prim_value",
    "register_te_gradient", *_LATE,
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted([*__all__, "analysis", "dpl", "expr_functor", "frontend", "transform", "vm_build"])


make_public(globals(), __all__)
same_module(__name__, "block_builder expr struct_info ty")
