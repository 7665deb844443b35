"""Calls of ``T.*`` intrinsics that all targets share: a table from name to emitter."""

from __future__ import annotations

from collections.abc import Callable

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Call, GlobalVar, Op
from ...ir.intrinsic import INTRINSICS as KNOWN
from ...ir.scalar import BufferLoad
from ...ir.types import Expr
from ...support.errors import CodegenError
from . import fixed_point
from .arithmetic import choose, math_call, math_symbol
from .casts import convert
from .lltypes import float_text, int_text, memory_type, suffix, value_type
from .math.library import is_math_function
from .memory import address
from .narrow import narrow, widen
from .vectors import concat_vectors, shuffled
from .writer import EXPRESSIONS, INTRINSICS, UNDEFINED, FunctionWriter

_F32 = DataType("float32")
_I64 = DataType("int64")
Emitter = Callable[[FunctionWriter, Call], str | None]


def _result(call: Call) -> DataType:
    return dtype_of(call)


def _call(w: FunctionWriter, call: Call) -> str:
    if type(call.op) is GlobalVar:
        return w.module.emitters.call_function(w, call)
    if type(call.op) is not Op:
        raise CodegenError("E526", f"a tensor program cannot call a {type(call.op).__name__}", call.span)
    name = call.op.name
    row = KNOWN.get(name)
    if row is not None and not row.arity[0] <= len(call.args) <= (
        row.arity[1] if row.arity[1] >= 0 else len(call.args)
    ):
        raise CodegenError("E526", f"{name} cannot take {len(call.args)} arguments", call.span)
    emitter = w.module.emitters.intrinsics.get(name)
    if emitter is not None:
        return emitter(w, call) or UNDEFINED
    return library_call(w, call, name.removeprefix("T."))


def library_call(w: FunctionWriter, call: Call, name: str) -> str:
    """A function of the math library; narrow floats go through float32, integers of float functions are refused."""
    dtype = dtype_of(call.args[0]) if call.args else DataType("void")
    work = _F32.with_lanes(dtype.lanes) if dtype.is_narrow else dtype
    if not is_math_function(name, work.element.name):
        raise CodegenError("E526", f"T.{name} has no code for {dtype.name} on {w.module.emitters.target}", call.span)
    arguments = []
    for argument in call.args:
        own = dtype_of(argument)
        if own is not dtype:
            raise CodegenError("E523", f"T.{name} of {dtype.name} and {own.name}", call.span)
        text = w.value(argument)
        arguments.append(widen(w, text, dtype) if dtype.is_narrow else text)
    result = math_call(w, name, work, *arguments)
    return narrow(w, result, dtype, work) if dtype.is_narrow else result


def _same_types(call: Call) -> DataType:
    dtype = dtype_of(call.args[0])
    for argument in call.args[1:]:
        if dtype_of(argument) is not dtype:
            raise CodegenError("E523", f"{call.op.name} of {dtype.name} and {dtype_of(argument).name}", call.span)  # type: ignore[attr-defined]
    return dtype


def _require_bits(dtype: DataType, call: Call) -> None:
    if not (dtype.is_integral or dtype.is_bool):
        raise CodegenError("E523", f"{call.op_name} of {dtype.name} values", call.span)


def _bitwise(instruction: str) -> Emitter:
    def emitter(w: FunctionWriter, call: Call) -> str:
        dtype = _same_types(call)
        _require_bits(dtype, call)
        return w.emit(f"{instruction} {value_type(dtype)} {w.value(call.args[0])}, {w.value(call.args[1])}")

    return emitter


def _bitwise_not(w: FunctionWriter, call: Call) -> str:
    dtype = dtype_of(call.args[0])
    _require_bits(dtype, call)
    ones = int_text(1 if dtype.is_bool else -1, dtype)
    return w.emit(f"xor {value_type(dtype)} {w.value(call.args[0])}, {ones}")


def shift(left: bool, by_minimum: bool = False) -> Emitter:
    """Shifts of which any amount has a meaning. LLVM gets an amount below the width: 0 for one that is not, or with ``by_minimum``
    the largest."""

    def emitter(w: FunctionWriter, call: Call) -> str:
        dtype = dtype_of(call.args[0])
        if not dtype.is_integral:
            raise CodegenError("E523", f"shift of a {dtype.name} value", call.span)
        ty, mask = value_type(dtype), value_type(DataType("bool").with_lanes(dtype.lanes))
        value = w.value(call.args[0])
        amount = convert(w, w.value(call.args[1]), dtype_of(call.args[1]), dtype, call.span)
        inside = w.emit(f"icmp ult {ty} {amount}, {int_text(dtype.bits, dtype)}")
        if left or dtype.is_uint:
            if by_minimum:
                least = f"@llvm.umin.{suffix(dtype)}"
                safe = w.emit(f"call {ty} {least}({ty} {amount}, {ty} {int_text(dtype.bits - 1, dtype)})")
            else:
                safe = w.emit(f"select {mask} {inside}, {ty} {amount}, {ty} {int_text(0, dtype)}")
            shifted = w.emit(f"{'shl' if left else 'lshr'} {ty} {value}, {safe}")
            return w.emit(f"select {mask} {inside}, {ty} {shifted}, {ty} {int_text(0, dtype)}")
        safe = w.emit(f"select {mask} {inside}, {ty} {amount}, {ty} {int_text(dtype.bits - 1, dtype)}")
        return w.emit(f"ashr {ty} {value}, {safe}")

    return emitter


def _absolute(w: FunctionWriter, call: Call) -> str:
    dtype = dtype_of(call.args[0])
    if dtype.is_float:
        return library_call(w, call, "fabs")
    value = w.value(call.args[0])
    if not dtype.is_int:
        return value
    ty = value_type(dtype)
    return w.emit(f"call {ty} @llvm.abs.{suffix(dtype)}({ty} {value}, i1 false)")


def _rounding(name: str) -> Emitter:
    """floor and its like: integers are already whole."""

    def emitter(w: FunctionWriter, call: Call) -> str:
        return w.value(call.args[0]) if dtype_of(call.args[0]).is_integral else library_call(w, call, name)

    return emitter


def _predicate(name: str, of_integer: bool) -> Emitter:
    def emitter(w: FunctionWriter, call: Call) -> str:
        dtype = dtype_of(call.args[0])
        text = w.value(call.args[0])
        if not dtype.is_float:
            return int_text(int(of_integer), _result(call))
        if dtype.is_narrow:
            text, dtype = widen(w, text, dtype), _F32.with_lanes(dtype.lanes)
        ty = value_type(dtype)
        if name == "isnan":
            return w.emit(f"fcmp uno {ty} {text}, {text}")
        size = w.emit(f"call {ty} @llvm.fabs.{suffix(dtype)}({ty} {text})")
        infinity = float_text(float("inf"), dtype)
        return w.emit(f"fcmp {'oeq' if name == 'isinf' else 'olt'} {ty} {size}, {infinity}")

    return emitter


def _reinterpret(w: FunctionWriter, call: Call) -> str:
    source, target = dtype_of(call.args[0]), _result(call)
    text = w.value(call.args[0])
    if source.code == "handle" or target.code == "handle":
        return convert(w, text, source, target, call.span)
    if source.bits * source.lanes != target.bits * target.lanes or source.is_bool or target.is_bool:
        raise CodegenError("E522", f"cannot reinterpret {source.name} as {target.name}: sizes differ", call.span)
    a, b = value_type(source), value_type(target)
    return text if a == b else w.emit(f"bitcast {a} {text} to {b}")


def _ldexp(w: FunctionWriter, call: Call) -> str:
    dtype = dtype_of(call.args[0])
    power = convert(
        w, w.value(call.args[1]), dtype_of(call.args[1]), DataType("int32").with_lanes(dtype.lanes), call.span
    )
    work = _F32.with_lanes(dtype.lanes) if dtype.is_narrow else dtype
    text = w.value(call.args[0])
    text = widen(w, text, dtype) if dtype.is_narrow else text
    symbol = math_symbol(w, "ldexp", work)
    ty = value_type(work)
    result = w.emit(
        f"call {ty} @{symbol}({ty} {text}, {value_type(DataType('int32').with_lanes(dtype.lanes))} {power})"
    )
    return narrow(w, result, dtype, work) if dtype.is_narrow else result


def _count(name: str) -> Emitter:
    """popcount and clz: as wide as the operand."""

    def emitter(w: FunctionWriter, call: Call) -> str:
        dtype = dtype_of(call.args[0])
        if not dtype.is_integral:
            raise CodegenError("E526", f"T.{name} of {dtype.name}", call.span)
        ty, text = value_type(dtype), w.value(call.args[0])
        intrinsic, extra = ("ctpop", "") if name == "popcount" else ("ctlz", ", i1 false")
        result = w.emit(f"call {ty} @llvm.{intrinsic}.{suffix(dtype)}({ty} {text}{extra})")
        return convert(w, result, dtype, _result(call))

    return emitter


def _if_then_else(w: FunctionWriter, call: Call) -> str:
    cond, a, b = call.args
    if not dtype_of(cond).is_bool or dtype_of(a) is not dtype_of(b):
        raise CodegenError(
            "E523", f"T.if_then_else of {dtype_of(a).name} and {dtype_of(b).name} on {dtype_of(cond).name}", call.span
        )
    return choose(w, cond, a, b)


def _address_of(w: FunctionWriter, call: Call) -> str:
    load = call.args[0]
    if type(load) is not BufferLoad:
        raise CodegenError("E526", "T.address_of takes a buffer element", call.span)
    return address(w, load.buffer, load.indices, call.span)


def _access_ptr(w: FunctionWriter, call: Call) -> str:
    """tvm_access_ptr(type annotation, data, offset in elements, extent, access mask)."""
    element = dtype_of(call.args[0])
    offset = convert(w, w.value(call.args[2]), dtype_of(call.args[2]), _I64, call.span)
    return w.emit(f"getelementptr {memory_type(element)}, ptr {pointer(w, call.args[1])}, i64 {offset}")


def pointer(w: FunctionWriter, expr: Expr) -> str:
    """Operand of an address. Raises CodegenError E523 for another value."""
    dtype = dtype_of(expr)
    if dtype.code != "handle" or dtype.lanes != 1:
        raise CodegenError("E523", f"an address is needed, got {dtype.name}", getattr(expr, "span", None))
    return w.value(expr)


def _byte_offset(w: FunctionWriter, call: Call) -> str:
    offset = convert(w, w.value(call.args[1]), dtype_of(call.args[1]), _I64, call.span)
    return w.emit(f"getelementptr i8, ptr {pointer(w, call.args[0])}, i64 {offset}")


def _atomic_add(w: FunctionWriter, call: Call) -> str:
    """Adds to the addressed element, returns the old value."""
    dtype = dtype_of(call.args[1])
    if dtype.lanes != 1 or dtype.is_narrow or not (dtype.is_integral or dtype.is_float):
        raise CodegenError("E526", f"T.atomic_add of {dtype.name}", call.span)
    operation = "fadd" if dtype.is_float else "add"
    return w.emit(
        f"atomicrmw {operation} ptr {pointer(w, call.args[0])}, {value_type(dtype)} {w.value(call.args[1])} monotonic"
    )


def _assume(w: FunctionWriter, call: Call) -> str:
    return "true"


def _undef(w: FunctionWriter, call: Call) -> str:
    dtype = _result(call)
    return int_text(0, dtype) if not dtype.is_float or dtype.is_narrow else float_text(0.0, dtype)


def _half_of(high: bool) -> Emitter:
    def emitter(w: FunctionWriter, call: Call) -> str:
        dtype = dtype_of(call.args[0])
        half = dtype.lanes // 2
        if dtype.lanes % 2 or _result(call) is not dtype.with_lanes(half):
            raise CodegenError("E523", f"{call.op.name} of {dtype.name} as {_result(call).name}", call.span)  # type: ignore[attr-defined]
        first = half if high else 0
        ty, text = value_type(dtype), w.unmasked(call.args[0])
        if half == 1:
            return w.emit(f"extractelement {ty} {text}, i64 {first}")
        return shuffled(w, ty, text, range(first, first + half))

    return emitter


def _combine(w: FunctionWriter, call: Call) -> str:
    dtype = _same_types(call)
    both = dtype.with_lanes(2 * dtype.lanes)
    if _result(call) is not both:
        raise CodegenError("E523", f"T.vectorcombine of {dtype.name} as {_result(call).name}", call.span)
    ty, element = value_type(both), value_type(dtype)
    a, b = w.unmasked(call.args[0]), w.unmasked(call.args[1])
    if dtype.lanes == 1:
        first = w.emit(f"insertelement {ty} poison, {element} {a}, i64 0")
        return w.emit(f"insertelement {ty} {first}, {element} {b}, i64 1")
    return concat_vectors(w, value_type(dtype.element), (a, b), (dtype.lanes, dtype.lanes))


def _dp4a(w: FunctionWriter, call: Call) -> str:
    """Sum of products of four bytes each, added to the third operand."""
    kinds = [dtype_of(a) for a in call.args[:2]]
    if any([k.lanes != 4 or k.bits != 8 for k in kinds]):
        raise CodegenError("E526", f"T.dp4a of {kinds[0].name} and {kinds[1].name}", call.span)
    wide = [convert(w, w.value(a), k, DataType("int32x4")) for a, k in zip(call.args[:2], kinds)]
    product = w.emit(f"mul <4 x i32> {wide[0]}, {wide[1]}")
    total = w.emit(f"call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> {product})")
    return w.emit(f"add i32 {total}, {convert(w, w.value(call.args[2]), dtype_of(call.args[2]), DataType('int32'))}")


def _is_null(w: FunctionWriter, call: Call) -> str:
    return w.emit(f"icmp eq ptr {pointer(w, call.args[0])}, null")


def _lane_mask(w: FunctionWriter, call: Call) -> str:
    dtype = _result(call)
    a, b = [convert(w, w.value(x), dtype_of(x), _I64) for x in call.args]
    if dtype.lanes == 1:
        return w.emit(f"icmp ult i64 {a}, {b}")
    return w.emit(f"call <{dtype.lanes} x i1> @llvm.get.active.lane.mask.v{dtype.lanes}i1.i64(i64 {a}, i64 {b})")


INTRINSICS["T.q_multiply_shift"] = fixed_point.q_multiply_shift
INTRINSICS["T.q_multiply_shift_per_axis"] = fixed_point.q_multiply_shift_per_axis
INTRINSICS.update({
    "T.bitwise_and": _bitwise("and"), "T.bitwise_or": _bitwise("or"), "T.bitwise_xor": _bitwise("xor"),
    "T.bitwise_not": _bitwise_not, "T.shift_left": shift(True), "T.shift_right": shift(False),
    "T.abs": _absolute, "T.floor": _rounding("floor"), "T.ceil": _rounding("ceil"),
    "T.trunc": _rounding("trunc"), "T.round": _rounding("round"), "T.nearbyint": _rounding("nearbyint"),
    "T.isnan": _predicate("isnan", False), "T.isinf": _predicate("isinf", False),
    "T.isfinite": _predicate("isfinite", True), "T.isnullptr": _is_null, "T.reinterpret": _reinterpret,
    "T.ldexp": _ldexp, "T.popcount": _count("popcount"), "T.clz": _count("clz"), "T.likely": lambda w, c: w.value(c.args[0]),
    "T.tvm_thread_invariant": lambda w, c: w.value(c.args[0]),
    "T.if_then_else": _if_then_else, "T.address_of": _address_of, "T.tvm_access_ptr": _access_ptr,
    "T.ptr_byte_offset": _byte_offset, "T.handle_add_byte_offset": _byte_offset, "T.atomic_add": _atomic_add,
    "T.assume": _assume, "T.undef": _undef, "T.vectorlow": _half_of(False),
    "T.vectorhigh": _half_of(True), "T.vectorcombine": _combine, "T.dp4a": _dp4a, "T.get_active_lane_mask": _lane_mask,
})  # fmt: skip
EXPRESSIONS[Call] = _call
