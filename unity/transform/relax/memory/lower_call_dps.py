"""Destination passing made explicit: ``y = R.call_dps(f, (x,), ty)`` -> ``y = R.builtin.alloc_tensor(...); f(x, y)``.

Scalars of ``tir_vars`` follow the outputs; ``R.vm.call_tir_dyn`` has its shapes unpacked into scalars. Registered
functions are called through ``R.call_packed``. Several outputs become a tuple of tensors. Needs functions without
dataflow blocks (E541); afterwards a function has calls with effects, so it is marked ``force_pure``: its purity was checked before.
"""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ir.build import const
from ....ir.expr import Call, DataTypeImm, ExternFunc, ShapeExpr, StringImm, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function
from ....ir.infer import find_impure_call
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.relation import dims
from ....ir.types import OBJECT, Expr, ShapeType, TensorType, TupleType
from ....op.common.table import R
from ....support.errors import PassError
from ...infra.passes import module_pass
from ..rewriting.graph_rewriter import GraphRewriter, Replaced

_KINDS = {R.call_dps.name, R.call_inplace.name, R.call_dps_with_grad.name}


def alloc_tensor(ty: TensorType) -> Call:
    """``R.builtin.alloc_tensor`` of a type."""
    shape = ty.shape
    known = dims(ty)
    if known is not None:
        shape = ShapeExpr(known)
    if shape is None or ty.dtype is None:
        raise PassError("E542", f"an output of type {ty} cannot be allocated: its shape is unknown")
    args = (shape, DataTypeImm(DataType(ty.dtype)), const(0, "int64"), StringImm("global"))
    return Call(R.builtin.alloc_tensor.op, args, {}, (), ty)


def _fields(value: Expr, rewriter: GraphRewriter) -> list[Expr]:
    if type(value) is Tuple:
        return list(value.fields)
    ty = value.ty
    if not isinstance(ty, TupleType):
        raise PassError(
            "E542", "the arguments of a call_dps must be a tuple of known length", getattr(value, "span", None)
        )
    return [rewriter.field(value, i) for i in range(len(ty.fields))]


def _scalars(value: Expr) -> list[Expr]:
    if type(value) is ShapeExpr:
        return list(value.values)
    ty = value.ty
    if isinstance(ty, ShapeType) and ty.values is not None:
        return list(ty.values)
    raise PassError("E542", "tir_vars must be a shape of known scalars", getattr(value, "span", None))


def lower(call: Call, rewriter: GraphRewriter) -> Any:
    """Emit allocations and the call; the result stands for the bound variable."""
    if rewriter.in_dataflow:
        raise PassError(
            "E541",
            "a call with an explicit output has an effect and cannot stand in a dataflow block",
            call.span,
            help="run to_non_dataflow first",
        )
    callee, operands = call.args[0], _fields(call.args[1], rewriter)
    scalars = _scalars(call.args[2]) if len(call.args) > 2 else []
    types = call.output_types
    several = len(types) > 1 or isinstance(call.ty, TupleType)
    indices = call.attrs.get("inplace_indices") or [-1] * len(types)
    if isinstance(indices, int):
        indices = [indices]
    outputs: list[Expr] = []
    fresh: list[Expr] = []
    for number, (ty, index) in enumerate(zip(types, indices)):
        assert isinstance(ty, TensorType)
        if index != -1:
            outputs.append(operands[index])
            continue
        tensor = alloc_tensor(ty)
        if several:
            fresh.append(rewriter.emit(tensor, f"{rewriter.name_hint}_{number}"))
        else:
            own = Var(rewriter.var.name, ty, rewriter.var.span)  # the name of the variable that it stands for
            rewriter.append(VarBinding(own, replace(tensor, span=call.span)))
            fresh.append(own)
        outputs.append(fresh[-1])
    _emit_call(callee, [*operands, *fresh, *scalars], call, rewriter)
    return Replaced(Tuple(tuple(outputs)) if several else outputs[0])


def lower_dyn(call: Call, rewriter: GraphRewriter) -> Any:
    """``R.vm.call_tir_dyn(f, (x, y, R.shape([n])))`` as ``f(x, y, n)``."""
    callee, given = call.args
    arguments: list[Expr] = []
    for field in [given] if isinstance(given.ty, ShapeType) else _fields(given, rewriter):
        arguments += _scalars(field) if isinstance(field.ty, ShapeType) else [field]
    _emit_call(callee, arguments, call, rewriter)
    return Replaced(Tuple(()))


def _emit_call(callee: Expr, arguments: list[Expr], call: Call, rewriter: GraphRewriter) -> None:
    """The call of a tensor program or of a registered function, for its effect."""
    if type(callee) is ExternFunc:
        callee, arguments = R.call_packed.op, [callee, *arguments]
    rewriter.emit(Call(callee, tuple(arguments), {}, (), OBJECT, call.span), "_")


def _forced(fn: Function) -> Function:
    """A function whose calls were checked for effects before."""
    return fn.with_attr("force_pure", True)


@module_pass()
def lower_call_dps(mod: IRModule) -> IRModule:
    """Allocate outputs before calls of tensor programs and registered functions.

    Requires functions without dataflow blocks (E541). Gives ``R.builtin.alloc_tensor`` and functions marked ``force_pure``.
    """

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if type(value) is Call and value.op_name in _KINDS:
            return lower(value, rewriter)
        if type(value) is Call and value.op_name == R.vm.call_tir_dyn.name:
            return lower_dyn(value, rewriter)
        if type(value) is TupleGetItem and type(value.tuple_value) is Tuple:
            return value.tuple_value.fields[value.index]
        if (
            type(value) is Function
            and value.pure
            and not value.attrs.get("force_pure")
            and find_impure_call(value.body)
        ):
            return _forced(value)  # a local function with lowered calls
        return value

    changes: dict[str, Any] = {}
    for name, fn in mod.graph_functions().items():
        made: Function = GraphRewriter(rule).function(fn)
        if made is not fn:
            changes[name] = _forced(made)
    return mod.with_functions(changes)
