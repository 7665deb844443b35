"""Types of calls and conditionals, and purity. The rules of operators live in their rows."""

from __future__ import annotations

from ..ffi.registry import get_global_func
from ..support.errors import Note, TypeRuleError, suggest
from .expr import (
    Call,
    ExternFunc,
    GlobalVar,
    If,
    Op,
    SeqExpr,
)  # fmt: skip
from .function import Function
from .op import OPS, check_attributes, check_operands, is_pure_op
from .relation import Answer, call_result, is_subtype
from .types import OBJECT, Expr, FuncType, ObjectType, Type


def infer_call(call: Call) -> Type:
    """Result type of a call. Raises TypeRuleError E203 (unknown operator), E205 (arguments do not fit the callee)."""
    callee = call.op
    if type(callee) is Op:
        info = OPS.get(callee.name)
        if info is None:
            raise TypeRuleError("E203", f"no operator {callee.name}", call.span, help=suggest(callee.name, OPS))
        try:
            check_operands(info, call)
            check_attributes(info, call)
            return info.infer(call)
        except TypeRuleError as error:
            if error.span is None:
                error.span = call.span
            raise
    if type(callee) is ExternFunc:
        return call.ty_args[0] if call.ty_args else OBJECT
    ty = callee.ty
    if isinstance(ty, ObjectType):
        return call.ty_args[0] if call.ty_args else OBJECT
    if not isinstance(ty, FuncType):
        raise TypeRuleError("E205", f"a value of type {ty} is not a function", call.span)
    check_arguments(ty, call)
    return call_result(ty, call.args) if ty.derive is None else derived_result(ty.derive, call)


def derived_result(name: str, call: Call) -> Type:
    """The type that the registered function ``name`` derives for a call: ``rule(call, None)``. Raises TypeRuleError E205."""
    rule = get_global_func(name, allow_missing=True)
    if rule is None:
        hint = f'unity.register_func("{name}", rule), with rule(call, None) giving the type'
        raise TypeRuleError("E205", f"derive_func {name!r} is not registered", call.span, help=hint)
    found = rule(call, None)
    if not isinstance(found, Type):
        raise TypeRuleError("E205", f"derive_func {name!r} gave a {type(found).__name__}, no type", call.span)
    return found


def check_arguments(ty: FuncType, call: Call) -> None:
    """Raise TypeRuleError E205 when the arguments cannot fit the parameters of a callee."""
    if ty.params is None:
        return
    name = getattr(call.op, "name", "the function")
    if len(ty.params) != len(call.args):
        raise TypeRuleError("E205", f"{name} takes {len(ty.params)} arguments, got {len(call.args)}", call.span)
    for index, (param, arg) in enumerate(zip(ty.params, call.args)):
        if is_subtype(arg.ty, param) is Answer.NO:
            note = Note(f"argument {index + 1} has type {arg.ty}", getattr(arg, "span", None))
            raise TypeRuleError(
                "E205", f"argument {index + 1} of {name} must be {param}, got {arg.ty}", call.span, [note]
            )


def is_pure_call(call: Call) -> bool:
    """True if the call has no effect (by the operator's row, or the callee's type)."""
    callee = call.op
    if type(callee) is Op:
        return is_pure_op(call)
    if type(callee) is GlobalVar and not isinstance(callee.ty, FuncType):
        return False
    ty = callee.ty
    return isinstance(ty, FuncType) and ty.pure


def find_impure_call(body: Expr) -> Call | None:
    """The first call with an effect in a normalised body (nested function definitions are not entered)."""
    stack: list[Expr] = [body]
    while stack:
        expr = stack.pop()
        if type(expr) is SeqExpr:
            stack += [expr.body, *[binding.value for binding in reversed(expr.bindings)]]
        elif type(expr) is If:
            stack += [expr.else_branch, expr.then_branch, expr.cond]
        elif type(expr) is Call:
            if not is_pure_call(expr):
                return expr
            stack.extend(expr.args)
        elif isinstance(expr, Function):
            continue
    return None
