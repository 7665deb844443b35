"""Tensor-level values: conversion, arithmetic, buffers with their elements, regions, attributes and methods.

Not here: calls of script's functions (``tir_expr.py``), statements. Invariant: arithmetic written infix goes through the
folding helpers of ``ir/build.py``. A bare integer is int64 in an index and takes the other operand's type elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...ffi.dtype import DataType
from ...ir import (
    Buffer,
    BufferLoad,
    BufferRegion,
    Call,
    Expr,
    IntImm,
    IterVar,
    PrimType,
    Range,
    ShapeExpr,
    StringImm,
    Var,
    build as b,
    op,
    prim_type,
)  # fmt: skip
from ..parser import syntax as s
from ..spelling.ranges import extent_of
from ..spelling.spelling import INFIX
from .base import bind_arguments, suggest
from .plain import is_number
from .scope import ModuleRef
from .types import TypeReader

_INT64 = prim_type("int64")
_BUFFER_NAMES = (
    "data", "shape", "strides", "elem_offset", "dtype", "name", "vload", "vstore", "access_ptr", "scope",
)  # fmt: skip
_BUILD: dict[str, Callable[..., Expr]] = {
    "+": b.add, "-": b.sub, "*": b.mul, "/": b.div, "//": b.floordiv, "%": b.floormod, "==": b.eq, "!=": b.ne, "<": b.lt,
    "<=": b.le, ">": b.gt, ">=": b.ge, "and": b.logical_and, "or": b.logical_or,
}  # fmt: skip
_HELPERS: dict[str, Callable[..., Expr]] = {
    "maximum": b.maximum, "minimum": b.minimum, "truncdiv": b.truncdiv, "truncmod": b.truncmod, "floordiv": b.floordiv,
    "floormod": b.floormod, "div": b.div,
}  # fmt: skip
_BUFFER_MAKERS = frozenset(("T.Buffer",))
_LIMITS = {"T.min_value": b.min_value, "T.max_value": b.max_value, "T.infinity": b.infinity}


@dataclass(slots=True, frozen=True)
class Cell:
    """A name that stands for a mutable scalar kept in a buffer without axes."""

    buffer: Buffer


class TensorValueReader(TypeReader):
    """Evaluates operators and buffer accesses of tensor programs; ``TensorExprReader`` adds the calls."""

    level = "T"

    # ------------------------------------------------------------------------------------------------------ conversion

    def expr(self, value: Any, node: s.Syntax) -> Expr:
        """A value as scalar expression: numbers become constants, text a StringImm."""
        if isinstance(value, Expr):
            return value
        if is_number(value):
            return b.const(value, None, self.reading.span(node))
        if type(value) is str:
            return StringImm(value, self.reading.span(node))
        if type(value) is IterVar:
            return value.var
        if type(value) is Buffer:
            raise self.error(
                "E113",
                f"{value.name} is a buffer, not a value",
                node,
                f"write {value.name}[...] for an element, {value.name}.data for the pointer",
            )
        raise self.error("E113", "expected a scalar expression", node)

    def argument(self, value: Any, node: s.Syntax) -> Expr:
        """An argument of a call that takes memory: a buffer stands for its pointer."""
        return value.data if type(value) is Buffer else self.expr(value, node)

    def pointer(self, value: Expr, dtype: DataType, scope: str | None, node: s.Syntax) -> Var:
        """A variable for the address that ``data=`` computes."""
        raise self.error("E113", "data= must be a pointer variable such as A.data", node)

    def index(self, value: Any, node: s.Syntax) -> Expr:
        """A value as index: bare integers are int64."""
        if type(value) is int:
            return self.whole(value, node)
        return self.expr(value, node)

    def read(self, node: s.Syntax) -> Expr:
        """The scalar expression of a syntax node."""
        return self.expr(self.evaluate(node), node)

    def operand(self, value: Any, node: s.Syntax) -> Any:
        """An operand for the builders, which take plain numbers too."""
        return value if is_number(value) else self.expr(value, node)

    # ------------------------------------------------------------------------------------------------------- operators

    def _name(self, node: s.Name) -> Any:
        value = super()._name(node)
        return self.load(value.buffer, (), node) if type(value) is Cell else value

    def binary_ir(self, op_text: str, left: Any, right: Any, node: s.Syntax) -> Any:
        span = self.reading.span(node)
        x, y = self.operand(left, node), self.operand(right, node)
        build = _BUILD.get(op_text)
        if build is not None:
            return build(x, y, span)
        row = INFIX.get(op_text)
        if row is None or row.op is None:
            raise self.error("E107", f"operator {op_text} has no meaning for scalars", node)
        if op_text == "**":
            return b.intrinsic("T.pow", x, y, span=span)
        x, y = b.unify(x, y)
        return b.intrinsic(row.op, x, y, span=span)

    def unary_ir(self, op_text: str, value: Any, node: s.Syntax) -> Any:
        x, span = self.expr(value, node), self.reading.span(node)
        match op_text:
            case "-":
                return b.negate(x, span)
            case "+":
                return x
            case "not":
                return b.logical_not(x, span)
        return b.intrinsic("T.bitwise_not", x, span=span)

    def conditional(self, condition: Any, node: s.IfExp) -> Any:
        then, otherwise = self.evaluate(node.then), self.evaluate(node.otherwise)
        return b.if_then_else(
            self.expr(condition, node.condition), self.operand(then, node.then),
            self.operand(otherwise, node.otherwise), self.reading.span(node),
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------- buffers

    def subscript(self, value: Any, node: s.Subscript) -> Any:
        if type(value) is Buffer:
            return self.load(value, self.indices(value, node), node)
        if isinstance(value, ShapeExpr):
            value = value.values
        return super().subscript(value, node)

    def indices(self, buffer: Buffer, node: s.Subscript) -> tuple[Expr, ...]:
        """Indices of a buffer access; a slice is a vector of consecutive indices."""
        found: list[Expr] = []
        for item in self.index_items(node):
            if type(item) is s.Slice:
                axis = len(found)
                dim = buffer.shape[axis] if axis < len(buffer.shape) else None
                rng, step = self.range_of(item, dim)
                if type(rng.extent) is not IntImm:
                    raise self.error("E113", "a slice in a load or store needs a constant length", item)
                lanes = -(-rng.extent.value // step)
                found.append(b.ramp(rng.min, step, lanes, self.reading.span(item)) if lanes > 1 else rng.min)
                continue
            value = self.evaluate(item) if isinstance(item, s.Syntax) else item
            for part in value if isinstance(value, (tuple, list)) else (value,):
                found.append(self.index(part, node))
        if len(found) != len(buffer.shape):
            raise self.error("E112", f"{buffer.name} has {len(buffer.shape)} axes, got {len(found)} indices", node)
        return tuple(found)

    def index_items(self, node: s.Subscript) -> list[Any]:
        """Items of an index, starred ones spread."""
        items: list[Any] = []
        for item in node.items:
            if type(item) is s.Starred:
                items.extend(self.sequence(item.value))
            else:
                items.append(item)
        return items

    def load(self, buffer: Buffer, indices: tuple[Expr, ...], node: s.Syntax, predicate: Expr | None = None) -> Expr:
        """A read of a buffer."""
        ty = prim_type(buffer.dtype)
        if indices:
            last = b.dtype_of(indices[-1])
            if last.lanes != 1 or last.scalable:
                ty = prim_type(buffer.dtype.with_lanes(last.lanes * buffer.dtype.lanes, last.scalable))
        return BufferLoad(buffer, indices, ty, predicate, self.reading.span(node))

    def region(self, node: s.Syntax) -> BufferRegion:
        """``A[i, 0:16]`` as a region; ``A`` alone is all of it."""
        if type(node) is s.Subscript:
            buffer = self.evaluate(node.value)
            if type(buffer) is Buffer:
                return self._region_items(buffer, node)
        value = self.evaluate(node)
        if type(value) is BufferRegion:
            return value
        if type(value) is Buffer:
            zero = IntImm(0, _INT64)
            return BufferRegion(value, tuple([Range(zero, dim) for dim in value.shape]), self.reading.span(node))
        if type(value) is BufferLoad:
            one = IntImm(1, _INT64)
            return BufferRegion(value.buffer, tuple([Range(i, one) for i in value.indices]), self.reading.span(node))
        raise self.error("E113", "expected a region such as A[i, 0:16]", node)

    def _region_items(self, buffer: Buffer, node: s.Subscript) -> BufferRegion:
        ranges: list[Range] = []
        for item in self.index_items(node):
            if type(item) is s.Slice:
                axis = len(ranges)
                rng, step = self.range_of(item, buffer.shape[axis] if axis < len(buffer.shape) else None)
                if step != 1:
                    raise self.error("E113", "a region has no step", item)
                ranges.append(rng)
                continue
            value = self.evaluate(item) if isinstance(item, s.Syntax) else item
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if type(part) is Range:
                    ranges.append(part)
                    continue
                point = self.index(part, node)
                one_type = point.ty if isinstance(point.ty, PrimType) else _INT64
                ranges.append(Range(point, IntImm(1, one_type), self.reading.span(node)))
        if len(ranges) != len(buffer.shape):
            raise self.error("E112", f"{buffer.name} has {len(buffer.shape)} axes, got {len(ranges)} ranges", node)
        return BufferRegion(buffer, tuple(ranges), self.reading.span(node))

    def range_of(self, node: s.Slice, dim: Expr | None) -> tuple[Range, int]:
        """A slice as range and step; open ends are those of the axis."""
        step = 1 if node.step is None else self.integer(node.step)
        if step < 1:
            raise self.error("E113", "slice step must be positive", node)
        start: Any = 0 if node.lower is None else self.evaluate(node.lower)
        if node.upper is not None:
            stop = self.evaluate(node.upper)
        elif dim is not None:
            stop = dim
        else:
            raise self.error("E113", "the end of this slice is not known", node)
        if type(start) is int and type(stop) is int:
            lower, upper = self.index(start, node), self.index(stop, node)
        else:  # a bare integer takes the type of the other end
            lower, upper = b.unify(self.operand(start, node), self.operand(stop, node))
        if not isinstance(lower.ty, PrimType) or not isinstance(upper.ty, PrimType):
            raise self.error("E113", "slice bounds must be integers", node)
        return Range(lower, extent_of(lower, upper), self.reading.span(node)), step

    def attribute(self, value: Any, node: s.Attribute) -> Any:
        name = node.name
        if type(value) is Buffer:
            match name:
                case "data":
                    return value.data
                case "shape":
                    return value.shape
                case "strides":
                    return value.strides
                case "elem_offset":
                    return value.elem_offset if value.elem_offset is not None else IntImm(0, _INT64)
                case "dtype":
                    return value.dtype
                case "name":
                    return value.name
            raise self.error(
                "E111", f"a buffer has no attribute {name!r}", node,
                suggest(name, _BUFFER_NAMES),
            )  # fmt: skip
        if type(value) is ModuleRef:
            return self.module_member(name, node)
        if isinstance(value, Expr) and name == "dtype":
            return b.dtype_of(value)
        if type(value) is IterVar and name == "var":
            return value.var
        return super().attribute(value, node)

    def call_method(self, value: Any, name: str, node: s.Call) -> Any:
        args, keywords = self.arguments(node)
        if type(value) is Buffer:
            return self._buffer_method(value, name, node, args, keywords)
        if type(value) is ModuleRef:
            return self.call_value(self.module_member(name, node.func), node)
        if name == "astype" and (isinstance(value, Expr) or is_number(value)):
            bound = bind_arguments(self.reading, node, "astype", ("dtype",), args, keywords, 1)
            return b.cast(self.expr(value, node), self.dtype(bound["dtype"], node), self.reading.span(node))
        raise self.error("E111", f"no method {name!r} here", node.func)

    def _buffer_method(self, buffer: Buffer, name: str, node: s.Call, args: list[Any], keywords: dict[str, Any]) -> Any:
        fields = {
            "vload": ("begin", "dtype", "predicate"), "vstore": ("begin", "value", "predicate"),
            "access_ptr": ("access_mask", "ptr_type", "content_lanes", "offset", "extent"), "scope": (),
        }.get(name)  # fmt: skip
        if fields is None:
            raise self.error("E111", f"a buffer has no method {name!r}", node.func)
        bound = bind_arguments(self.reading, node, name, fields, args, keywords, 0 if name == "scope" else 1)
        match name:
            case "scope":
                return buffer.scope
            case "access_ptr":
                return self._access_ptr(buffer, bound, node)
        begin = bound["begin"] if isinstance(bound["begin"], (tuple, list)) else (bound["begin"],)
        indices = [self.index(item, node) for item in begin]
        predicate = bound.get("predicate")
        mask = None if predicate is None else self.expr(predicate, node)
        if name == "vload":
            dtype = self.dtype(bound.get("dtype") or buffer.dtype, node)
            lanes = dtype.lanes // buffer.dtype.lanes
            if lanes > 1 and indices and b.dtype_of(indices[-1]).lanes == 1:
                indices[-1] = b.ramp(indices[-1], 1, lanes)
            return self.load(buffer, tuple(indices), node, mask)
        return self.vstore(buffer, indices, bound, mask, node)

    def vstore(
        self, buffer: Buffer, indices: list[Expr], bound: dict[str, Any], mask: Expr | None, node: s.Call
    ) -> Any:
        """``A.vstore(...)``: a statement."""
        raise self.error("E113", "vstore is a statement", node)

    def _access_ptr(self, buffer: Buffer, bound: dict[str, Any], node: s.Call) -> Expr:
        mask = bound["access_mask"]
        if type(mask) is str:
            bits = {"r": 1, "w": 2, "rw": 3, "wr": 3}.get(mask)
            if bits is None:
                raise self.error("E113", f"access mask {mask!r}: write r, w or rw", node)
            mask = bits
        mask = self.as_integer(mask, node)
        offset = self.index(bound.get("offset", 0), node)
        extent = bound.get("extent")
        if extent is None:
            total: Expr = IntImm(1, _INT64)
            for dim in buffer.shape:
                total = b.mul(total, dim)
            extent = b.sub(total, offset)
        if buffer.elem_offset is not None:
            offset = b.add(buffer.elem_offset, offset)
        marker = Call(op("T.type_annotation"), (), {}, (), prim_type(buffer.dtype))
        args = (marker, buffer.data, offset, self.index(extent, node), b.const(mask, "int32"))
        return Call(op("T.tvm_access_ptr"), args, {}, (), prim_type("handle"), self.reading.span(node))
