"""Meaning of the tensor-level intrinsics: ``INTRINSIC_CLOSURES[name](compiler, call)`` gives a closure.

Intrinsics that need several threads at once (shuffles, fragments, asynchronous copies) have no entry: calling one is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....ffi.registry import get_global_func
from ....ffi.tensor import Tensor
from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, StringImm, Var
from ...intrinsic import UNARY_MATH
from ...scalar import BufferLoad
from ...types import Expr, PointerType, PrimType
from .checks import READ
from .machine import VSCALE, lanes_of
from .math_functions import BINARY, UNARY, fma, libm
from .memory import Memory, Pointer, View
from .numbers import bits_of, caster, fits, from_bits, wrapper

Closure = Callable[[dict[Any, Any]], Any]
INTRINSIC_CLOSURES: dict[str, Callable[[Any, Call], Closure]] = {}


def _register(*names: str) -> Callable[[Callable[[Any, Call], Closure]], Callable[[Any, Call], Closure]]:
    def add(make: Callable[[Any, Call], Closure]) -> Callable[[Any, Call], Closure]:
        for name in names:
            INTRINSIC_CLOSURES[f"T.{name}"] = make
        return make

    return add


def short_name(call: Call) -> str:
    """Name without the prefix."""
    return str(getattr(call.op, "name", ""))[2:]


def per_lane(call: Call, args: list[Closure], function: Callable[..., Any]) -> Closure:
    """Apply a function to corresponding lanes of the arguments (scalars are repeated)."""
    widths = [lanes_of(dtype_of(a)) for a in call.args]
    lanes = max(widths)
    if lanes == 1:
        if len(args) == 1:
            only = args[0]
            return lambda env: function(only(env))
        if len(args) == 2:
            first, second = args
            return lambda env: function(first(env), second(env))
        return lambda env: function(*[a(env) for a in args])

    def run(env: dict[Any, Any]) -> Any:
        columns = [a(env) if w > 1 else (a(env),) * lanes for a, w in zip(args, widths)]
        return tuple([function(*[c[k] for c in columns]) for k in range(lanes)])

    return run


@_register(*UNARY_MATH.split())
def _unary(compiler: Any, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    fit = fits(dtype)
    if not dtype.is_float:
        if name == "abs":
            return per_lane(call, [compiler.visit(call.args[0])], lambda x: fit(abs(x)))
        if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
            return per_lane(call, [compiler.visit(call.args[0])], lambda x: x)
        raise InterpreterError("E318", f"T.{name} is not defined on {dtype.name}", call.span)
    function = UNARY[name]

    def apply(x: float) -> float:
        return fit(function(x)) if x == x else x

    return per_lane(call, [compiler.visit(call.args[0])], apply)


@_register(*BINARY)
def _binary(compiler: Any, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    fit = fits(dtype)
    args = [compiler.visit(a) for a in call.args]
    if not dtype.is_float:
        if name != "pow":
            raise InterpreterError("E318", f"T.{name} is not defined on {dtype.name}", call.span)

        def power(x: int, y: int) -> Any:
            if y < 0:
                raise InterpreterError("E313", "negative power of an integer", call.span)
            return fit(x**y)

        return per_lane(call, args, power)
    function = BINARY[name]
    return per_lane(call, args, lambda x, y: fit(function(x, y)))


@_register("nextafter")
def _nextafter(compiler: Any, call: Call) -> Closure:
    numpy_type = dtype_of(call.args[0]).numpy
    args = [compiler.visit(a) for a in call.args]
    return per_lane(call, args, lambda x, y: float(np.nextafter(numpy_type.type(x), numpy_type.type(y))))


@_register("ldexp")
def _ldexp(compiler: Any, call: Call) -> Closure:
    fit = fits(dtype_of(call.args[0]))
    return per_lane(call, [compiler.visit(a) for a in call.args], lambda x, y: fit(float(np.ldexp(x, int(y)))))


@_register("fma")
def _fma(compiler: Any, call: Call) -> Closure:
    dtype = dtype_of(call.args[0])
    fit = fits(dtype)
    function = fma if dtype.is_float else lambda x, y, z: x * y + z
    return per_lane(call, [compiler.visit(a) for a in call.args], lambda x, y, z: fit(function(x, y, z)))


@_register("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "bitwise_not", "popcount", "clz")
def _bits(compiler: Any, call: Call) -> Closure:
    name, dtype = short_name(call), dtype_of(call.args[0])
    fit = bool if dtype.is_bool else wrapper(dtype)
    bits = 1 if dtype.is_bool else dtype.bits
    mask = (1 << bits) - 1

    def amount(y: int) -> int:
        if not 0 <= y < bits:
            raise InterpreterError("E313", f"shift of {dtype.name} by {y}", call.span)
        return y

    functions: dict[str, Callable[..., Any]] = {
        "bitwise_and": lambda x, y: x & y, "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y,
        "shift_left": lambda x, y: fit(x << amount(y)), "shift_right": lambda x, y: x >> amount(y),
        "bitwise_not": (lambda x: not x) if dtype.is_bool else (lambda x: fit(~x)),
        "popcount": lambda x: (int(x) & mask).bit_count(), "clz": lambda x: bits - (int(x) & mask).bit_length(),
    }  # fmt: skip
    return per_lane(call, [compiler.visit(a) for a in call.args], functions[name])


@_register("dp4a")
def _dp4a(compiler: Any, call: Call) -> Closure:
    a, b, c = [compiler.visit(x) for x in call.args]
    fit = fits(call.ty.dtype)  # type: ignore[attr-defined]
    unpack = []
    for arg in call.args[:2]:
        dtype = dtype_of(arg)
        unpack.append(None if dtype.lanes == 4 else DataType("uint8" if dtype.is_uint else "int8"))

    def four(value: Any, kind: DataType | None) -> Any:
        return value if kind is None else [from_bits(value >> (8 * k), kind) for k in range(4)]

    def run(env: dict[Any, Any]) -> Any:
        left, right = four(a(env), unpack[0]), four(b(env), unpack[1])
        return fit(c(env) + sum([x * y for x, y in zip(left, right)]))

    return run


def fixed_point_multiply(x: int, y: int, q: int, shift: int) -> int:
    """``round(x * y * 2**(shift - q))`` with halves upwards: the shift is to the left when positive."""
    left, right = max(shift, 0), max(-shift, 0)
    total = q + right
    product = (x << left) * y
    return (product + (1 << (total - 1))) >> total if total > 0 else product


@_register("q_multiply_shift")
def _q_multiply_shift(compiler: Any, call: Call) -> Closure:
    fit = fits(dtype_of(call.args[0]))
    return per_lane(
        call, [compiler.visit(a) for a in call.args], lambda x, y, q, s: fit(fixed_point_multiply(x, y, q, s))
    )


@_register("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(compiler: Any, call: Call) -> Closure:
    fit = fits(dtype_of(call.args[0]))

    def function(x: int, y: int, left: int, right: int, q: int, has_left: int, has_right: int = 1) -> Any:
        total = q + (right if has_right else 0)
        product = (x << (left if has_left else 0)) * y
        return fit((product + (1 << (total - 1))) >> total)

    return per_lane(call, [compiler.visit(a) for a in call.args], function)


@_register("reinterpret")
def _reinterpret(compiler: Any, call: Call) -> Closure:
    value, source = compiler.visit(call.args[0]), dtype_of(call.args[0])
    if not isinstance(call.ty, PrimType) or call.ty.dtype.code == "handle":
        return lambda env: value(env) or None
    target = call.ty.dtype
    if source.code == "handle":
        return value  # type: ignore[no-any-return]
    count = lanes_of(target)

    def run(env: dict[Any, Any]) -> Any:
        lanes = value(env)
        whole = 0
        for k, lane in enumerate(lanes if lanes_of(source) > 1 else (lanes,)):
            whole |= bits_of(lane, source) << (k * source.bits)
        result = [from_bits(whole >> (k * target.bits), target) for k in range(count)]
        return tuple(result) if count > 1 else result[0]

    return run


@_register("isnan", "isinf", "isfinite")
def _classify(compiler: Any, call: Call) -> Closure:
    function = {"isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite}[short_name(call)]
    return per_lane(call, [compiler.visit(call.args[0])], function)


@_register("isnullptr")
def _isnullptr(compiler: Any, call: Call) -> Closure:
    value = compiler.visit(call.args[0])
    return lambda env: value(env) is None


@_register("likely", "tvm_thread_invariant")
def _likely(compiler: Any, call: Call) -> Closure:
    return compiler.visit(call.args[0])  # type: ignore[no-any-return]


@_register("if_then_else")
def _if_then_else(compiler: Any, call: Call) -> Closure:
    cond, yes, no = [compiler.visit(a) for a in call.args]
    if lanes_of(dtype_of(call.args[0])) > 1:
        return lambda env: tuple([p if c else q for c, p, q in zip(cond(env), yes(env), no(env))])
    return lambda env: yes(env) if cond(env) else no(env)


@_register("assume")
def _assume(compiler: Any, call: Call) -> Closure:
    cond = compiler.visit(call.args[0])

    def run(env: dict[Any, Any]) -> bool:
        if not cond(env):
            raise InterpreterError("E314", "an assumption (T.assume) does not hold", call.span)
        return True

    return run


@_register(
    "undef", "type_annotation", "prefetch", "tvm_storage_sync", "start_profile_intrinsic", "end_profile_intrinsic"
)
def _nothing(compiler: Any, call: Call) -> Closure:
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    zero: Any = 0.0 if dtype.is_float else 0
    value = (zero,) * lanes_of(dtype) if dtype.lanes > 1 else zero
    return lambda env: value


@_register("vscale")
def _vscale(compiler: Any, call: Call) -> Closure:
    return lambda env: VSCALE


@_register("vectorlow", "vectorhigh")
def _half(compiler: Any, call: Call) -> Closure:
    value, half = compiler.visit(call.args[0]), lanes_of(dtype_of(call.args[0])) // 2
    pick = slice(0, half) if short_name(call) == "vectorlow" else slice(half, None)
    return lambda env: value(env)[pick] if half > 1 else value(env)[pick][0]


@_register("vectorcombine")
def _combine(compiler: Any, call: Call) -> Closure:
    a, b = [compiler.visit(x) for x in call.args]
    if lanes_of(dtype_of(call.args[0])) > 1:
        return lambda env: a(env) + b(env)
    return lambda env: (a(env), b(env))


@_register("get_active_lane_mask")
def _active_lanes(compiler: Any, call: Call) -> Closure:
    base, limit = [compiler.visit(a) for a in call.args]
    lanes = range(lanes_of(call.ty.dtype))  # type: ignore[attr-defined]

    def run(env: dict[Any, Any]) -> tuple[bool, ...]:
        first, end = base(env), limit(env)
        return tuple([first + k < end for k in lanes])

    return run


# ---- addresses


@_register("address_of")
def _address_of(compiler: Any, call: Call) -> Closure:
    load = call.args[0]
    if type(load) is not BufferLoad:
        raise InterpreterError("E318", "T.address_of takes a buffer element", call.span)
    located = compiler.offsets(load.buffer, load.indices, READ, call.span)

    def run(env: dict[Any, Any]) -> Pointer:
        view, offsets = located(env)
        return Pointer(view.memory, view.byte(offsets[0]))

    return run


@_register("tvm_access_ptr")
def _access_ptr(compiler: Any, call: Call) -> Closure:
    ty = call.args[0].ty
    size = ty.dtype.itemsize if isinstance(ty, PrimType) else 1
    data, offset = compiler.visit(call.args[1]), compiler.visit(call.args[2])
    return lambda env: data(env).moved(offset(env) * size)


@_register("handle_add_byte_offset", "ptr_byte_offset")
def _byte_offset(compiler: Any, call: Call) -> Closure:
    data, offset = compiler.visit(call.args[0]), compiler.visit(call.args[1])
    return lambda env: data(env).moved(offset(env))


@_register("tvm_stack_alloca")
def _stack_alloca(compiler: Any, call: Call) -> Closure:
    count = compiler.visit(call.args[1])
    return lambda env: Pointer(Memory.fresh(16 * count(env), "stack"))


@_register("atomic_add")
def _atomic_add(compiler: Any, call: Call) -> Closure:
    address, value = compiler.visit(call.args[0]), compiler.visit(call.args[1])
    ty = call.args[0].ty
    dtype = dtype_of(call.args[1])
    if isinstance(ty, PointerType) and isinstance(ty.element, PrimType):
        dtype = ty.element.dtype
    fit = fits(dtype)

    def run(env: dict[Any, Any]) -> Any:
        view = View(address(env), dtype, (1,), (), 0, "atomic")
        if not view.count:
            raise InterpreterError("E310", "atomic access outside the memory", call.span)
        if not view.is_written(0):
            raise InterpreterError("E311", "atomic access to a cell nobody has written", call.span)
        old = view.get(0)
        view.put(0, fit(old + value(env)))
        return old

    return run


# ---- calls


@_register("call_extern", "call_pure_extern")
def _call_extern(compiler: Any, call: Call) -> Closure:
    name = call.args[0].value if type(call.args[0]) is StringImm else ""
    args = [compiler.visit(a) for a in call.args[1:]]
    function = libm(name)
    if function is None:
        return _call_registered(compiler, call)
    result = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    fit = fits(result) if result.is_float else caster(DataType("float64"), result)
    scalars = Call(call.op, call.args[1:], call.attrs, call.ty_args, call.ty, call.span)
    return per_lane(scalars, args, lambda *values: fit(function(*values)))


def _view_behind(source: Expr, value: Any, env: dict[Any, Any]) -> View | None:
    """The buffer that a pointer handed to a registered function stands for."""
    if not isinstance(value, Pointer) or type(source) is not Var:
        return None
    buffer = next((known for known in env if type(known) is Buffer and known.data is source), None)
    return None if buffer is None else env[buffer]


@_register("call_packed", "tvm_call_packed", "call_cpacked")
def _call_registered(compiler: Any, call: Call) -> Closure:
    name = call.args[0].value if type(call.args[0]) is StringImm else ""
    args = [compiler.visit(a) for a in call.args[1:]]
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")

    def run(env: dict[Any, Any]) -> Any:
        function = get_global_func(name, allow_missing=True)
        if function is None:
            raise InterpreterError("E318", f"no function is registered as {name!r}", call.span)
        values = [a(env) for a in args]
        views = [_view_behind(source, value, env) for source, value in zip(call.args[1:], values)]
        if any([isinstance(value, Pointer) and view is None for value, view in zip(values, views)]):
            raise InterpreterError(
                "E318", f"{name!r} takes an address, which a registered Python function cannot", call.span
            )
        result = function(*[v if view is None else Tensor(view.array()) for v, view in zip(values, views)])
        for view in views:
            if view is not None:
                view.mark_written()
        if dtype.code == "void" or result is None:
            return result
        given = DataType("float64") if isinstance(result, float) else DataType("int64")
        return caster(given, dtype)(result.item() if isinstance(result, np.generic) else result)

    return run
