"""Intrinsics that each lane computes by itself: mathematics, bits, addresses, atomics, calls of C functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ...build import dtype_of
from ...expr import Call, StringImm
from ...intrinsic import UNARY_MATH
from ...scalar import BufferLoad
from ...types import PointerType, PrimType
from ..scalar.intrinsics import short_name
from ..scalar.machine import lanes_of
from ..scalar.math_functions import fma
from .access import Closure, array_of
from .expressions import INTRINSICS, ExprCompiler, two_dimensional
from .lanes import Mask, Value
from .memory import Address
from .numbers import BINARY, UNARY, bits, caster, from_bits, libm, rounded

Maker = Callable[[ExprCompiler, Call], Closure]


def register(*names: str) -> Callable[[Maker], Maker]:
    """Give intrinsics their meaning."""

    def add(make: Maker) -> Maker:
        for name in names:
            INTRINSICS[f"T.{name}"] = make
        return make

    return add


def apply(compiler: ExprCompiler, call: Call, function: Callable[..., Value], dtype: DataType) -> Closure:
    """A function of doubles, lane by lane, rounded to ``dtype``."""
    args = [compiler.visit(a) for a in call.args]
    wide = max([lanes_of(dtype_of(a)) for a in call.args]) > 1

    def run(mask: Mask) -> Value:
        values = [np.asarray(a(mask)).astype(np.float64) for a in args]
        if wide:
            values = [two_dimensional(v) for v in values]
        return rounded(np.asarray(function(*values))[()], dtype)

    return run


@register(*UNARY_MATH.split())
def _unary(compiler: ExprCompiler, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    if dtype.is_float:
        return apply(compiler, call, UNARY[name], dtype)
    value = compiler.visit(call.args[0])
    if name == "abs":
        return lambda mask: np.abs(value(mask))
    if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return value
    raise InterpreterError("E369", f"T.{name} is not defined on {dtype.name}", call.span)


@register("pow", "atan2", "fmod", "hypot", "copysign")
def _binary(compiler: ExprCompiler, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    if dtype.is_float:
        return apply(compiler, call, BINARY[name], dtype)
    if name != "pow":
        raise InterpreterError("E369", f"T.{name} is not defined on {dtype.name}", call.span)
    a, b = [compiler.visit(x) for x in call.args]

    def power(mask: Mask) -> Value:
        x, y = a(mask), b(mask)
        negative = mask.lanes & (np.asarray(y) < 0) if np.ndim(y) < 2 else mask.lanes & (y < 0).any(axis=1)
        if negative.any():
            raise compiler.wave.failure("E313", "negative power of an integer", call.span, int(negative.argmax()))
        return np.power(x, np.abs(y))

    return power


@register("nextafter")
def _nextafter(compiler: ExprCompiler, call: Call) -> Closure:
    a, b = [compiler.visit(x) for x in call.args]
    return lambda mask: np.nextafter(a(mask), b(mask))


@register("ldexp")
def _ldexp(compiler: ExprCompiler, call: Call) -> Closure:
    return apply(compiler, call, lambda x, y: np.ldexp(x, y.astype(np.int64)), dtype_of(call.args[0]))


@register("fma")
def _fma(compiler: ExprCompiler, call: Call) -> Closure:
    dtype = dtype_of(call.args[0])
    if dtype.is_float:
        exact = np.frompyfunc(fma, 3, 1)
        once = dtype.bits < 64  # the product of two shorter numbers is exact in double
        return apply(
            compiler, call, lambda x, y, z: x * y + z if once else np.asarray(exact(x, y, z), np.float64), dtype
        )
    a, b, c = [compiler.visit(x) for x in call.args]
    return lambda mask: a(mask) * b(mask) + c(mask)


@register("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
def _logic(compiler: ExprCompiler, call: Call) -> Closure:
    table: dict[str, Callable[..., Value]] = {
        "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert,
    }  # fmt: skip
    function, args = table[short_name(call)], [compiler.visit(a) for a in call.args]
    return lambda mask: function(*[a(mask) for a in args])


@register("shift_left", "shift_right")
def _shift(compiler: ExprCompiler, call: Call) -> Closure:
    function = np.left_shift if short_name(call) == "shift_left" else np.right_shift
    a, b = [compiler.visit(x) for x in call.args]
    dtype = dtype_of(call.args[0])

    def run(mask: Mask) -> Value:
        x, y = a(mask), b(mask)
        wrong = (np.asarray(y) < 0) | (np.asarray(y) >= dtype.bits)
        if wrong.any():
            lanes = mask.lanes & (wrong.any(axis=1) if wrong.ndim == 2 else wrong)
            if lanes.any():
                raise compiler.wave.failure(
                    "E313", f"shift of {dtype.name} out of range", call.span, int(lanes.argmax())
                )
            y = np.where(wrong, 0, y).astype(dtype.numpy)
        return function(x, y)

    return run


@register("popcount", "clz")
def _count_bits(compiler: ExprCompiler, call: Call) -> Closure:
    value, dtype = compiler.visit(call.args[0]), dtype_of(call.args[0])
    if short_name(call) == "popcount":
        return lambda mask: np.bitwise_count(bits(value(mask), dtype)).astype(dtype.numpy)[()]

    def leading(mask: Mask) -> Value:
        pattern = np.asarray(bits(value(mask), dtype)).astype(np.uint64)
        found = np.full(pattern.shape, dtype.bits, np.int64)
        for k in range(dtype.bits):
            found = np.where(pattern >> np.uint64(k) & np.uint64(1), dtype.bits - 1 - k, found)
        return found.astype(dtype.numpy)[()]

    return leading


@register("dp4a")
def _dp4a(compiler: ExprCompiler, call: Call) -> Closure:
    a, b, c = [compiler.visit(x) for x in call.args]
    assert isinstance(call.ty, PrimType)
    target = call.ty.dtype.numpy
    kinds = [np.uint8 if dtype_of(x).is_uint else np.int8 for x in call.args[:2]]

    def four(value: Value, kind: type) -> Value:
        array = np.asarray(value)
        if array.ndim == 2:
            return array.astype(np.int64)
        return np.ascontiguousarray(array.reshape(-1)).view(kind).reshape(-1, 4).astype(np.int64)

    def run(mask: Mask) -> Value:
        product = (four(a(mask), kinds[0]) * four(b(mask), kinds[1])).sum(axis=1)
        return (np.asarray(c(mask)) + product).astype(target)

    return run


@register("reinterpret")
def _reinterpret(compiler: ExprCompiler, call: Call) -> Closure:
    value, source = compiler.visit(call.args[0]), dtype_of(call.args[0])
    if not isinstance(call.ty, PrimType) or "handle" in (call.ty.dtype.code, source.code):
        return value
    target = call.ty.dtype
    if lanes_of(source) == 1 and lanes_of(target) == 1:
        return lambda mask: from_bits(bits(value(mask), source), target)

    def run(mask: Mask) -> Value:
        array = np.asarray(value(mask))
        rows = np.ascontiguousarray(array if array.ndim == 2 else array.reshape(-1, 1))
        found = rows.view(target.numpy)
        return found if lanes_of(target) > 1 else found[:, 0]

    return run


@register("isnan", "isinf", "isfinite")
def _classify(compiler: ExprCompiler, call: Call) -> Closure:
    function = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[short_name(call)]
    value = compiler.visit(call.args[0])
    return lambda mask: function(value(mask))


@register("likely")
def _likely(compiler: ExprCompiler, call: Call) -> Closure:
    return compiler.visit(call.args[0])


@register("if_then_else")
def _if_then_else(compiler: ExprCompiler, call: Call) -> Closure:
    cond, yes, no = [compiler.visit(a) for a in call.args]
    if lanes_of(dtype_of(call.args[0])) > 1:
        return lambda mask: np.where(cond(mask), yes(mask), no(mask))
    return compiler.lazily(cond, yes, no, lanes_of(dtype_of(call.args[1])) > 1)


@register("assume")
def _assume(compiler: ExprCompiler, call: Call) -> Closure:
    cond = compiler.visit(call.args[0])

    def run(mask: Mask) -> Value:
        wrong = mask.lanes & ~np.asarray(cond(mask), np.bool_)
        if wrong.any():
            text = "an assumption (T.assume) does not hold"
            raise compiler.wave.failure("E314", text, call.span, int(wrong.argmax()))
        return np.True_

    return run


@register("undef", "type_annotation", "prefetch", "start_profile_intrinsic", "end_profile_intrinsic")
def _nothing(compiler: ExprCompiler, call: Call) -> Closure:
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    numpy_type = dtype.numpy if dtype.code not in ("void", "handle") else np.dtype(np.uint64)
    value = np.zeros((1, dtype.lanes), numpy_type) if dtype.lanes > 1 else np.zeros((), numpy_type)[()]
    return lambda mask: value


@register("vectorlow", "vectorhigh")
def _half(compiler: ExprCompiler, call: Call) -> Closure:
    value, half = compiler.visit(call.args[0]), lanes_of(dtype_of(call.args[0])) // 2
    pick = slice(0, half) if short_name(call) == "vectorlow" else slice(half, None)
    return lambda mask: value(mask)[:, pick] if half > 1 else value(mask)[:, pick][:, 0]


@register("vectorcombine")
def _combine(compiler: ExprCompiler, call: Call) -> Closure:
    a, b = [compiler.visit(x) for x in call.args]

    def run(mask: Mask) -> Value:
        rows = [np.asarray(v) if np.ndim(v) == 2 else np.asarray(v).reshape(-1, 1) for v in (a(mask), b(mask))]
        size = max([len(r) for r in rows])
        return np.concatenate([np.broadcast_to(r, (size, r.shape[1])) for r in rows], axis=1)

    return run


# ---- addresses


@register("address_of")
def _address_of(compiler: ExprCompiler, call: Call) -> Closure:
    load = call.args[0]
    if type(load) is not BufferLoad:
        raise InterpreterError("E369", "T.address_of takes a buffer element", call.span)
    indices = [compiler.index(i) for i in load.indices]
    buffer, wave = load.buffer, compiler.wave

    def run(mask: Mask) -> Address:
        array = array_of(wave, buffer, call.span)
        offset = array.base
        for index, stride in zip(indices, array.strides):
            offset = offset + index(mask) * stride
        return Address(array.storage, array.start + offset * array.dtype.itemsize)

    return run


@register("tvm_access_ptr")
def _access_ptr(compiler: ExprCompiler, call: Call) -> Closure:
    ty = call.args[0].ty
    size = ty.dtype.itemsize if isinstance(ty, PrimType) else 1
    data, offset = compiler.address(call.args[1], call), compiler.index(call.args[2])
    return lambda mask: data(mask).moved(offset(mask) * size)


@register("handle_add_byte_offset", "ptr_byte_offset")
def _byte_offset(compiler: ExprCompiler, call: Call) -> Closure:
    data, offset = compiler.address(call.args[0], call), compiler.index(call.args[1])
    return lambda mask: data(mask).moved(offset(mask))


@register("atomic_add")
def _atomic_add(compiler: ExprCompiler, call: Call) -> Closure:
    address, value = compiler.address(call.args[0], call), compiler.visit(call.args[1])
    ty, dtype = call.args[0].ty, dtype_of(call.args[1])
    if isinstance(ty, PointerType) and isinstance(ty.element, PrimType):
        dtype = ty.element.dtype
    wave = compiler.wave
    load = call.args[0].args[0] if type(call.args[0]) is Call and type(call.args[0].args[0]) is BufferLoad else None
    name, scope = (load.buffer.name, load.buffer.scope) if load is not None else ("pointer", "global")
    site = wave.log.site(name, "atomic", scope, call.span, atomic=True)
    size = dtype.itemsize

    def run(mask: Mask) -> Value:
        target: Address = address(mask)
        storage = target.storage
        if load is not None:
            wave.array = array_of(wave, load.buffer, call.span)
        offsets = np.broadcast_to(np.asarray(target.offset, np.int64), wave.batch.size)
        wrong = mask.lanes & ((offsets < 0) | (offsets + size > storage.limit))
        if wrong.any():
            raise wave.failure("E310", "atomic access outside the memory", call.span, int(wrong.argmax()))
        wave.count(site, storage, offsets, mask, size)
        lanes = mask.index
        places = storage.places(offsets[lanes], size, lanes)
        added = np.broadcast_to(np.asarray(value(mask)), wave.batch.size)[lanes]
        before = wave.accesses.load(storage, offsets[lanes], lanes, dtype, site)
        order = np.argsort(places, kind="stable")
        cells = storage.typed(dtype)
        old = before.copy()
        if np.unique(places).size == places.size:
            cells[places] = before + added
        else:  # one lane after the other, in order of the lanes
            for k in order.tolist():
                old[k] = cells[places[k]]
                cells[places[k]] = old[k] + added[k]
        found = np.zeros(wave.batch.size, dtype.numpy)
        found[lanes] = old
        return found

    return run


# ---- calls


@register("call_extern", "call_pure_extern")
def _call_extern(compiler: ExprCompiler, call: Call) -> Closure:
    name = call.args[0].value if type(call.args[0]) is StringImm else ""
    function = libm(name)
    if function is None or not isinstance(call.ty, PrimType):
        text = f"the thread-level checker knows no device function {name!r}"
        raise InterpreterError("E369", text, call.span)
    scalars = Call(call.op, call.args[1:], call.attrs, call.ty_args, call.ty, call.span)
    target = call.ty.dtype
    if target.is_float:
        return apply(compiler, scalars, function, target)
    convert = caster(DataType("float64"), target)
    inner = apply(compiler, scalars, function, DataType("float64"))
    return lambda mask: convert(inner(mask))
