"""Relations between types: sub-typing in three answers, join, erasing symbols, matching a callee's parameters.

Whether two dimensions are equal is decided by structural equality of the expressions, then by ``PROVERS``, to which the arith
room adds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import IntEnum

from ..ffi.dtype import DataType
from ..support.context_stack import ContextStack
from .binders import bound_symbols
from .build import const, floordiv, maximum, mul
from .constant import size
from .expr import IntImm, ShapeExpr, Var
from .node import replace
from .structural import structural_equal
from .types import OBJECT, Expr, FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from .walk import free_vars, substitute


class Answer(IntEnum):
    """Three-way answer."""

    NO = 0
    MAYBE = 1
    YES = 2


def _same_dim(a: Expr, b: Expr) -> Answer:
    if a is b:
        return Answer.YES
    if type(a) is IntImm and type(b) is IntImm:
        return Answer.YES if a.value == b.value else Answer.NO
    return Answer.YES if structural_equal(a, b) else Answer.MAYBE


PROVERS: list[Callable[[Expr, Expr], Answer]] = []
"""Functions that prove two dimensions equal or different, asked in order until one knows."""


def same_dim(a: Expr, b: Expr) -> Answer:
    """Equality of two dimensions: YES, NO, or MAYBE (not provable)."""
    answer = _same_dim(a, b)
    for prove in PROVERS if answer is Answer.MAYBE else ():
        answer = prove(a, b)
        if answer is not Answer.MAYBE:
            break
    return answer


def same_dims(a: Iterable[Expr], b: Iterable[Expr]) -> Answer:
    """Equality of two shapes."""
    left, right = tuple(a), tuple(b)
    if len(left) != len(right):
        return Answer.NO
    return min([same_dim(x, y) for x, y in zip(left, right)], default=Answer.YES)


_REQUIRED: ContextStack[list[tuple[Expr, Expr]]] = ContextStack("requirements")


def requirements() -> AbstractContextManager[list[tuple[Expr, Expr]]]:
    """Collect the pairs of dimensions that type rules need to be equal and nobody can prove equal or different."""
    return _REQUIRED.inside([])


def unequal(a: Expr, b: Expr) -> bool:
    """True if two dimensions that a type rule needs to be equal are known to differ. Unknown: recorded as a requirement."""
    answer = same_dim(a, b)
    found = _REQUIRED.top
    if answer is Answer.MAYBE and found is not None:
        found.append((a, b))
    return answer is Answer.NO


def unequal_shapes(a: Iterable[Expr], b: Iterable[Expr]) -> bool:
    """As ``unequal`` for two shapes; different ranks are different."""
    left, right = tuple(a), tuple(b)
    return len(left) != len(right) or any([unequal(x, y) for x, y in zip(left, right)])


def exceeds(a: Expr, b: Expr) -> bool:
    """True if a dimension that a type rule needs to be at most ``b`` is known to be larger. Unknown: recorded as a requirement."""
    if type(a) is IntImm and type(b) is IntImm:
        return a.value > b.value
    return same_dim(a, b) is not Answer.YES and unequal(b, maximum(a, b))


def indivisible(a: Expr, b: Expr) -> bool:
    """True if a dimension that a type rule needs to be a multiple of ``b`` is known not to be one. Unknown: a requirement."""
    return unequal(a, mul(floordiv(a, maximum(b, const(1, "int64"))), b))


def is_condition(ty: Type) -> bool:
    """True if a value of a type may be the condition of a conditional: a bool scalar, or perhaps one."""
    if isinstance(ty, TensorType):
        return (ty.dtype is None or ty.dtype.is_bool) and ty.ndim in (0, -1)
    return isinstance(ty, ObjectType) or (isinstance(ty, PrimType) and ty.dtype.is_bool)


def dims(ty: Type) -> tuple[Expr, ...] | None:
    """Dimensions of a tensor or shape type when each is known as an expression, else None."""
    if isinstance(ty, TensorType):
        if type(ty.shape) is ShapeExpr:
            return ty.shape.values
        return ty.shape.ty.values if ty.shape is not None and isinstance(ty.shape.ty, ShapeType) else None
    return ty.values if isinstance(ty, ShapeType) else None


def tensor_dtype(ty: Type) -> str:
    """Name of the data type of a tensor type, "" where it is not known, and of other types."""
    return ty.dtype.name if isinstance(ty, TensorType) and ty.dtype is not None else ""


def _dimensions(values: Iterable[Expr | int]) -> tuple[Expr, ...]:
    return tuple([value if isinstance(value, Expr) else size(value) for value in values])


def tensor_type(
    shape: Iterable[Expr | int] | Expr | None,
    dtype: DataType | str | None = None,
    ndim: int = -1,
    vdevice: str | None = None,
) -> TensorType:
    """Make a TensorType from dimensions (or a shape variable, or None); the rank follows from the shape."""
    from_dtype = None if dtype is None else DataType(dtype)
    if shape is None:
        return TensorType(None, from_dtype, ndim, vdevice)
    expr = shape if isinstance(shape, Expr) else ShapeExpr(_dimensions(shape))
    shape_ty = expr.ty
    rank = shape_ty.ndim if isinstance(shape_ty, ShapeType) else ndim
    return TensorType(expr, from_dtype, rank, vdevice)


def shape_type(values: Iterable[Expr | int]) -> ShapeType:
    """Make a ShapeType of known dimensions."""
    dims_ = _dimensions(values)
    return ShapeType(dims_, len(dims_))


def is_subtype(a: Type, b: Type) -> Answer:
    """Subtyping: a value of type ``a`` where ``b`` is expected: YES, MAYBE (needs a run-time check), or NO."""
    match b:
        case ObjectType():
            return Answer.YES
        case PrimType():
            if isinstance(a, PrimType):
                return Answer.YES if a.dtype is b.dtype else Answer.NO
        case ShapeType():
            if isinstance(a, ShapeType):
                if b.ndim != -1 and a.ndim != -1 and a.ndim != b.ndim:
                    return Answer.NO
                if b.values is None:
                    return Answer.YES if b.ndim in (-1, a.ndim) else Answer.MAYBE
                return Answer.MAYBE if a.values is None else same_dims(a.values, b.values)
        case TensorType():
            if isinstance(a, TensorType):
                return _tensor_subtype(a, b)
        case TupleType():
            if isinstance(a, TupleType):
                if len(a.fields) != len(b.fields):
                    return Answer.NO
                return min([is_subtype(x, y) for x, y in zip(a.fields, b.fields)], default=Answer.YES)
        case FuncType():
            if isinstance(a, FuncType):
                return _func_subtype(a, b)
        case _:
            return Answer.YES if structural_equal(a, b) else Answer.NO
    return Answer.MAYBE if isinstance(a, ObjectType) else Answer.NO


def _tensor_subtype(a: TensorType, b: TensorType) -> Answer:
    answer = Answer.YES
    if b.dtype is not None:
        if a.dtype is None:
            answer = Answer.MAYBE
        elif a.dtype is not b.dtype:
            return Answer.NO
    if b.ndim != -1:
        if a.ndim == -1:
            answer = Answer.MAYBE
        elif a.ndim != b.ndim:
            return Answer.NO
    if b.shape is not None:
        if a.shape is b.shape:
            return answer
        left, right = dims(a), dims(b)
        answer = min(answer, Answer.MAYBE if left is None or right is None else same_dims(left, right))
    return answer


def _func_subtype(a: FuncType, b: FuncType) -> Answer:
    if b.pure and not a.pure:
        return Answer.NO
    if b.params is None:
        return is_subtype(a.ret, b.ret)
    if a.params is None:
        return Answer.MAYBE
    if len(a.params) != len(b.params):
        return Answer.NO
    if structural_equal(a, b):
        return Answer.YES
    parts = [is_subtype(y, x) for x, y in zip(a.params, b.params)]
    return min([*parts, is_subtype(a.ret, b.ret)], default=Answer.YES)


def join(a: Type, b: Type) -> Type:
    """The most precise type that both fit (least upper bound)."""
    if a is b or is_subtype(a, b) is Answer.YES:
        return b
    if is_subtype(b, a) is Answer.YES:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        dtype = a.dtype if a.dtype is b.dtype else None
        ndim = a.ndim if a.ndim == b.ndim else -1
        left, right = dims(a), dims(b)
        vdevice = a.vdevice if a.vdevice == b.vdevice else None
        if left is not None and right is not None and same_dims(left, right) is Answer.YES:
            return TensorType(a.shape, dtype, ndim, vdevice)
        return TensorType(None, dtype, ndim, vdevice)
    if isinstance(a, ShapeType) and isinstance(b, ShapeType):
        return ShapeType(None, a.ndim if a.ndim == b.ndim else -1)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        return TupleType(tuple([join(x, y) for x, y in zip(a.fields, b.fields)]))
    if isinstance(a, FuncType) and isinstance(b, FuncType):
        return FuncType(None, join(a.ret, b.ret), a.pure and b.pure)
    return OBJECT


def erase(ty: Type, keep: Iterable[Var]) -> Type:
    """The type without symbols (and shape variables) other than ``keep``: unknown dimensions become an unknown shape."""
    allowed = set(keep)
    match ty:
        case TensorType() if ty.shape is not None:
            if all([v in allowed for v in free_vars(ty.shape)]):
                return ty
            return TensorType(None, ty.dtype, ty.ndim, ty.vdevice)
        case ShapeType() if ty.values is not None:
            if all([v in allowed for value in ty.values for v in free_vars(value)]):
                return ty
            return ShapeType(None, ty.ndim)
        case TupleType():
            fields = tuple([erase(f, allowed) for f in ty.fields])
            return replace(ty, fields=fields)
    return ty


def bind_symbols(param: Type, arg: Type, mapping: dict[Var, Expr]) -> None:
    """Extend ``mapping`` with what an argument's type says about the bare symbols of a parameter's type."""
    if isinstance(param, (TensorType, ShapeType)) and isinstance(arg, (TensorType, ShapeType)):
        if isinstance(param, TensorType) and isinstance(arg, TensorType):
            shape = param.shape
            if isinstance(shape, Var) and arg.shape is not None:
                mapping.setdefault(shape, arg.shape)
        left, right = dims(param), dims(arg)
        if left is not None and right is not None and len(left) == len(right):
            for x, y in zip(left, right):
                if isinstance(x, Var):
                    mapping.setdefault(x, y)
    elif isinstance(param, TupleType) and isinstance(arg, TupleType):
        for inner_param, inner_arg in zip(param.fields, arg.fields):
            bind_symbols(inner_param, inner_arg, mapping)


def call_result(callee: FuncType, args: tuple[Expr, ...]) -> Type:
    """Result type of a call: the callee's symbols replaced by what the arguments say; unknown ones erased."""
    if callee.params is None:
        return callee.ret
    mapping: dict[Var, Expr] = {}
    for param, arg in zip(callee.params, args):
        bind_symbols(param, arg.ty, mapping)
    symbols = [v for p in callee.params for v in bound_symbols(p)]
    unknown = [v for v in symbols if v not in mapping]
    ret = callee.ret
    if unknown:
        ret = erase(ret, [v for v in free_vars(ret) if v not in unknown])
    return substitute(ret, mapping)
