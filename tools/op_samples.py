"""Samples of operators: the texts that rows carry, read as calls with tensors described by their types.

``f32[3, 4]`` is a tensor of random elements, ``f32[3](0.1, 2)`` one between bounds, ``i64([0, 2])`` one of these elements,
``(3, -1)`` a shape, ``[f32[2], f32[3]]`` a tuple of tensors; the rest are Python values.
``each(a, b)`` stands for one call with ``a`` and one with ``b``; ``;`` ends a call. Not here: random elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from unity.ir.build import const
from unity.ir.expr import Call, ShapeExpr, Tuple, Var
from unity.ir.op import OpInfo
from unity.ir.relation import dims, tensor_type
from unity.ir.types import Expr, TensorType, TupleType, Type
from unity.op.common.table import OPERATORS


@dataclass(slots=True)
class Draw:
    """A tensor of a sample: its type, and where its elements come from."""

    dtype: str
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    elements: Any = None

    def __call__(self, low: float, high: float) -> Draw:
        return replace(self, low=low, high=high)

    def __str__(self) -> str:
        short = next(s for s, name in SHORT.items() if name == self.dtype)
        return f"{short}[{', '.join(map(str, self.shape))}]" if self.elements is None else f"{short}({self.elements})"


@dataclass(slots=True)
class _Kind:
    dtype: str

    def __getitem__(self, shape: int | tuple[int, ...]) -> Draw:
        return Draw(self.dtype, shape if isinstance(shape, tuple) else (shape,))

    def __call__(self, elements: Any) -> Draw:
        return Draw(self.dtype, np.shape(elements), elements=elements)


@dataclass(slots=True)
class Sample:
    """Arguments of one call: tensors as ``Draw``, tuples of tensors as lists, shapes as tuples; and attributes."""

    inputs: list[Any]
    attrs: dict[str, Any]
    text: str = ""

    def __str__(self) -> str:
        """The arguments without bounds of elements; a text with a function, which cannot be shown otherwise, as it is written."""
        if "lambda" in self.text:
            return self.text
        shown = [f"[{', '.join(map(str, v))}]" if isinstance(v, list) else str(v) for v in self.inputs]
        return ", ".join([*shown, *[f"{name}={value!r}" for name, value in self.attrs.items()]])


class _Each(tuple[Any, ...]):
    """Values of which each makes a call."""


SHORT = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "b": "bool", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
"""Data types as samples write them."""
_NAMES: dict[str, Any] = {
    **{short: _Kind(name) for short, name in SHORT.items()},
    "each": lambda *values: _Each(values),
    "call": lambda *inputs, **attrs: (inputs, attrs),
}


def read_samples(text: str) -> Iterator[Sample]:
    """The calls that the text of a row stands for."""
    for part in filter(str.strip, text.split(";")):
        inputs, attrs = eval(f"call({part.strip()})", {"__builtins__": {}}, _NAMES)
        values = [*inputs, *attrs.values()]
        for chosen in product(*[v if type(v) is _Each else (v,) for v in values]):
            yield Sample(list(chosen[: len(inputs)]), dict(zip(attrs, chosen[len(inputs) :])), part.strip())


def sample_call(info: OpInfo, sample: Sample) -> Call:
    """The call of an operator with variables of the types of a sample."""
    return OPERATORS[info.name](*[_argument(v) for v in sample.inputs], **sample.attrs)


def _argument(value: Any) -> Any:
    if isinstance(value, Draw):
        return Var("x", tensor_type(_shape(value.shape), value.dtype))
    if isinstance(value, list):
        return Tuple(tuple([_argument(v) for v in value]))
    return ShapeExpr(tuple(_shape(value))) if isinstance(value, tuple) else value


def _shape(shape: Sequence[int]) -> list[Expr]:
    return [const(n, "int64") for n in shape]


def short_type(ty: Type) -> str:
    """A type as samples write tensors: ``f32[3, 4]``."""
    if isinstance(ty, TupleType):
        return f"({', '.join([short_type(field) for field in ty.fields])})"
    known = dims(ty) if isinstance(ty, TensorType) else None
    if not isinstance(ty, TensorType) or known is None or ty.dtype is None:
        return str(ty)
    short = next((s for s, name in SHORT.items() if name == ty.dtype.name), ty.dtype.name)
    return f"{short}[{', '.join([str(getattr(d, 'value', d)) for d in known])}]"
