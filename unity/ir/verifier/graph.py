"""Level 1 of the verifier for graph functions: scopes, normal form, types, purity, calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...support.errors import TypeRuleError, VerifyError
from ..analysis.symbol_bounds import noted_bounds, promised_bounds
from ..binders import bound_symbols
from ..build import int_value
from ..builder import is_graph_call, is_unknown
from ..expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataTypeImm,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    Op,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ..function import Function, PrimFunc
from ..infer import infer_call, is_pure_call
from ..module import IRModule
from ..relation import Answer, dims, is_condition, is_subtype, same_dim
from ..types import Expr, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from ..walk import free_vars
from .in_place import IN_PLACE
from .report import Report

_ATOMS = (Var, Constant, GlobalVar, ExternFunc, StringImm, DataTypeImm, Op)


class GraphVerifier:
    """Walks one graph function. ``defined`` holds the variables and symbols in scope."""

    def __init__(self, report: Report, mod: IRModule | None) -> None:
        self.report = report
        self.mod = mod
        self.bound: set[Var] = set()
        self.ended: set[Var] = set()
        self.takes = False
        """True after a call that takes memory of its arguments."""

    def function(self, fn: Function, outer: set[Var]) -> None:
        """Check a function; ``outer`` is the scope around a local one."""
        defined = set(outer)
        for param in fn.params:
            if param.dataflow:
                self.report.add("E334", f"parameter {param.name} is a dataflow variable", param)
            self._define(param, defined)
            defined.update(bound_symbols(param.ty))
        try:
            promised_bounds(fn)
            noted_bounds(fn)
        except VerifyError as error:
            self.report.add(error.code, error.message, error)
        for param in fn.params:
            self._symbols(param.ty, defined, f"the type of parameter {param.name}", param.span)
        if type(fn.body) is not SeqExpr:
            self.report.add("E331", "the body of a function must be a sequence of bindings", fn)
            return
        pure = fn.pure and not (fn.attrs.get("force_pure") or fn.attrs.get("relax.force_pure"))
        self.sequence(fn.body, defined, "a pure function" if pure else None)
        if is_subtype(fn.body.ty, fn.ret_ty) is Answer.NO:
            self.report.add("E335", f"the function returns {fn.body.ty}, its type says {fn.ret_ty}", fn)

    def _define(self, var: Var, defined: set[Var]) -> None:
        if var in self.bound:
            self.report.add("E333", f"variable {var.name} is bound twice", var)
        self.bound.add(var)
        defined.add(var)

    def _symbols(self, node: Any, defined: set[Var], where: str, span: Any) -> None:
        for var in free_vars(node):
            if var not in defined:
                self.report.add("E338", f"symbol {var.name} in {where} is not defined", span)

    # ---- sequences

    def sequence(self, expr: SeqExpr, defined: set[Var], pure: str | None) -> None:
        """Check blocks and result; definitions stay in ``defined``."""
        for block in expr.blocks:
            self._block(block, defined, pure)
        self._leaf(expr.body, defined, "the result of a sequence")

    def _block(self, block: BindingBlock, defined: set[Var], pure: str | None) -> None:
        dataflow = isinstance(block, DataflowBlock)
        local: list[Var] = []
        for binding in block.bindings:
            var = binding.var
            if isinstance(binding, VarBinding) and isinstance(binding.value, Function):
                defined.add(var)  # a local function may call itself
            with self.report.at(var.name):
                self._value(binding.value, defined, "a dataflow block" if dataflow else pure)
                if var.dataflow:
                    local.append(var)
                    if not dataflow:
                        self.report.add("E334", f"dataflow variable {var.name} is bound outside a dataflow block", var)
                if isinstance(binding, MatchCast):
                    defined.update(bound_symbols(binding.target))
                    if is_subtype(binding.value.ty, binding.target) is Answer.NO:
                        self.report.add(
                            "E335", f"match_cast from {binding.value.ty} to {binding.target} never holds", binding
                        )
                    self._agree(binding.target, var.ty, f"variable {var.name}", binding.span)
                elif isinstance(binding, VarBinding):
                    self._agree(binding.value.ty, var.ty, f"variable {var.name}", binding.span)
                self._symbols(var.ty, defined, f"the type of {var.name}", var.span)
                self._define(var, defined)
        for var in local:
            defined.discard(var)
            self.ended.add(var)

    def _agree(self, value: Type, declared: Type, what: str, span: Any) -> None:
        if is_unknown(declared) or is_unknown(value):
            self.report.add("E335", f"{what} has no type", span)
        elif is_subtype(value, declared) is Answer.NO:
            self.report.add("E335", f"{what} has type {declared}, its value {value}", span)

    # ---- values

    def _value(self, value: Expr, defined: set[Var], pure: str | None) -> None:
        """A value bound to a variable: one operation over leaves."""
        if type(value) is Call and is_graph_call(value):
            self._call(value, defined, pure)
        elif type(value) is If:
            self._leaf(value.cond, defined, "a condition")
            if not is_condition(value.cond.ty):
                self.report.add("E335", f"a condition must be a bool scalar, got {value.cond.ty}", value)
            for branch in (value.then_branch, value.else_branch):
                if type(branch) is not SeqExpr:
                    self.report.add("E331", "a branch must be a sequence of bindings", value)
                else:
                    self.sequence(branch, set(defined), pure)
                    self._agree(branch.ty, value.ty, "the conditional", value.span)
        elif type(value) is Function:
            inner = GraphVerifier(self.report, self.mod)
            inner.bound = self.bound
            inner.ended = self.ended
            inner.function(value, {v for v in defined if not v.dataflow})
            self.takes = self.takes or inner.takes
        elif type(value) is SeqExpr:
            self.report.add("E331", "a sequence may stand only as a body or a branch", value)
        else:
            self._leaf(value, defined, "a value")

    def _leaf(self, expr: Expr, defined: set[Var], what: str) -> None:
        kind = type(expr)
        if type(expr) is Tuple:
            for item in expr.fields:
                self._leaf(item, defined, what)
        elif type(expr) is TupleGetItem:
            source = expr.tuple_value
            self._leaf(source, defined, what)
            if isinstance(source.ty, TupleType) and not 0 <= expr.index < len(source.ty.fields):
                self.report.add("E335", f"there is no field {expr.index} in a value of type {source.ty}", expr)
        elif isinstance(expr, Var):
            self._use(expr, defined)
        elif type(expr) is GlobalVar:
            if self.mod is not None and expr.name not in self.mod:
                self.report.add("E337", f"the module has no function {expr.name}", expr)
        elif kind in _ATOMS:
            return
        elif isinstance(expr, (If, SeqExpr, Function)) or (type(expr) is Call and is_graph_call(expr)):
            self.report.add("E331", f"{kind.__name__} stands inside {what}: bind it to a variable first", expr)
        elif type(expr) is ShapeExpr or isinstance(expr.ty, PrimType):
            for var in free_vars(expr):
                if var not in defined:
                    self.report.add("E338", f"symbol {var.name} in {what} is not defined", expr)
        else:
            self.report.add("E331", f"{kind.__name__} cannot stand in a graph function", expr)

    def _use(self, var: Var, defined: set[Var]) -> None:
        if var in defined:
            return
        if var in self.ended:
            self.report.add("E334", f"dataflow variable {var.name} is used outside its block", var,
                            help="make it an output of the block")  # fmt: skip
        else:
            self.report.add("E332", f"variable {var.name} is not defined here", var)

    # ---- calls

    def _call(self, call: Call, defined: set[Var], pure: str | None) -> None:
        self._leaf(call.op, defined, "a callee")
        for arg in call.args:
            self._leaf(arg, defined, "an argument")
        for ty in call.ty_args:
            self._symbols(ty, defined, "a result type", call.span)
        if pure is not None and not self._is_pure(call):
            name = getattr(call.op, "name", "the callee")
            self.report.add("E336", f"{name} has an effect and stands in {pure}", call,
                            help="use an ordinary binding block and mark the function pure=False")  # fmt: skip
        if is_unknown(call.ty):
            self.report.add("E335", f"the call of {getattr(call.op, 'name', 'a value')} has no type", call)
            return
        try:
            inferred = infer_call(call)
        except TypeRuleError as error:
            self.report.add(error.code, error.message, error.span or call, error.help)
            return
        if is_subtype(inferred, call.ty) is Answer.NO and is_subtype(call.ty, inferred) is Answer.NO:
            self.report.add("E335", f"the call has type {call.ty}, its rule gives {inferred}", call)
        self.takes = self.takes or call.op_name in IN_PLACE
        self._callee(call)

    def _is_pure(self, call: Call) -> bool:
        if type(call.op) is GlobalVar and self.mod is not None and call.op.name in self.mod:
            fn = self.mod[call.op.name]
            if isinstance(fn, Function):
                return fn.pure
        return is_pure_call(call)

    def _callee(self, call: Call) -> None:
        if self.mod is None:
            return
        name = call.op_name
        if type(call.op) is GlobalVar and call.op.name in self.mod:
            fn = self.mod[call.op.name]
            count = len(fn.params) if isinstance(fn, (Function, PrimFunc)) else len(call.args)
            if count != len(call.args):
                self.report.add("E337", f"{call.op.name} takes {count} arguments, got {len(call.args)}", call)
            elif isinstance(fn, PrimFunc):
                self._fits(call, call.op.name, fn, [arg.ty for arg in call.args], call.args)
            elif isinstance(fn, Function):
                for index, (param, arg) in enumerate(zip(fn.params, call.args)):
                    if is_subtype(arg.ty, param.ty) is Answer.NO:
                        text = f"argument {index + 1} of {call.op.name} must be {param.ty}, got {arg.ty}"
                        self.report.add("E337", text, call)
        elif name in ("R.call_dps", "R.call_inplace", "R.call_dps_with_grad") and len(call.args) >= 2:
            callee = call.args[0]
            if type(callee) is GlobalVar and callee.name in self.mod:
                self._destination_call(call, callee.name, self.mod[callee.name])

    def _destination_call(self, call: Call, name: str, fn: Any) -> None:
        if not isinstance(fn, PrimFunc) or not isinstance(call.args[1].ty, TupleType):
            return
        outputs = call.output_types
        inplace = call.attrs.get("inplace_indices")
        if inplace is not None:
            outputs = tuple([ty for ty, index in zip(outputs, inplace) if index == -1])
        types = [*call.args[1].ty.fields, *outputs]
        if len(call.args) > 2 and isinstance(call.args[2].ty, ShapeType) and call.args[2].ty.values is not None:
            types += [v.ty for v in call.args[2].ty.values]
        if len(types) != len(fn.params):
            self.report.add("E346", f"{name} takes {len(fn.params)} arguments, the call gives {len(types)}", call)
            return
        self._fits(call, name, fn, types, call.args[1].fields if isinstance(call.args[1], Tuple) else ())

    def _fits(self, call: Call, name: str, fn: PrimFunc, types: Sequence[Type], given: Sequence[Expr]) -> None:
        """The types of what a tensor program is given, against its parameters."""
        sizes: dict[Var, Expr] = {}
        for index, (param, ty) in enumerate(zip(fn.params, types)):
            reason = _parameter_mismatch(fn, param, ty) or _size_mismatch(fn, param, ty, sizes)
            if reason:
                buffer = fn.buffer_map.get(param)
                shown = param.name if buffer is None else buffer.name
                arg = given[index] if index < len(given) else None
                which = f" (argument {arg.name})" if isinstance(arg, Var) else ""
                self.report.add("E346", f"{name}: parameter {shown}{which} {reason}", call)


def _parameter_mismatch(fn: PrimFunc, param: Var, ty: Type) -> str | None:
    buffer = fn.buffer_map.get(param)
    if buffer is None:
        if isinstance(ty, PrimType) and isinstance(param.ty, PrimType) and ty.dtype is not param.ty.dtype:
            return (
                None
                if ty.dtype.is_integral and param.ty.dtype.is_integral
                else f"is {param.ty.dtype.name}, got {ty.dtype.name}"
            )
        if isinstance(ty, TensorType) and isinstance(param.ty, PrimType) and param.ty.dtype.code != "handle":
            return f"is the scalar {param.ty.dtype.name}, got a tensor"
        return None
    if isinstance(ty, ObjectType):
        return None
    if not isinstance(ty, TensorType):
        return f"is a buffer, got {ty}"
    if ty.dtype is not None and ty.dtype is not buffer.dtype.element:
        return f"holds elements of {buffer.dtype.element.name}, got {ty.dtype.name}"
    if ty.ndim not in (-1, len(buffer.shape)):
        return f"has rank {len(buffer.shape)}, got {ty.ndim}"
    for axis, (dim, given) in enumerate(zip(buffer.shape, dims(ty) or ())):
        if not free_vars(dim) and same_dim(dim, given) is Answer.NO:
            wanted, found = [int_value(size, size) for size in (dim, given)]
            return f"has {wanted} elements along axis {axis}, got {found}"
    return None


def _size_mismatch(fn: PrimFunc, param: Var, ty: Type, sizes: dict[Var, Expr]) -> str | None:
    """A symbol of the parameters that stands for two sizes; ``sizes`` holds those of the parameters before."""
    buffer = fn.buffer_map.get(param)
    for axis, (dim, given) in enumerate(zip(() if buffer is None else buffer.shape, dims(ty) or ())):
        if isinstance(dim, Var) and same_dim(sizes.setdefault(dim, given), given) is Answer.NO:
            wanted, found = [int_value(size, size) for size in (sizes[dim], given)]
            return f"has {dim.name} elements along axis {axis}, which is {wanted} of an argument before it, got {found}"
    return None
