"""Graph level: evaluates functions binding by binding over an environment of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.registry import get_global_func
from ....support.errors import FFIError, InterpreterError, UnityError
from ...analysis.symbol_bounds import promised_bounds
from ...expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    GlobalVar,
    If,
    IntImm,
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
from ...function import Function
from ...infer import infer_call
from ...op import OPS
from ...relation import requirements
from ...types import Expr, PrimType, ShapeType, Type
from .builtins import BUILTINS
from .expressions import ExprCompiler
from .machine import Machine
from .memory import View
from .primfunc import view_of_array
from .values import (
    Env,
    FunctionValue,
    Mismatch,
    ShapeValue,
    agree,
    array_of,
    check,
    convert_value,
    from_reference,
    scalar_of,
    to_foreign,
    to_value,
)  # fmt: skip


class GraphEvaluator:
    """Evaluates graph expressions; ``call_function(name, args, span)`` reaches the other functions of the module."""

    def __init__(self, machine: Machine, call_function: Callable[[str, list[Any], Any], Any]) -> None:
        self.machine = machine
        self.call_function = call_function
        self.scalars = ExprCompiler(machine)
        self.compiled: dict[Expr, Callable[[Env], Any]] = {}
        self.constants: dict[Constant, View] = {}
        self.required: dict[Call, list[tuple[Expr, Expr]]] = {}
        """Dimensions that a call needs to be equal and that its type rule could not compare."""
        self.handlers: dict[type, Callable[[Any, Env], Any]] = {
            Var: self._var, Constant: self._constant, TupleGetItem: self._get_item, If: self._if, SeqExpr: self._seq,
            Call: self._call, IntImm: self._scalar, FloatImm: self._scalar, Function: FunctionValue,
            Tuple: lambda expr, env: tuple([self.visit(f, env) for f in expr.fields]),
            ShapeExpr: lambda expr, env: ShapeValue([int(self._scalar(v, env)) for v in expr.values]),
            GlobalVar: lambda expr, env: FunctionValue(expr.name), ExternFunc: lambda expr, env: registered(expr.name, expr.span),
            StringImm: lambda expr, env: expr.value, DataTypeImm: lambda expr, env: expr.value,
        }  # fmt: skip

    def visit(self, expr: Expr, env: Env) -> Any:
        handler = self.handlers.get(type(expr))
        return handler(expr, env) if handler is not None else self._scalar(expr, env)

    def function(self, fn: Function, args: list[Any], env: Env, name: str, span: Any = None) -> Any:
        """Call a graph function with values in a fresh environment (``env`` holds what it captured)."""
        if len(args) != len(fn.params):
            raise InterpreterError("E316", f"{name} takes {len(fn.params)} arguments, got {len(args)}", span)
        env = dict(env)
        for symbol in [s for p in fn.params for s in _binding_symbols(p.ty)]:
            env.pop(symbol, None)
        for bind in (True, False):  # first what stands alone, then compound dimensions
            for index, (param, arg) in enumerate(zip(fn.params, args)):
                try:
                    env[param] = agree(param.ty, arg, env, self.visit, bind)
                except Mismatch as error:
                    text = f"{name}: argument {index + 1} ({param.name}): {error}"
                    raise InterpreterError("E316", text, span or param.span) from None
        for symbol, bounds in promised_bounds(fn).items() if fn.attrs else ():
            if (why := bounds.refuses(env[symbol])) is not None:
                raise InterpreterError("E749", f"{name}: {symbol.name} {why}", span or fn.span)
        result = self.visit(fn.body, env)
        return self._checked(fn.ret_ty, result, env, f"the result of {name}", fn.span)

    def _checked(self, ty: Type, value: Any, env: Env, what: str, span: Any) -> Any:
        try:
            return check(ty, value, env, self.visit)
        except Mismatch as error:
            raise InterpreterError("E321", f"{what} does not have its declared type: {error}", span) from None

    # ---- expressions

    def _var(self, expr: Var, env: Env) -> Any:
        if expr not in env:
            raise InterpreterError("E323", f"variable {expr.name} has no value here", expr.span)
        return env[expr]

    def _scalar(self, expr: Expr, env: Env) -> Any:
        closure = self.compiled.get(expr)
        if closure is None:
            closure = self.compiled[expr] = self.scalars.visit(expr)
        return closure(env)

    def _constant(self, expr: Constant, env: Env) -> View:
        view = self.constants.get(expr)
        if view is None:
            rows = np.asarray(expr.data.numpy(), order="C")  # kernels take row-major memory
            view = view_of_array(rows, "constant")
            view.memory.raw = view.memory.raw.view()
            view.memory.raw.flags.writeable = False
            self.constants[expr] = view
        return view

    def _get_item(self, expr: TupleGetItem, env: Env) -> Any:
        value = self.visit(expr.tuple_value, env)
        if not isinstance(value, tuple) or not 0 <= expr.index < len(value):
            raise InterpreterError("E321", f"there is no field {expr.index} in this value", expr.span)
        return value[expr.index]

    def _if(self, expr: If, env: Env) -> Any:
        cond = scalar_of(self.visit(expr.cond, env))
        return self.visit(expr.then_branch if cond else expr.else_branch, env)

    def _seq(self, expr: SeqExpr, env: Env) -> Any:
        for binding in expr.bindings:
            if type(binding) is MatchCast:
                value = self.visit(binding.value, env)
                try:
                    env[binding.var] = agree(binding.target, value, env, self.visit, True)
                except Mismatch as error:
                    raise InterpreterError("E317", f"match_cast fails: {error}", binding.span) from None
                continue
            assert isinstance(binding, VarBinding)
            try:
                value = self.visit(binding.value, env)
            except InterpreterError as error:
                error.locate(binding.span or getattr(binding.value, "span", None))
                raise
            what = f"the value of {binding.var.name}"
            env[binding.var] = self._checked(binding.var.ty, value, env, what, binding.span)
        return self.visit(expr.body, env)

    # ---- calls

    def apply(self, callee: Any, args: list[Any], span: Any) -> Any:
        """Call a function value, a Python function of the registry, or a function of the module by name."""
        if isinstance(callee, FunctionValue):
            args = [*callee.bound_args, *args]
            if isinstance(callee.callee, str):
                return self.call_function(callee.callee, args, span)
            return self.function(callee.callee, args, callee.env or {}, "the local function", span)
        if isinstance(callee, str):
            callee = registered(callee, span)
        if not callable(callee):
            raise InterpreterError("E318", "this value is not a function", span)
        outputs = [a for a in args if isinstance(a, View) and _is_fresh(a)]
        try:
            result = to_value(callee(*[to_foreign(a, span, any([a is o for o in outputs])) for a in args]))
        except UnityError as error:
            if error.span is None:
                error.span = span
            raise
        for view in outputs:
            assert view.memory.written is not None
            view.memory.written[:] = b"\x01" * len(view.memory.written)
        return result

    def _call(self, expr: Call, env: Env) -> Any:
        callee = expr.op
        if type(callee) is not Op:
            function = self.visit(callee, env)
            return self.apply(function, [self.visit(a, env) for a in expr.args], expr.span)
        if callee.name.startswith("T."):
            return self._scalar(expr, env)
        builtin = BUILTINS.get(callee.name)
        if builtin is not None:
            values = [a.name if type(a) is ExternFunc else self.visit(a, env) for a in expr.args]
            return builtin(self, expr, env, *values)
        info = OPS.get(callee.name)
        if info is None or not callable(info.ref):
            reason = f": {info.ref}" if info is not None else ""
            raise InterpreterError("E318", f"{callee.name} has no reference meaning{reason}", expr.span)
        self._check_sizes(expr, env)
        args = [self._reference_argument(a, env) for a in expr.args]
        if info.typed_scalars:
            args = [_typed(value, a.ty) for value, a in zip(args, expr.args)]
        attrs = {k: self._attribute(v, env) for k, v in expr.attrs.items()}
        try:
            result = info.ref(*args, **attrs)
        except UnityError:
            raise
        except (ValueError, TypeError, IndexError, ZeroDivisionError, KeyError, ArithmeticError) as error:
            raise InterpreterError(
                "E321", f"the reference meaning of {callee.name} failed: {error}", expr.span
            ) from error
        return from_reference(result, expr.ty)

    def _check_sizes(self, call: Call, env: Env) -> None:
        """Raise InterpreterError E321 where sizes that the type rule of an operator needs to be equal are not."""
        if call not in self.required:
            with requirements() as found:
                infer_call(call)
            self.required[call] = found
        for given, wanted in self.required[call]:
            left, right = self._scalar(given, env), self._scalar(wanted, env)
            if left != right:
                name = getattr(call.op, "name", "")
                message = f"{name} needs {given} and {wanted} to be equal, they are {left} and {right}"
                raise InterpreterError("E321", message, call.span)

    def _reference_argument(self, arg: Expr, env: Env) -> Any:
        return convert_value(self.visit(arg, env), getattr(arg, "span", None), array_of)

    def _attribute(self, value: Any, env: Env) -> Any:
        if isinstance(value, Expr):
            return convert_value(self.visit(value, env), None, array_of)
        if isinstance(value, (tuple, list)):
            return tuple([self._attribute(v, env) for v in value])
        return value


def _typed(value: Any, ty: Type) -> Any:
    """A number as numpy scalar of its type."""
    return ty.dtype.numpy.type(value) if isinstance(ty, PrimType) else value


def _is_fresh(view: View) -> bool:
    """Memory nobody has written: a registered function that is handed it writes its result there."""
    return view.memory.written is not None and view.memory.size > 0 and not any(view.memory.written)


def registered(name: str, span: Any) -> Any:
    """The registered function of a name. Raises InterpreterError E318."""
    try:
        return get_global_func(name)
    except FFIError as error:
        raise InterpreterError("E318", error.message, span, help=error.help) from None


def _binding_symbols(ty: Type) -> list[Var]:
    from_shape = ty.values if isinstance(ty, ShapeType) else getattr(getattr(ty, "shape", None), "values", None)
    return [d for d in from_shape or () if isinstance(d, Var)]
