"""Constants, vectors and local bindings: emitters of the remaining expression nodes."""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.build import dtype_of, int_values
from ...ir.expr import FloatImm, IntImm, StringImm
from ...ir.scalar import Broadcast, Let, Ramp, Shuffle
from ...ir.walk import collect
from ...support.errors import CodegenError
from .lltypes import float_text, int_text, value_type
from .vectors import shuffled, splat
from .writer import EXPRESSIONS, FunctionWriter


def _int(w: FunctionWriter, expr: IntImm) -> str:
    dtype = expr.ty.dtype
    if dtype.code == "handle":
        return "null" if expr.value == 0 else w.emit(f"inttoptr i64 {expr.value} to ptr")
    value_type(dtype, expr.span)
    return int_text(expr.value, dtype)


def float_constant(value: float, dtype: DataType) -> str:
    """Operand of a float constant of any float type, narrow ones as their bits."""
    if not dtype.is_narrow:
        return float_text(value, dtype)
    array = dtype.numpy.type(value)
    bits = int.from_bytes(array.tobytes(), "little")
    return int_text(bits, DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes))


def _float(w: FunctionWriter, expr: FloatImm) -> str:
    return float_constant(expr.value, expr.ty.dtype)


def _string(w: FunctionWriter, expr: StringImm) -> str:
    return w.module.string(expr.value)


def _broadcast(w: FunctionWriter, expr: Broadcast) -> str:
    inner = dtype_of(expr.value)
    if inner.lanes != 1 or not isinstance(expr.lanes, int):
        raise CodegenError("E521", f"a broadcast of {inner.name} to {expr.lanes} lanes", expr.span)
    if expr.lanes == 1:
        return w.value(expr.value)
    if type(expr.value) is IntImm and inner.code != "handle":
        return int_text(expr.value.value, expr.ty.dtype)
    if type(expr.value) is FloatImm:
        return float_constant(expr.value.value, expr.ty.dtype)
    return splat(w, w.value(expr.value), expr.ty.dtype)


def _ramp(w: FunctionWriter, expr: Ramp) -> str:
    dtype = expr.ty.dtype
    ty, element = value_type(dtype, expr.span), value_type(dtype.element)
    if dtype_of(expr.base).lanes != 1 or not dtype.is_integral:
        raise CodegenError("E521", f"a ramp of {dtype.name}", expr.span)
    steps = ", ".join([f"{element} {i}" for i in range(dtype.lanes)])
    offsets = f"<{steps}>"
    if not (type(expr.stride) is IntImm and expr.stride.value == 1):
        offsets = w.emit(f"mul {ty} {splat(w, w.value(expr.stride), dtype)}, {offsets}")
    return w.emit(f"add {ty} {splat(w, w.value(expr.base), dtype)}, {offsets}")


def _shuffle(w: FunctionWriter, expr: Shuffle) -> str:
    parts: list[tuple[str, DataType]] = [(w.unmasked(v), dtype_of(v)) for v in expr.vectors]
    picks = int_values(expr.indices)
    joined = _shuffle_of_two(w, parts, picks) if len(picks) == len(expr.indices) else None
    if joined is not None:
        return joined
    lanes: list[tuple[str, DataType, int]] = [(text, dtype, i) for text, dtype in parts for i in range(dtype.lanes)]
    element = expr.ty.dtype.element
    picked = []
    for position in expr.indices:
        if type(position) is not IntImm or not 0 <= position.value < len(lanes):
            raise CodegenError("E521", f"a shuffle index must be a constant below {len(lanes)}", expr.span)
        text, dtype, lane = lanes[position.value]
        if dtype.lanes > 1:
            text = w.emit(f"extractelement {value_type(dtype)} {text}, i64 {lane}")
        picked.append(text)
    if len(picked) == 1:
        return picked[0]
    ty, result = value_type(expr.ty.dtype), "poison"
    for lane, text in enumerate(picked):
        result = w.emit(f"insertelement {ty} {result}, {value_type(element)} {text}, i64 {lane}")
    return result


def _shuffle_of_two(w: FunctionWriter, parts: list[tuple[str, DataType]], picks: list[int]) -> str | None:
    """One instruction for lanes out of one vector or of two of one type; None for another form."""
    (first, dtype), (second, other) = parts[0], parts[-1]
    whole = len(parts) <= 2 and dtype is other and dtype.lanes > 1 and len(picks) > 1
    if not whole or not all([0 <= n < dtype.lanes * len(parts) for n in picks]):
        return None
    return shuffled(w, value_type(dtype), first, picks, second)


def _let(w: FunctionWriter, expr: Let) -> str:
    moves = w.mask is not None and collect(expr.body, Shuffle)
    w.env[expr.var] = w.unmasked(expr.value) if moves else w.value(expr.value)
    w.computed.clear()
    return w.value(expr.body)


EXPRESSIONS[IntImm] = _int
EXPRESSIONS[FloatImm] = _float
EXPRESSIONS[StringImm] = _string
EXPRESSIONS[Broadcast] = _broadcast
EXPRESSIONS[Ramp] = _ramp
EXPRESSIONS[Shuffle] = _shuffle
EXPRESSIONS[Let] = _let
