"""Binary elementwise operators with numpy broadcasting. Operands have one dtype; a literal adopts the tensor's.

Integer division and remainder by zero give 0, shifts by the width or more give 0 (or the sign), as in numpy: never a trap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import BOOL, DataType
from ...ir.expr import Call, FloatImm, IntImm
from ...ir.relation import tensor_type
from ...ir.types import Expr, PrimType, TensorType, Type
from ..common.gradients import elementwise_grad, mask_grad, reduce_to, zero_grad
from ..common.lowering import elementwise, let_value, let_values
from ..common.table import Operator, R, row
from ..common.type_rules import argument, broadcast_type, fail, same_dtype, with_dtype
from .unary import in_float32


def operand(call: Call, index: int, name: str) -> TensorType | None:
    """A tensor's type; a scalar counts as rank 0; None for a literal, which adopts the other's dtype. Raises E210."""
    arg = argument(call, index, name)
    if isinstance(arg.ty, TensorType):
        return arg.ty
    if isinstance(arg.ty, PrimType):
        return None if isinstance(arg, (IntImm, FloatImm)) else tensor_type((), arg.ty.dtype)
    raise fail(call, "E210", f"{name} must be a tensor or a scalar, got {arg.ty}", arg=arg)


def operands(call: Call, first: int = 0) -> list[TensorType]:
    """Types of both operands without literals; literals must fit the dtype. Raises E210, E211."""
    found = [operand(call, first, "x1"), operand(call, first + 1, "x2")]
    types = [t for t in found if t is not None]
    if not types:
        raise fail(call, "E210", "at least one operand must be a tensor", "write R.const(value, dtype)", first)
    for arg in call.args[first : first + 2]:
        dtype = types[0].dtype
        if type(arg) is FloatImm and dtype is not None and not dtype.is_float:
            raise fail(call, "E211", f"{arg.value} is not {dtype.name}", 'cast first: R.astype(x, "float32")', arg)
    return types


def _same_dtype_rule(fits: Callable[[DataType], bool], message: str, hint: str | None = None) -> Callable[[Call], Type]:
    """The type rule of operands of one data type that fits; ``message`` says of another, ``{}``, what is wrong."""

    def rule(call: Call) -> Type:
        types = operands(call)
        dtype = same_dtype(call, *types)
        if dtype is not None and not fits(dtype):
            raise fail(call, "E211", message.format(dtype.name), hint)
        return broadcast_type(call, types, dtype)

    return rule


_ordered = _same_dtype_rule(lambda dtype: True, "")
_arithmetic = _same_dtype_rule(
    lambda dtype: not dtype.is_bool, "bool tensors have no arithmetic", 'cast first: R.astype(x, "int32")'
)
power_type = _same_dtype_rule(
    lambda dtype: not dtype.is_bool, "bool tensors have no powers", 'cast first: R.astype(x, "int32")'
)
_bits = _same_dtype_rule(lambda dtype: not dtype.is_float, "expected integer or bool tensors, got {}")
_logical = _same_dtype_rule(
    lambda dtype: dtype.is_bool, "expected bool tensors, got {}", 'cast first: R.astype(x, "bool")'
)


def _floats(call: Call) -> Type:
    types = operands(call)
    dtype = same_dtype(call, *types)
    if dtype is not None and not dtype.is_float:
        hint = (
            "use R.floor_divide for integers" if call.op_name == R.divide.name else 'cast first: R.astype(x, "float32")'
        )
        raise fail(call, "E211", f"expected float tensors, got {dtype.name}", hint)
    return broadcast_type(call, types, dtype)


def _shift(call: Call) -> Type:
    ty = _bits(call)
    if isinstance(ty, TensorType) and ty.dtype is not None and ty.dtype.is_bool:
        raise fail(call, "E211", "expected integer tensors, got bool")
    return ty


def _compare(call: Call) -> Type:
    types = operands(call)
    same_dtype(call, *types)
    found = broadcast_type(call, types, BOOL)
    return with_dtype(found, BOOL)


def adopted(args: Sequence[Expr], inputs: Sequence[Any]) -> list[Any]:
    """Operands, literals as constants of the dtype of the others."""
    others = [x for arg, x in zip(args, inputs) if not isinstance(arg, (IntImm, FloatImm))]
    dtype = others[0].data_type if isinstance(others[0], te.Tensor) else others[0].dtype
    return [te.const(arg.value, dtype) if isinstance(arg, (IntImm, FloatImm)) else x for arg, x in zip(args, inputs)]


def lower_with_literals(fn: Callable[..., Any]) -> Callable[..., te.Tensor]:
    """Lowering of an operator whose literal operands adopt the dtype of its tensors."""
    return lambda call, *inputs: elementwise(call, fn, *adopted(call.args, inputs))


def _binary(
    name: str, rule: Callable[[Call], Type], ref: Any, fn: Callable[..., Any], doc: str, *torch: str, **fields: Any
) -> Operator:
    return row(
        name,
        ("x1", "x2"),
        rule,
        doc,
        ref=in_float32(ref),
        lower=lower_with_literals(fn),
        pointwise=True,
        scalars_from=0,
        torch=torch,
        **{"family": "binary", **fields},
    )


def _comparison(name: str, ref: Any, fn: Callable[..., Any], doc: str, torch: str) -> Operator:
    names = (f"{torch}.Tensor", f"{torch}.Scalar")
    return _binary(name, _compare, ref, fn, doc, *names, torch_operands="promoted", family="compare")


def _overloads(name: str) -> tuple[str, ...]:
    """The overloads of a torch function of a tensor and a tensor or number."""
    return f"{name}.Tensor", f"{name}.Scalar"


def _shifts(name: str, method: str) -> tuple[str, ...]:
    return *_overloads(method), *[f"{name}.{form}" for form in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]


def _int_divide(a: te.Value, b: te.Value, divide: Callable[..., te.Value]) -> te.Value:
    """Integer division or remainder that gives 0 of a division by 0, without a branch."""
    return let_value(divide(a, te.select(b == 0, 1, b)), lambda made: te.select(b == 0, 0, made))


def _signs_differ(rest: te.Value, b: te.Value) -> te.Value:
    """True if a remainder with the sign of the dividend has another sign than the divisor."""
    return te.all(rest != 0.0, (b < 0.0) ^ (rest < 0.0))


def _float_remainder(a: te.Value, b: te.Value) -> te.Value:
    """Python's remainder of floats, as numpy computes it."""
    zero = te.const(0.0, a.dtype)

    def adjust(rest: te.Value) -> te.Value:
        nothing = te.intrinsic("copysign", zero, b)
        return te.select(_signs_differ(rest, b), rest + b, te.select(rest == zero, nothing, rest))

    return let_value(te.intrinsic("fmod", a, b), adjust)


def _float_quotient(a: te.Value, b: te.Value) -> te.Value:
    """Python's floor division of floats, as numpy computes it."""
    zero = te.const(0.0, a.dtype)

    def exact(rest: te.Value) -> te.Value:
        return (a - rest) / b - te.select(_signs_differ(rest, b), 1.0, zero)

    def floored(values: Sequence[te.Value]) -> te.Value:
        quotient, ratio = values
        low = te.floor(quotient)
        low = te.select(quotient - low > 0.5, low + 1.0, low)
        return te.select(b == zero, ratio, te.select(quotient == zero, te.intrinsic("copysign", zero, ratio), low))

    return let_values([let_value(te.intrinsic("fmod", a, b), exact), a / b], floored)


def _floor_divide(a: te.Value, b: te.Value) -> te.Value:
    if a.dtype.is_float:
        return _float_quotient(a, b)
    return _int_divide(a, b, lambda x, y: x // y)


def _floor_mod(a: te.Value, b: te.Value) -> te.Value:
    if a.dtype.is_float:
        return _float_remainder(a, b)
    return _int_divide(a, b, lambda x, y: x % y)


def _mod(a: te.Value, b: te.Value) -> te.Value:
    if a.dtype.is_float:
        return te.intrinsic("fmod", a, b)
    return _int_divide(a, b, te.truncmod)


def _left_shift(a: te.Value, b: te.Value) -> te.Value:
    wrong = te.any(b < 0, b >= te.const(a.dtype.bits, b.dtype))
    return te.if_then_else(wrong, 0, a << b)


def _right_shift(a: te.Value, b: te.Value) -> te.Value:
    wrong = te.any(b < 0, b >= te.const(a.dtype.bits, b.dtype))
    rest = te.const(0, a.dtype)
    if not a.dtype.is_uint:
        rest = te.select(a < rest, -1, rest)
    return te.if_then_else(wrong, rest, a >> b)


def _log_add_exp(a: te.Value, b: te.Value) -> te.Value:
    high = te.maximum(a, b)
    return te.select(
        a == b,
        a + 0.6931471805599453,
        high + te.log1p(te.exp(0.0 - te.abs(a - b))),
    )


def _divide_backward(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    return R.divide(g, b), -R.divide(R.multiply(g, a), R.square(b))


def _atan2_backward(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    share = g / (R.square(a) + R.square(b))
    return R.multiply(share, b), -R.multiply(share, a)


def _log_add_exp_backward(g: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    total = R.log_add_exp(a, b)
    return g * R.exp(R.subtract(a, total)), g * R.exp(R.subtract(b, total))


# fmt: off
add = _binary("add", _arithmetic, np.add, lambda a, b: a + b, "Returns x1 + x2.", grad=elementwise_grad(lambda g, a, b: (g, g)),
              mixed_precision="follow")
subtract = _binary("subtract", _arithmetic, np.subtract, lambda a, b: a - b, "Returns x1 - x2.",
                   grad=elementwise_grad(lambda g, a, b: (g, -g)), mixed_precision="follow")
multiply = _binary("multiply", _arithmetic, np.multiply, lambda a, b: a * b, "Returns x1 * x2.",
                   grad=elementwise_grad(lambda g, a, b: (R.multiply(g, b), R.multiply(g, a))), mixed_precision="follow")
divide = _binary("divide", _floats, np.divide, lambda a, b: a / b, "Returns x1 / x2 of floats.",
                 grad=elementwise_grad(_divide_backward))
floor_divide = _binary("floor_divide", _arithmetic, np.floor_divide, _floor_divide,
                       "Returns floor(x1 / x2); integers divided by 0 give 0.", "floor_divide", "floor_divide.Scalar",
                       grad=zero_grad)
floor_mod = _binary("floor_mod", _arithmetic, np.remainder, _floor_mod,
                    "Returns the remainder of floor division, with the sign of x2; integers divided by 0 give 0.",
                    *_overloads("remainder"), "remainder.Scalar_Tensor",
                    grad=elementwise_grad(lambda g, a, b: (g, -(g * R.floor_divide(a, b)))))
mod = _binary("mod", _arithmetic, np.fmod, _mod,
              "Returns the remainder of division towards 0, with the sign of x1; integers divided by 0 give 0.",
              *_overloads("fmod"), grad=elementwise_grad(lambda g, a, b: (g, -(g * R.trunc(R.divide(a, b))))))
atan2 = _binary("atan2", _floats, np.arctan2, te.atan2,
                "Returns the angle of the point (x2, x1) in radians, from -pi to pi.", "atan2",
                grad=elementwise_grad(_atan2_backward))
maximum = _binary("maximum", _ordered, np.maximum, te.maximum, "Returns the larger operand; NaN if either is NaN.",
                  "maximum", "max.other",
                  grad=elementwise_grad(lambda g, a, b: (mask_grad(g, R.greater_equal(a, b)), mask_grad(g, R.greater(b, a)))),
                  mixed_precision="follow")
minimum = _binary("minimum", _ordered, np.minimum, te.minimum, "Returns the smaller operand; NaN if either is NaN.",
                  "minimum", "min.other",
                  grad=elementwise_grad(lambda g, a, b: (mask_grad(g, R.less_equal(a, b)), mask_grad(g, R.greater(a, b)))),
                  mixed_precision="follow")
log_add_exp = _binary("log_add_exp", _floats, np.logaddexp, _log_add_exp, "Returns log(exp(x1) + exp(x2)) without overflow.",
                      "logaddexp", grad=elementwise_grad(_log_add_exp_backward))
bitwise_and = _binary("bitwise_and", _bits, np.bitwise_and, lambda a, b: a & b, "Returns the bits that are set in both operands.",
                      *_overloads("bitwise_and"), *_overloads("__and__"))
bitwise_or = _binary("bitwise_or", _bits, np.bitwise_or, lambda a, b: a | b, "Returns the bits that are set in either operand.",
                     *_overloads("bitwise_or"), *_overloads("__or__"))
bitwise_xor = _binary("bitwise_xor", _bits, np.bitwise_xor, lambda a, b: a ^ b,
                      "Returns the bits that are set in exactly one operand.", *_overloads("bitwise_xor"), *_overloads("__xor__"))
left_shift = _binary("left_shift", _shift, np.left_shift, _left_shift,
                     "Shifts x1 left by x2 bits; 0 where x2 is negative or at least the width.",
                     *_shifts("bitwise_left_shift", "__lshift__"))
right_shift = _binary("right_shift", _shift, np.right_shift, _right_shift,
                      "Shifts x1 right by x2 bits, keeping the sign; 0 or -1 where x2 is negative or at least the width.",
                      *_shifts("bitwise_right_shift", "__rshift__"))
logical_and = _binary("logical_and", _logical, np.logical_and, lambda a, b: a & b, "Tests whether both operands are true.",
                      "logical_and")
logical_or = _binary("logical_or", _logical, np.logical_or, lambda a, b: a | b, "Tests whether either operand is true.",
                     "logical_or")
logical_xor = _binary("logical_xor", _logical, np.logical_xor, lambda a, b: a ^ b,
                      "Tests whether exactly one operand is true.", "logical_xor")
equal = _comparison("equal", np.equal, lambda a, b: a == b, "Tests x1 == x2.", "eq")
not_equal = _comparison("not_equal", np.not_equal, lambda a, b: a != b, "Tests x1 != x2.", "ne")
less = _comparison("less", np.less, lambda a, b: a < b, "Tests x1 < x2.", "lt")
less_equal = _comparison("less_equal", np.less_equal, lambda a, b: a <= b, "Tests x1 <= x2.", "le")
greater = _comparison("greater", np.greater, lambda a, b: a > b, "Tests x1 > x2.", "gt")
greater_equal = _comparison("greater_equal", np.greater_equal, lambda a, b: a >= b, "Tests x1 >= x2.", "ge")
# fmt: on


def _fma_type(call: Call) -> Type:
    types = [t for t in [operand(call, i, f"x{i + 1}") for i in range(3)] if t is not None]
    return broadcast_type(call, types, same_dtype(call, *types))


ewise_fma = row(
    "ewise_fma",
    ("x1", "x2", "x3: the term added, broadcast"),
    _fma_type,
    "Returns x1 * x2 + x3.",
    family="binary",
    scalars_from=0,
    ref=in_float32(lambda a, b, c: a * b + c),
    lower=lower_with_literals(lambda a, b, c: a * b + c),
    grad=elementwise_grad(lambda g, a, b, c: (R.multiply(g, b), R.multiply(g, a), g)),
    pointwise=True,
)


def _where_type(call: Call) -> Type:
    cond = operand(call, 0, "condition")
    if cond is None or (cond.dtype is not None and not cond.dtype.is_bool):
        raise fail(
            call,
            "E211",
            f"the condition must be a bool tensor, got {call.args[0].ty}",
            'cast first: R.astype(x, "bool")',
            0,
        )
    sides = operands(call, 1)
    return broadcast_type(call, [cond, *sides], same_dtype(call, *sides))


def _where(call: Call, cond: Any, a: Any, b: Any) -> te.Tensor:
    return elementwise(call, te.if_then_else, cond, *adopted(call.args[1:], (a, b)))


def _where_grad(call: Call, g: Expr) -> list[Any]:
    cond, a, b = call.args
    return [None, reduce_to(call, R.where(cond, g, 0.0), a), reduce_to(call, R.where(cond, 0.0, g), b)]


where = row(
    "where",
    ("condition: bool, broadcast", "x1", "x2"),
    _where_type,
    "Selects x1 where the condition is true, else x2.",
    family="binary",
    ref=np.where,
    lower=_where,
    grad=_where_grad,
    pointwise=True,
    scalars_from=1,
    samples="b[3,1], f32[3,4], f32[4]; b[3], f32[3], 0.5; b[3], f16[3], f16[3]",
)
