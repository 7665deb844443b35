"""Intrinsics that each lane computes by itself: mathematics, bits, vectors, addresses, C functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ...build import dtype_of
from ...expr import Call, StringImm
from ...intrinsic import UNARY_MATH
from ...types import Expr, PrimType
from . import arrays, numbers
from .arrays import BINARY, UNARY, Function, Value, fma, libm
from .expressions import VSCALE, Closure, Env, ExprCompiler, lanes_of, two_dimensional

Maker = Callable[[Any, Call], Closure]


class Intrinsics(dict[str, Maker]):
    """Meaning of intrinsics by name."""

    def register(self, *names: str) -> Callable[[Maker], Maker]:
        """Give intrinsics their meaning."""

        def add(make: Maker) -> Maker:
            self.update({f"T.{name}": make for name in names})
            return make

        return add


SHARED = Intrinsics()
"""Intrinsics that mean the same for one thread and for many."""
register = SHARED.register


def short_name(call: Call) -> str:
    """Name without the prefix."""
    return str(getattr(call.op, "name", ""))[2:]


def apply(c: ExprCompiler, args: tuple[Expr, ...], function: Function, dtype: DataType) -> Closure:
    """A function of doubles, element by element, rounded (or converted) to ``dtype``."""
    closures = [c.visit(a) for a in args]
    kind: Any = arrays if c.has_rows(*args) else numbers
    fit = kind.fits(dtype) if dtype.is_float else kind.caster(DataType("float64"), dtype)
    if kind is numbers:
        if len(closures) == 1:
            only = closures[0]
            return lambda env: fit(function(only(env)))
        return lambda env: fit(function(*[x(env) for x in closures]))
    wide = any([lanes_of(dtype_of(a)) > 1 for a in args])

    def run(env: Env) -> Value:
        values = [arrays.widened(x(env)) for x in closures]
        return fit(np.asarray(function(*[two_dimensional(v) for v in values] if wide else values))[()])

    return run


def exactly(c: ExprCompiler, call: Call, function: Callable[..., Any]) -> Closure:
    """A function of Python numbers, element by element, wrapped or rounded to the type of the first argument."""
    args, dtype = [c.visit(a) for a in call.args], dtype_of(call.args[0])
    fit = numbers.fits(dtype)
    if not c.has_rows(*call.args):
        return lambda env: fit(function(*[a(env) for a in args]))
    each = np.frompyfunc(lambda *values: fit(function(*values)), len(args), 1)
    kind = arrays.holder(dtype)
    return lambda env: np.asarray(each(*[np.asarray(a(env)).astype(object) for a in args])).astype(kind)[()]


def lifted(c: ExprCompiler, call: Call, function: Function) -> Closure:
    """A function of numpy values."""
    args, target = [c.visit(a) for a in call.args], dtype_of(call)
    if c.has_rows(*call.args):
        return lambda env: function(*[a(env) for a in args])
    sources = [dtype_of(a) for a in call.args]
    return lambda env: numbers.number(function(*[arrays.typed(a(env), s) for a, s in zip(args, sources)]), target)


@register(*UNARY_MATH)
def _unary(c: ExprCompiler, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    if dtype.is_float:
        return apply(c, call.args, UNARY[name], dtype)
    if name == "abs":
        fit, value = (arrays if c.has_rows(call) else numbers).fits(dtype), c.visit(call.args[0])
        return lambda env: fit(abs(value(env)))
    if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return c.visit(call.args[0])
    raise c.undefined(f"T.{name} is not defined on {dtype.name}", call)


@register("ptx_ex2")
def _ex2(c: ExprCompiler, call: Call) -> Closure:
    if dtype_of(call.args[0]).element.name != "float32":
        raise c.undefined(f"T.ptx_ex2 is not defined on {dtype_of(call.args[0]).name}", call)
    return apply(c, call.args, UNARY["exp2"], dtype_of(call.args[0]))


@register(*BINARY)
def _binary(c: ExprCompiler, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    if dtype.is_float:
        return apply(c, call.args, BINARY[name], dtype)
    if name != "pow":
        raise c.undefined(f"T.{name} is not defined on {dtype.name}", call)
    a, b = [c.visit(x) for x in call.args]
    fit = (arrays if c.has_rows(*call.args) else numbers).fits(dtype)

    def power(env: Env) -> Value:
        x, y = a(env), b(env)
        c.refuse(y < 0, env, "E313", "negative power of an integer", call.span)
        return fit(x ** abs(y))

    return power


@register("fma")
def _fma(c: ExprCompiler, call: Call) -> Closure:
    dtype = dtype_of(call.args[0])
    if dtype.is_float and dtype.bits < 64:  # the product of two shorter numbers is exact in double
        return apply(c, call.args, lambda x, y, z: x * y + z, dtype)
    return exactly(c, call, fma if dtype.is_float else lambda x, y, z: x * y + z)


@register("bitwise_and", "bitwise_or", "bitwise_xor")
def _logic(c: ExprCompiler, call: Call) -> Closure:
    name = {"bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor"}[short_name(call)]
    function, (a, b) = getattr(operator, name), [c.visit(x) for x in call.args]
    return lambda env: function(a(env), b(env))


@register("bitwise_not")
def _invert(c: ExprCompiler, call: Call) -> Closure:
    value, dtype = c.visit(call.args[0]), dtype_of(call.args[0])
    fit = (arrays if c.has_rows(call) else numbers).fits(dtype)
    if dtype.is_bool:
        return lambda env: np.logical_not(value(env))
    return lambda env: fit(~value(env))


@register("shift_left", "shift_right")
def _shift(c: ExprCompiler, call: Call) -> Closure:
    left = short_name(call) == "shift_left"
    (a, b), dtype = [c.visit(x) for x in call.args], dtype_of(call.args[0])
    fit = (arrays if c.has_rows(*call.args) else numbers).fits(dtype)
    bits, text = 1 if dtype.is_bool else dtype.bits, f"shift of {dtype.name} out of range"

    def run(env: Env) -> Value:
        x, y = a(env), b(env)
        wrong = (y < 0) | (y >= bits)
        if wrong is not False:
            y = c.replace_invalid(wrong, y, env, text, call.span)
        return fit(x << y if left else x >> y)

    return run


@register("dp4a")
def _dp4a(c: ExprCompiler, call: Call) -> Closure:
    a, b, addend = [c.rows(x) for x in call.args]
    types = [dtype_of(x) for x in call.args[:2]]
    bytes_of = [t if t.lanes == 4 else DataType("uint8" if t.is_uint else "int8") for t in types]
    target = dtype_of(call)

    def four(value: Value, k: int) -> np.ndarray:
        rows = value if types[k].lanes == 4 else arrays.reinterpreted(value, types[k], bytes_of[k])
        return rows.astype(np.int64)

    def run(env: Env) -> Value:
        product = (four(a(env), 0) * four(b(env), 1)).sum(axis=1, keepdims=True)
        return c.column((addend(env) + product).astype(target.numpy), target)

    return run


def _scaled_product(x: int, y: int, left: int, total: int) -> int:
    """``round(x * y * 2**(left - total))`` with halves upwards."""
    product = (x << left) * y
    return (product + (1 << (total - 1))) >> total if total > 0 else product


def fixed_point_multiply(x: int, y: int, q: int, shift: int) -> int:
    """``round(x * y * 2**(shift - q))`` with halves upwards: the shift is to the left when positive."""
    return _scaled_product(x, y, max(shift, 0), q + max(-shift, 0))


def _multiply_shifts(x: int, y: int, left: int, right: int, q: int, has_left: int, has_right: int = 1) -> int:
    return _scaled_product(x, y, left if has_left else 0, q + (right if has_right else 0))


@register("reinterpret")
def _reinterpret(c: ExprCompiler, call: Call) -> Closure:
    source = dtype_of(call.args[0])
    if not isinstance(call.ty, PrimType) or "handle" in (call.ty.dtype.code, source.code):
        value = c.visit(call.args[0])
        return value if source.code == "handle" else lambda env: value(env) or None
    rows, target = c.rows(call.args[0]), call.ty.dtype
    if lanes_of(target) > 1:
        return lambda env: arrays.reinterpreted(rows(env), source, target)
    return lambda env: c.column(arrays.reinterpreted(rows(env), source, target), target)


def of_value(function: Function) -> Maker:
    """The meaning of an intrinsic by a function of one value, whatever its type."""

    def make(c: ExprCompiler, call: Call) -> Closure:
        value = c.visit(call.args[0])
        return lambda env: function(value(env))

    return make


@register("if_then_else")
def _if_then_else(c: ExprCompiler, call: Call) -> Closure:
    cond, yes, no = [c.visit(a) for a in call.args]
    if lanes_of(dtype_of(call.args[0])) > 1:
        return lambda env: np.where(cond(env), yes(env), no(env))
    return c.choose(cond, yes, no, lanes_of(dtype_of(call.args[1])) > 1)


@register("assume")
def _assume(c: ExprCompiler, call: Call) -> Closure:
    cond = c.visit(call.args[0])

    def run(env: Env) -> Value:
        c.refuse(np.logical_not(cond(env)), env, "E314", "an assumption (T.assume) does not hold", call.span)
        return np.True_

    return run


@register("undef", "type_annotation", "prefetch", "start_profile_intrinsic", "end_profile_intrinsic")
def _nothing(c: ExprCompiler, call: Call) -> Closure:
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    zero: Value = np.zeros((1, lanes_of(dtype)), arrays.holder(dtype))
    if lanes_of(dtype) == 1:
        zero = zero[0, 0] if c.batched else numbers.number(zero[0, 0], dtype)
    return lambda env: zero


@register("vectorlow", "vectorhigh")
def _half(c: ExprCompiler, call: Call) -> Closure:
    value, half = c.visit(call.args[0]), lanes_of(dtype_of(call.args[0])) // 2
    pick = slice(0, half) if short_name(call) == "vectorlow" else slice(half, None)
    dtype = dtype_of(call)
    return lambda env: value(env)[:, pick] if half > 1 else c.column(value(env)[:, pick], dtype)


@register("get_active_lane_mask")
def _active_lanes(c: ExprCompiler, call: Call) -> Closure:
    base, limit = [c.rows(a) for a in call.args]
    lanes = np.arange(lanes_of(dtype_of(call)), dtype=np.int64)
    return lambda env: base(env) + lanes < limit(env)


# ---- addresses and calls


@register("tvm_access_ptr")
def _access_ptr(c: ExprCompiler, call: Call) -> Closure:
    ty = call.args[0].ty
    size = ty.dtype.itemsize if isinstance(ty, PrimType) else 1
    data, offset = c.address(call.args[1], call), c.index(call.args[2])
    return lambda env: data(env).offset_by(offset(env) * size)


@register("handle_add_byte_offset", "ptr_byte_offset")
def _byte_offset(c: ExprCompiler, call: Call) -> Closure:
    data, offset = c.address(call.args[0], call), c.index(call.args[1])
    return lambda env: data(env).offset_by(offset(env))


@register("call_extern", "call_pure_extern")
def _call_extern(c: ExprCompiler, call: Call) -> Closure:
    name = call.args[0].value if type(call.args[0]) is StringImm else ""
    function = libm(name)
    if function is None or not isinstance(call.ty, PrimType):
        return c.foreign(name, call)
    return apply(c, call.args[1:], function, call.ty.dtype)


SHARED.update({
    "T.nextafter": lambda c, call: lifted(c, call, np.nextafter),
    "T.ldexp": lambda c, call: apply(c, call.args, lambda x, y: np.ldexp(x, np.asarray(y, np.int64)), dtype_of(call.args[0])),
    "T.popcount": lambda c, call: lifted(c, call, lambda value: arrays.set_bits(value, dtype_of(call.args[0]))),
    "T.clz": lambda c, call: lifted(c, call, lambda value: arrays.leading_zeros(value, dtype_of(call.args[0]))),
    "T.q_multiply_shift": lambda c, call: exactly(c, call, fixed_point_multiply),
    "T.q_multiply_shift_per_axis": lambda c, call: exactly(c, call, _multiply_shifts),
    "T.isnan": of_value(np.isnan), "T.isinf": of_value(np.isinf), "T.isfinite": of_value(np.isfinite),
    **dict.fromkeys(("T.likely", "T.tvm_thread_invariant"), lambda c, call: c.visit(call.args[0])),
    "T.vscale": lambda c, call: lambda env: VSCALE,
    "T.vectorcombine": lambda c, call: c.side_by_side(call.args),
})  # fmt: skip
