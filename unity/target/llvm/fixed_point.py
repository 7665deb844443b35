"""Fixed-point products of quantised programs: ``T.q_multiply_shift`` and its form with shifts per axis.

Computed in 128 bits, so that nothing is lost before the one rounding (halves upwards).
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Call
from ...support.errors import CodegenError
from .lltypes import value_type
from .writer import FunctionWriter


class _Wide:
    """Instructions on 128-bit lanes."""

    def __init__(self, w: FunctionWriter, call: Call) -> None:
        self.w = w
        self.dtype: DataType = dtype_of(call.args[0])
        if not self.dtype.is_integral:
            raise CodegenError("E526", f"a fixed-point product of {self.dtype.name} values", call.span)
        lanes = self.dtype.lanes
        self.type = "i128" if lanes == 1 else f"<{lanes} x i128>"
        self.mask = value_type(DataType("bool").with_lanes(lanes))
        self.suffix = "i128" if lanes == 1 else f"v{lanes}i128"
        self.args = [self._widen(call, number) for number in range(len(call.args))]

    def _widen(self, call: Call, number: int) -> str:
        argument = call.args[number]
        dtype = dtype_of(argument)
        if dtype.lanes != self.dtype.lanes or not (dtype.is_integral or dtype.is_bool):
            raise CodegenError("E523", f"argument {number} of a fixed-point product is {dtype.name}", call.span)
        extend = "sext" if dtype.is_int else "zext"
        return self.w.emit(f"{extend} {value_type(dtype)} {self.w.value(argument)} to {self.type}")

    def const(self, value: int) -> str:
        return str(value) if self.dtype.lanes == 1 else f"splat (i128 {value})"

    def op(self, name: str, a: str, b: str) -> str:
        return self.w.emit(f"{name} {self.type} {a}, {b}")

    def clamp(self, a: str) -> str:
        """A shift amount held within 0 to 127."""
        low = self.w.emit(f"call {self.type} @llvm.smax.{self.suffix}({self.type} {a}, {self.type} {self.const(0)})")
        return self.w.emit(
            f"call {self.type} @llvm.smin.{self.suffix}({self.type} {low}, {self.type} {self.const(127)})"
        )

    def where(self, flag: str, value: str) -> str:
        """The value where ``flag`` is not zero, else 0."""
        chosen = self.w.emit(f"icmp ne {self.type} {flag}, {self.const(0)}")
        return self.w.emit(f"select {self.mask} {chosen}, {self.type} {value}, {self.type} {self.const(0)}")

    def finish(self, x: str, y: str, left: str, total: str) -> str:
        """``round((x << left) * y / 2**total)`` in the result's type."""
        product = self.op("mul", self.op("shl", x, self.clamp(left)), y)
        total = self.clamp(total)
        half = self.op("shl", self.const(1), self.clamp(self.op("sub", total, self.const(1))))
        half = self.where(total, half)
        rounded = self.op("ashr", self.op("add", product, half), total)
        return self.w.emit(f"trunc {self.type} {rounded} to {value_type(self.dtype)}")


def q_multiply_shift(w: FunctionWriter, call: Call) -> str:
    """(x, y, q, shift): ``x * y * 2**(shift - q)`` rounded."""
    wide = _Wide(w, call)
    x, y, q, shift = wide.args
    right = wide.clamp(wide.op("sub", wide.const(0), shift))
    return wide.finish(x, y, shift, wide.op("add", q, right))


def q_multiply_shift_per_axis(w: FunctionWriter, call: Call) -> str:
    """(x, y, left, right, q, has left, has right): the shifts count where their flags say so."""
    wide = _Wide(w, call)
    x, y, left, right, q, has_left, *rest = wide.args
    right = wide.where(rest[0], right) if rest else right
    return wide.finish(x, y, wide.where(has_left, left), wide.op("add", q, right))
