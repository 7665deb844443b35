"""TVM's functions that call tensor programs and registered functions: ``relax.op.call_tir(gvar, [x], type)`` and its kin.

Each makes a call of the operator that script has for it. Not here: operators, nodes (``nodes.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.builder import make_call
from ..ir.expr import Call, ExternFunc, GlobalVar, ShapeExpr, Tuple, op
from ..ir.op import OPS
from ..ir.relation import dims
from ..ir.types import Expr, Type
from ..op.common.table import R, call_arguments, to_expr
from ..op.core import shape_of as shape_call
from ..support.errors import TypeRuleError
from ..te.tensor import shape_of

Types = Type | Sequence[Type]


def _types(given: Types | None, name: str) -> tuple[Type, ...]:
    if isinstance(given, Type):
        return (given,)
    if isinstance(given, (list, tuple)) and all([isinstance(t, Type) for t in given]):
        return tuple(given)
    raise TypeRuleError(
        "E743", f"{name} needs the type of its result", help='relax.TensorType((n, 4), "float32"), or a list of types'
    )


def _callee(func: Expr | str) -> Expr:
    return ExternFunc(func) if isinstance(func, str) else func


def _operands(args: Any) -> Tuple:
    """Arguments as one tuple; a single tensor stands for a tuple of it."""
    if isinstance(args, Expr):
        return args if type(args) is Tuple else Tuple((args,))
    return Tuple(tuple([to_expr(a) for a in args]))


def _dps(name: str, func: Expr | str, args: Any, out: Types | None, tir_vars: Any, attrs: Mapping[str, Any]) -> Call:
    parts: list[Expr] = [_callee(func), _operands(args)]
    if tir_vars is not None:
        parts.append(tir_vars if isinstance(tir_vars, Expr) else ShapeExpr(shape_of(tir_vars)))
    return make_call(op(name), parts, dict(attrs), _types(out, name))


def call_tir(
    gvar: GlobalVar, args: Any, out_ty: Types | None = None, tir_vars: Any = None, *, out_sinfo: Types | None = None
) -> Call:
    """Call of a tensor program that writes its results, of types ``out_ty``, into memory given to it."""
    return _dps(R.call_dps.name, gvar, args, out_ty or out_sinfo, tir_vars, {})


def call_dps_packed(
    func: Expr | str, args: Any, out_ty: Types | None = None, *, out_sinfo: Types | None = None
) -> Call:
    """Call of a registered function that writes its results into memory given to it."""
    return _dps(R.call_dps.name, func, args, out_ty or out_sinfo, None, {})


def call_tir_inplace(
    gvar: GlobalVar, args: Any, inplace_indices: int | Sequence[int], out_ty: Types | None = None, tir_vars: Any = None,
    *, out_sinfo: Types | None = None,
) -> Call:  # fmt: skip
    """As ``call_tir``; result i takes the memory of argument ``inplace_indices[i]`` (-1: new memory)."""
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    out = out_ty or out_sinfo
    return _dps(R.call_inplace.name, gvar, args, out, tir_vars, {"inplace_indices": tuple(indices)})


def call_tir_with_grad(
    gvar: GlobalVar, args: Any, out_ty: Types | None = None, te_grad_name: str = "",
    te_grad_kwargs: Mapping[str, Any] | None = None, tir_vars: Any = None, *, out_sinfo: Types | None = None,
) -> Call:  # fmt: skip
    """As ``call_tir``, naming the gradient of the program."""
    attrs = {"te_grad_name": te_grad_name, "te_grad_kwargs": dict(te_grad_kwargs) if te_grad_kwargs else None}
    return _dps(R.call_dps_with_grad.name, gvar, args, out_ty or out_sinfo, tir_vars, attrs)


def _call(name: str, parts: list[Any], attrs: dict[str, Any], out: Types | None) -> Call:
    return make_call(op(name), call_arguments(OPS[name], parts, attrs), attrs, () if out is None else _types(out, name))


def _packed(name: str) -> Callable[..., Call]:
    def call(func: Expr | str, *args: Any, ty_args: Types | None = None, sinfo_args: Types | None = None) -> Call:
        return _call(name, [_callee(func), *args], {}, ty_args or sinfo_args)

    call.__name__ = call.__qualname__ = name.removeprefix("R.")
    call.__doc__ = f"Call of a registered function, ``{name}``; ``ty_args`` is the type of its result."
    return call


call_packed, call_pure_packed = _packed(R.call_packed.name), _packed(R.call_pure_packed.name)


def call_inplace_packed(
    func: Expr | str, *args: Any, inplace_indices: int | Sequence[int], ty_args: Types | None = None,
    sinfo_args: Types | None = None,
) -> Call:  # fmt: skip
    """As ``call_pure_packed``, of a function that changes its arguments ``inplace_indices`` (-1: new memory)."""
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    out = ty_args or sinfo_args
    return _call(R.call_inplace_packed.name, [_callee(func), *args], {"inplace_indices": tuple(indices)}, out)


def _of_tuple(name: str) -> Callable[..., Call]:
    def call(func: Expr | str, args: Any, ty_args: Types | None = None, *, sinfo_args: Types | None = None) -> Call:
        return _call(name, [_callee(func), _operands(args)], {}, ty_args or sinfo_args)

    call.__name__ = call.__qualname__ = name.removeprefix("R.")
    call.__doc__ = f"{OPS[name].doc} ``args`` is a tuple, ``ty_args`` the type of the result."
    return call


call_builtin_with_ctx, invoke_closure, invoke_pure_closure = [
    _of_tuple(row.name) for row in (R.call_builtin_with_ctx, R.invoke_closure, R.invoke_pure_closure)
]


def get_shape_of(expr: Expr) -> Expr:
    """The shape of a tensor: a ShapeExpr where it is known, else a call of ``R.shape_of``."""
    known = dims(expr.ty)
    return ShapeExpr(known) if known is not None else shape_call(expr)


CALLS: dict[str, Callable[..., Call]] = {
    function.__name__: function
    for function in (
        call_tir,
        call_dps_packed,
        call_tir_inplace,
        call_tir_with_grad,
        call_packed,
        call_pure_packed,
        call_inplace_packed,
        call_builtin_with_ctx,
        invoke_closure,
        invoke_pure_closure,
    )
}
"""The calls by their names in ``relax.op``."""

__all__ = [
    "call_builtin_with_ctx", "call_dps_packed", "call_inplace_packed", "call_packed", "call_pure_packed", "call_tir",
    "call_tir_inplace", "call_tir_with_grad", "get_shape_of", "invoke_closure", "invoke_pure_closure",
]  # fmt: skip
