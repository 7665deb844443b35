"""Parts of type rules: arguments by kind, attributes by kind, broadcasting, and the errors they raise.

Here: helpers that read a Call and raise TypeRuleError E21x. Not here: any operator. Invariant: a helper either returns a value
of the promised kind or raises; unknown (dtype None, shape None) is passed on, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from ...ffi.dtype import DataType
from ...ir.build import const, eq, select
from ...ir.constant import wrap_int
from ...ir.expr import Call, DataTypeImm, FloatImm, IntImm, ShapeExpr, StringImm, Var
from ...ir.op import OPS, REQUIRED, strip_int_types, usage
from ...ir.relation import Answer, dims, same_dim, tensor_type, unequal
from ...ir.scalar import EQ, Mul, Select
from ...ir.types import Expr, PrimType, ShapeType, TensorType, TupleType
from ...support.errors import FFIError, Note, TypeRuleError

_T = TypeVar("_T")
ONE = const(1, "int64")
ZERO = const(0, "int64")


def op_name(call: Call) -> str:
    """Name of the operator for messages."""
    return str(getattr(call.op, "name", "the call"))


def fail(call: Call, code: str, message: str, help: str | None = None, arg: Expr | int | None = None) -> TypeRuleError:
    """The error to raise; with ``arg``, an argument or its number, a note says what it is and where it stands."""
    notes = []
    if isinstance(arg, int):
        arg = call.args[arg]
    if arg is not None:
        notes.append(Note(f"{getattr(arg, 'name', 'the argument')} has type {arg.ty}", getattr(arg, "span", None)))
    info = OPS.get(op_name(call))
    shown = strip_int_types(f"{op_name(call)}: {message}")
    return TypeRuleError(code, shown, call.span, notes, help or (usage(info) if info is not None else None))


def argument(call: Call, index: int, name: str) -> Expr:
    """Argument by position. Raises E215 when it is missing."""
    if index >= len(call.args):
        raise fail(call, "E215", f"argument {name!r} is missing")
    return call.args[index]


def tensor_arg(call: Call, index: int, name: str = "x", rank: int | None = None) -> TensorType:
    """Type of a tensor argument. Raises E210 for anything else, E212 for another rank."""
    arg = argument(call, index, name)
    if not isinstance(arg.ty, TensorType):
        hint = "write R.const(value, dtype) for a scalar tensor" if isinstance(arg.ty, PrimType) else None
        raise fail(call, "E210", f"{name} must be a tensor, got {arg.ty}", hint, arg)
    if rank is not None and arg.ty.ndim not in (-1, rank):
        raise fail(call, "E212", f"{name} must have rank {rank}, got {arg.ty.ndim}", arg=arg)
    return arg.ty


def float_tensor(call: Call, index: int = 0, name: str = "x", rank: int | None = None) -> TensorType:
    """Type of a floating-point tensor argument. Raises E210 to E212."""
    ty = tensor_arg(call, index, name, rank)
    if ty.dtype is not None and not ty.dtype.is_float:
        shown = getattr(call.args[index], "name", "x")
        raise fail(
            call,
            "E211",
            f"expected a float tensor, got {ty.dtype.name}",
            f'cast first: R.astype({shown}, "float32")',
            index,
        )
    return ty


def tensor_tuple(call: Call, index: int, name: str = "tensors") -> list[TensorType]:
    """Types of the fields of a tuple of tensors. Raises E210."""
    arg = argument(call, index, name)
    if not isinstance(arg.ty, TupleType) or not all([isinstance(f, TensorType) for f in arg.ty.fields]):
        raise fail(call, "E210", f"{name} must be a tuple of tensors, got {arg.ty}", arg=arg)
    return [f for f in arg.ty.fields if isinstance(f, TensorType)]


def shape_arg(call: Call, index: int, name: str = "shape") -> ShapeType:
    """Type of a shape argument. Raises E210."""
    arg = argument(call, index, name)
    if not isinstance(arg.ty, ShapeType):
        raise fail(
            call, "E210", f"{name} must be a shape, got {arg.ty}", "write R.shape([n, 4]) or a tuple of dimensions", arg
        )
    return arg.ty


def attr(call: Call, name: str, default: Any = None) -> Any:
    """Attribute with lists turned into tuples and literals into Python values; one that is not written is as its row says, else
    ``default``."""
    if name in call.attrs:
        return python_value(call.attrs[name])
    info = OPS.get(op_name(call))
    known = [p.default for p in info.params if p.name == name and p.default is not REQUIRED] if info is not None else []
    return python_value(known[0]) if known else default


def python_value(value: Any) -> Any:
    """Python value of a literal: IR immediates, lists and ShapeExprs of them; other expressions stay."""
    if isinstance(value, (list, tuple)):
        return tuple([python_value(v) for v in value])
    if type(value) is IntImm:
        return bool(value.value) if value.ty.dtype.is_bool else value.value
    if isinstance(value, (FloatImm, StringImm)):
        return value.value
    if type(value) is ShapeExpr:
        return tuple([python_value(v) for v in value.values])
    return value.value if type(value) is DataTypeImm else value


def dtype_value(call: Call, value: Any, name: str = "dtype") -> DataType | None:
    """DataType from whatever a program writes: text, R.dtype, DataType; "" and "void" mean not given. Raises E214."""
    value = python_value(value)
    if value is None or value == "" or value == "void":
        return None
    if isinstance(value, DataType):
        return None if value.code == "void" else value
    if not isinstance(value, str):
        raise fail(call, "E214", f"{name} must be a data type, got {value!r}")
    try:
        return DataType(value)
    except FFIError as problem:
        raise fail(call, "E214", f"{name}: {problem.message}", problem.help) from None


def int_attr(call: Call, name: str, default: int | None = None) -> int:
    """Integer attribute. Raises E214."""
    value = attr(call, name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise fail(call, "E214", f"{name} must be an integer, got {value!r}")
    return value


def element(call: Call, value: Any, dtype: DataType | None, name: str) -> int | float:
    """A number as an element of a data type. Raises E214 for one that the type does not have."""
    whole = None if dtype is None or dtype.is_float else dtype
    number = isinstance(value, (bool, int, float))
    if number and whole is None:
        return value  # type: ignore[no-any-return]
    if number and whole is not None and abs(value) < math.inf and wrap_int(int(value), whole) == value:
        return int(value)
    shown = "" if dtype is None else f" that {dtype.name} has"
    raise fail(call, "E214", f"{name} must be a number{shown}, got {value!r}")


def bool_attr(call: Call, name: str, default: bool = False) -> bool:
    """Boolean attribute. Raises E214."""
    value = attr(call, name, default)
    if not isinstance(value, bool) and value not in (0, 1):
        raise fail(call, "E214", f"{name} must be True or False, got {value!r}")
    return bool(value)


def choice_attr(call: Call, name: str, known: Sequence[str | None]) -> None:
    """Raise E214 for an attribute that is none of a few words."""
    value = attr(call, name)
    if value not in known:
        raise fail(call, "E214", f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")


def ints_attr(call: Call, name: str, count: int | None = None) -> tuple[int, ...]:
    """Integers attribute; one integer stands for ``count`` equal ones. Raises E214."""
    value = attr(call, name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,) * (count or 1)
    if not isinstance(value, tuple) or not all([isinstance(v, int) for v in value]):
        raise fail(call, "E214", f"{name} must be integers, got {value!r}")
    if count is not None and len(value) != count:
        raise fail(call, "E214", f"{name} must be {count} integers, got {len(value)}")
    return value


def normal_axis(call: Call, axis: int, ndim: int, name: str = "axis") -> int:
    """Axis counted from the front. Raises E214 out of range; ``ndim`` -1 accepts only non-negative axes."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise fail(call, "E214", f"{name} must be an integer, got {axis!r}")
    if ndim == -1:
        if axis < 0:
            raise fail(call, "E214", f"{name} {axis} needs a known rank", "give the rank: R.Tensor(ndim=...)")
        return axis
    if not -ndim <= axis < ndim:
        raise fail(call, "E214", f"{name} {axis} is out of range for rank {ndim}")
    return axis + ndim if axis < 0 else axis


def axis_attr(call: Call, ndim: int, name: str = "axis", default: int | None = None) -> int:
    """Axis attribute counted from the front. Raises E214."""
    return normal_axis(call, int_attr(call, name, default), ndim)


def axes_attr(call: Call, name: str, ndim: int) -> tuple[int, ...] | None:
    """Axes attribute (one integer, several, or None for all), each counted from the front. Raises E214."""
    value = attr(call, name)
    if value is None:
        return None
    if isinstance(value, int):
        value = (value,)
    if not isinstance(value, tuple) or not all([isinstance(v, int) for v in value]):
        raise fail(call, "E214", f"{name} must be integers, got {value!r}")
    axes = tuple([normal_axis(call, v, ndim, name) for v in value])
    if len(set(axes)) != len(axes):
        raise fail(call, "E214", f"{name} {value} names an axis twice")
    return axes


def same_dtype(call: Call, *types: TensorType) -> DataType | None:
    """The common dtype of tensors, None if unknown. Raises E211 where two differ."""
    found: DataType | None = None
    for ty in types:
        if ty.dtype is None:
            continue
        if found is not None and found is not ty.dtype:
            raise fail(
                call,
                "E211",
                f"the operands have different data types, {found.name} and {ty.dtype.name}",
                f'cast one of them: R.astype(x, "{found.name}")',
            )
        found = ty.dtype
    return None if any([t.dtype is None for t in types]) and found is None else found


def same_vdevice(*types: TensorType) -> str | None:
    """The virtual device all tensors share, else None."""
    devices = {t.vdevice for t in types if t.vdevice is not None}
    return devices.pop() if len(devices) == 1 else None


def is_one(dim: Expr) -> bool:
    """True if a dimension is the constant 1."""
    return type(dim) is IntImm and dim.value == 1


def broadcast_dims(call: Call, shapes: Sequence[Sequence[Expr]]) -> tuple[Expr, ...]:
    """numpy broadcasting of known shapes. Raises E213 where two dimensions can never fit.

    Of sizes nobody can prove equal, the result has the first that is not 1; that each of them is this size or 1 is noted as a
    requirement (``unequal``), which ``check_shapes`` makes a check at run time.
    """
    rank = max([len(s) for s in shapes], default=0)
    return tuple(
        [_broadcast_axis(call, axis, [s[axis] for s in shapes if len(s) >= -axis]) for axis in range(-rank, 0)]
    )


def _broadcast_axis(call: Call, axis: int, sizes: Sequence[Expr]) -> Expr:
    different: list[Expr] = []
    for dim in sizes:
        for part in _alternatives(dim):
            if not is_one(part) and not any([part is d or same_dim(d, part) is Answer.YES for d in different]):
                different.append(part)
    if len(different) < 2:
        return different[0] if different else ONE
    known = [d for d in different if type(d) is IntImm]
    if len(known) > 1:
        first, second = [d.value for d in known[:2]]
        raise fail(
            call,
            "E213",
            f"dimensions {first} and {second} (axis {axis}) do not broadcast",
            "sizes must be equal, or one of them 1",
        )
    result: Expr = known[0] if known else different[-1]
    if not known:  # a number other than 1 decides what the others are
        for dim in reversed(different[:-1]):
            result = select(eq(dim, ONE), result, dim)
    for dim in different:
        if dim is not result:
            unequal(select(eq(dim, ONE), result, dim), result)
    return result


def _alternatives(dim: Expr) -> list[Expr]:
    """The sizes a dimension was broadcast from: those of ``select(n == 1, m, n)``, else itself."""
    found: list[Expr] = []
    while type(dim) is Select and type(dim.cond) is EQ and is_one(dim.cond.b) and dim.cond.a is dim.false_value:
        found.append(dim.false_value)
        dim = dim.true_value
    return [*found, dim]


def broadcast_type(call: Call, types: Sequence[TensorType], dtype: DataType | None) -> TensorType:
    """Result type of an elementwise operator on several tensors."""
    vdevice = same_vdevice(*types)
    shapes = [dims(t) for t in types]
    if len(types) == 1:
        return TensorType(types[0].shape, dtype, types[0].ndim, vdevice)
    if all([s is not None for s in shapes]):
        return tensor_type(broadcast_dims(call, [s for s in shapes if s is not None]), dtype, vdevice=vdevice)
    first = types[0].shape
    if isinstance(first, Var) and all([t.shape is first for t in types]):
        return TensorType(first, dtype, types[0].ndim, vdevice)
    ndim = -1 if any([t.ndim == -1 for t in types]) else max([t.ndim for t in types])
    return TensorType(None, dtype, ndim, vdevice)


def put_at(items: Sequence[_T], axis: int, item: _T) -> list[_T]:
    """Indices or sizes by axis with another one at an axis."""
    return [item if a == axis else v for a, v in enumerate(items)]


def product(values: Sequence[Expr]) -> Expr:
    """Product of dimensions, int64; constants are gathered behind the symbols."""
    factor = 1
    total: Expr = ONE
    for value in values:
        while type(value) is Mul and type(value.b) is IntImm:
            factor *= value.b.value
            value = value.a
        if type(value) is IntImm:
            factor *= value.value
        else:
            total = total * value
    return total * factor


def with_dtype(ty: TensorType, dtype: DataType | None) -> TensorType:
    """The tensor type with another dtype."""
    return TensorType(ty.shape, dtype, ty.ndim, ty.vdevice)


def with_shape(ty: TensorType, shape: Expr | Sequence[Expr]) -> TensorType:
    """The tensor type with another shape."""
    return tensor_type(shape, ty.dtype, vdevice=ty.vdevice)


def with_rank(ty: TensorType, ndim: int) -> TensorType:
    """The tensor type with an unknown shape of a rank (-1: unknown)."""
    return TensorType(None, ty.dtype, ndim, ty.vdevice)
