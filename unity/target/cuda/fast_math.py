"""Approximate instructions for mathematics of float32 and narrower types: ``-fast-math`` of a target asks for them.

Their error bounds are in docs/gpu.md. Infinities and NaN keep their meaning. float64 and all functions that are not listed here
(``pow``, ``erf``, ``tan``) are unchanged. Source: the PTX ISA, "Floating Point Instructions".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Call
from ...ir.scalar import Binary, Div
from ..llvm.intrinsics import Emitter, library_call
from ..llvm.lltypes import float_text, value_type
from ..llvm.narrow import narrow, widen
from ..llvm.writer import EXPRESSIONS, FunctionWriter
from .emitters import GPU_EMITTERS
from .registers import nvvm

_F32 = DataType("float32")
Scalar = Callable[..., str]
"""Writes a function of float32 operands and returns the operand of the result."""


def _instruction(name: str) -> Scalar:
    return lambda w, *given: nvvm(w, name, "float", *[("float", value) for value in given])


def _multiplied(w: FunctionWriter, value: str, factor: float) -> str:
    return w.emit(f"fmul float {value}, {float_text(factor, _F32)}")


def _scaled(function: Scalar, before: float = 1.0, after: float = 1.0) -> Scalar:
    def write(w: FunctionWriter, value: str) -> str:
        found = function(w, _multiplied(w, value, before) if before != 1.0 else value)
        return _multiplied(w, found, after) if after != 1.0 else found

    return write


def _tanh(w: FunctionWriter, value: str) -> str:
    return w.emit(f'call float asm "tanh.approx.f32 $0, $1;", "=f,f"(float {value})')


def _sigmoid(w: FunctionWriter, value: str) -> str:
    power = _POWER(w, _multiplied(w, value, -math.log2(math.e)))
    return nvvm(w, "rcp.approx.ftz.f", "float", ("float", w.emit(f"fadd float {power}, {float_text(1.0, _F32)}")))


_POWER, _LOGARITHM = _instruction("ex2.approx.f"), _instruction("lg2.approx.f")
APPROXIMATE: dict[str, Scalar] = {
    "exp2": _POWER, "exp": _scaled(_POWER, math.log2(math.e)), "exp10": _scaled(_POWER, math.log2(10)),
    "log2": _LOGARITHM, "log": _scaled(_LOGARITHM, after=math.log(2)), "log10": _scaled(_LOGARITHM, after=math.log10(2)),
    "sin": _instruction("sin.approx.f"), "cos": _instruction("cos.approx.f"), "tanh": _tanh, "sigmoid": _sigmoid,
    "rsqrt": _instruction("rsqrt.approx.f"), "sqrt": _instruction("sqrt.approx.f"),
}  # fmt: skip
"""Functions of one number."""
_DIVISION = _instruction("div.full")


def _applied(w: FunctionWriter, function: Scalar, dtype: DataType, *given: str) -> str:
    """Apply a function to each lane of values of a narrow type or float32."""
    wide = _F32.with_lanes(dtype.lanes)
    values = [widen(w, value, dtype) if dtype.is_narrow else value for value in given]
    ty = value_type(wide)
    if dtype.lanes == 1:
        result = function(w, *values)
    else:
        result = "poison"
        for lane in range(dtype.lanes):
            parts = [w.emit(f"extractelement {ty} {value}, i64 {lane}") for value in values]
            result = w.emit(f"insertelement {ty} {result}, float {function(w, *parts)}, i64 {lane}")
    return narrow(w, result, dtype, wide) if dtype.is_narrow else result


def _approximated(w: FunctionWriter, call: Call, name: str) -> str:
    dtype = dtype_of(call.args[0])
    if not dtype.is_float or dtype.bits > 32:
        return library_call(w, call, name)
    return _applied(w, APPROXIMATE[name], dtype, w.value(call.args[0]))


def _divided(w: FunctionWriter, expr: Binary) -> str:
    dtype = dtype_of(expr)
    if not dtype.is_float or dtype.bits > 32:
        return EXPRESSIONS[Div](w, expr)
    return _applied(w, _DIVISION, dtype, w.value(expr.a), w.value(expr.b))


_EMITTERS: dict[str, Emitter] = {f"T.{name}": partial(_approximated, name=name) for name in APPROXIMATE}
FAST_EMITTERS = replace(
    GPU_EMITTERS, intrinsics={**GPU_EMITTERS.intrinsics, **_EMITTERS}, expressions={**EXPRESSIONS, Div: _divided}
)
"""Code generation with approximate mathematics."""
