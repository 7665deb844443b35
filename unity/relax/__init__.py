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
from ..ir.types import Expr, Type, prim_type
from ..op import OPERATORS
from ..op.building.block_builder import BlockBuilder
from ..op.common.gradients import register_te_gradient
from ..op.common.table import Builders, constant as const
from ..op.composite import COMPOSITES
from ..support.arguments import make_public, public
from ..support.lazy import lazy_names
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


def _operator(path: str) -> Any:
    """An operator, a combination of operators, or a call as TVM writes it."""
    found = CALLS.get(path[2:]) or COMPOSITES.get(path)
    return OPERATORS.get(path) if found is None else public(found)


op = Builders("R", _operator, lambda: [*OPERATORS, *COMPOSITES])
op.importable(f"{__name__}.op")

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
