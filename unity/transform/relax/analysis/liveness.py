"""Memory that a variable may stand for, its last use, and whether it leaves the sequence.

Works on one sequence of bindings after call_dps is lowered; a conditional or local function counts as one binding.
Memory escapes when it is returned, captured by a local function, or handed to a graph function, a closure or a
packed function: a packed function may keep its arguments (a cache does), so nothing it has seen is reused.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.expr import Binding, Call, GlobalVar, If, MatchCast, SeqExpr, Tuple, TupleGetItem, Var
from ....ir.function import Function, PrimFunc
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.op import OPS
from ....ir.types import Expr, ObjectType, TensorType, TupleType, Type
from ....ir.walk import collect, free_vars
from ....op.common.table import R

ALLOCATIONS = (R.builtin.alloc_tensor.name, R.memory.alloc_tensor.name, R.memory.alloc_storage.name)
_CALLS = (R.call_packed, R.call_pure_packed, R.call_inplace_packed, R.call_py_func, R.call_builtin_with_ctx)
_KEEPS = {operator.name for operator in (*_CALLS, R.make_closure, R.invoke_closure, R.invoke_pure_closure)}
KILLS = (R.memory.kill_tensor.name, R.memory.kill_storage.name, R.vm.kill_object.name)


def may_hold_memory(ty: Type) -> bool:
    """True if a value of the type can refer to memory."""
    if isinstance(ty, TupleType):
        return any([may_hold_memory(f) for f in ty.fields])
    return isinstance(ty, (TensorType, ObjectType))


def with_branches(binding: Binding, change: Callable[[SeqExpr], SeqExpr]) -> Binding:
    """The binding with the branches of a conditional changed."""
    value = binding.value
    if type(value) is not If:
        return binding
    sides = [change(s) if type(s) is SeqExpr else s for s in (value.then_branch, value.else_branch)]
    return replace(binding, value=replace(value, then_branch=sides[0], else_branch=sides[1]))


class Liveness:
    """Facts about the bindings of one sequence. Roots are the variables bound to allocations, and with ``objects`` those that
    hold a reference to what a foreign function or a graph function made; these escape by being returned or captured alone."""

    def __init__(self, seq: SeqExpr, mod: IRModule, objects: bool = False) -> None:
        self.mod = mod
        self.objects = objects
        self.references: set[Var] = set()
        self.bindings = seq.bindings
        self.roots: dict[Var, frozenset[Var]] = {}
        self.last_use: dict[Var, int] = {}
        self.escapes: set[Var] = set()
        for index, binding in enumerate(self.bindings):
            self._binding(index, binding)
        for var in free_vars(seq.body, in_types=False):
            self.escapes |= self.roots_of(var)

    def roots_of(self, value: Expr) -> frozenset[Var]:
        """Allocations the variables of a leaf may stand for."""
        if isinstance(value, Var):
            return self.roots.get(value, frozenset())
        if type(value) is Tuple:
            found: frozenset[Var] = frozenset()
            for item in value.fields:
                found |= self.roots_of(item)
            return found
        return self.roots_of(value.tuple_value) if type(value) is TupleGetItem else frozenset()

    def _binding(self, index: int, binding: Binding) -> None:
        value: Expr = binding.value
        used: frozenset[Var] = frozenset()
        for var in free_vars(value, in_types=False):
            used |= self.roots_of(var)
        name = value.op_name
        if name not in KILLS:
            for root in used:
                self.last_use[root] = index
        if type(value) is Function or (type(value) is If and self._keeps_inside(value)):
            self.escapes |= used if type(value) is Function else used - self.references
        if type(value) is Function:
            return
        if name in ALLOCATIONS:
            self.roots[binding.var] = frozenset((binding.var,)) | used
            self.last_use[binding.var] = index
            return
        foreign = type(value) is Call and (name in _KEEPS or (not name and not self._is_kernel(value)))
        if self.objects and may_hold_memory(binding.var.ty) and (foreign or type(binding) is MatchCast):
            self.references.add(binding.var)
            self.escapes |= used - self.references
            self.roots[binding.var] = frozenset((binding.var,)) | used
            self.last_use[binding.var] = index
            return
        if type(value) is Call:
            if foreign:
                self.escapes |= used - self.references
            if not name or not may_hold_memory(value.ty) or self._makes_new(name):
                return
        elif not isinstance(value, (Var, Tuple, TupleGetItem, If)):
            return
        if used:
            self.roots[binding.var] = used

    def _keeps_inside(self, branching: If) -> bool:
        """True if a call inside a conditional may keep its arguments."""
        for call in collect(branching, Call):
            name = call.op_name
            if name in _KEEPS or (not name and not self._is_kernel(call)):
                return True
        return bool(collect(branching, Function))

    def _makes_new(self, name: str) -> bool:
        info = OPS.get(name)
        return info is not None and callable(info.lower)

    def _is_kernel(self, call: Call) -> bool:
        return type(call.op) is GlobalVar and type(self.mod.functions.get(call.op.name)) is PrimFunc
