"""Lanes of vectors in LLVM IR: a value in all lanes, some lanes of a vector, two vectors as one."""

from __future__ import annotations

from collections.abc import Sequence

from ...ffi.dtype import DataType
from .lltypes import value_type
from .writer import FunctionWriter


def splat(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """A scalar operand repeated in all lanes of a vector type."""
    ty, element = value_type(dtype), value_type(dtype.element)
    single = w.emit(f"insertelement {ty} poison, {element} {text}, i64 0")
    return w.emit(f"shufflevector {ty} {single}, {ty} poison, <{dtype.lanes} x i32> zeroinitializer")


def shuffled(w: FunctionWriter, ty: str, text: str, lanes: Sequence[int], other: str = "poison") -> str:
    """Some lanes of a vector and of a second one, whose lanes count on from the first's; a negative number is any value."""
    picks = ", ".join([f"i32 {i}" if i >= 0 else "i32 poison" for i in lanes])
    return w.emit(f"shufflevector {ty} {text}, {ty} {other}, <{len(lanes)} x i32> <{picks}>")


def concat_vectors(w: FunctionWriter, element: str, parts: Sequence[str], sizes: tuple[int, int]) -> str:
    """Two vectors after each other."""
    large = max(sizes)
    grown = []
    for part, size in zip(parts, sizes):
        if size < large:  # a shuffle joins vectors of one length
            part = shuffled(w, f"<{size} x {element}>", part, [*range(size), *[-1] * (large - size)])
        grown.append(part)
    lanes = [*range(sizes[0]), *range(large, large + sizes[1])]
    return shuffled(w, f"<{large} x {element}>", grown[0], lanes, grown[1])
