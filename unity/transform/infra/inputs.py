"""Inputs for checking passes: arguments of any function made from its types, with small, empty, single and odd sizes.

Floats are small multiples of 1/4, so that sums and products of a few are exact; the ``special`` kind has a NaN, an infinity or
a negative zero here and there. Sizes of symbols: ``plain`` 2 to 5, ``edge`` 0 and 1, ``odd`` 1, 7, 9, 17.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arith.evaluate import evaluate
from ...ffi.dtype import DataType
from ...ir.expr import IntImm, Var
from ...ir.function import Function, PrimFunc
from ...ir.relation import dims
from ...ir.types import Expr, PrimType, ShapeType, TensorType, TupleType, Type
from ...ir.walk import free_vars

SIZES = {"plain": (2, 3, 4, 5), "edge": (0, 1), "odd": (1, 7, 9, 17), "special": (2, 3, 5)}
KINDS = ("plain", "edge", "odd", "special")
MAX_ELEMENTS = 1 << 26
"""Arguments with more elements are not made: the function is skipped."""


class NoInput(Exception):
    """A type of which no value can be made; the text says why."""


@dataclass(slots=True)
class Inputs:
    """Arguments of one call, how they were made, and the sizes of the symbols."""

    arguments: list[Any]
    kind: str
    seed: int
    sizes: dict[str, int]

    def __str__(self) -> str:
        sizes = ", ".join([f"{name}={size}" for name, size in self.sizes.items()])
        return f"{self.kind} {sizes}" if sizes else self.kind


class InputMaker:
    """Makes arguments; each symbol gets one size. ``limit`` bounds integer data from above (they may be indices)."""

    def __init__(self, seed: int, kind: str = "plain", limit: int = 8, sizes: Mapping[str, int] | None = None) -> None:
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.kind = kind
        self.limit = limit
        self.fixed = dict(sizes or {})
        self.symbols: dict[Var, int] = {}

    def size(self, dim: Expr) -> int:
        """Value of a dimension. Raises NoInput."""
        if isinstance(dim, IntImm):
            return dim.value
        for symbol in free_vars(dim):
            if symbol not in self.symbols:
                chosen = self.fixed.get(symbol.name)
                self.symbols[symbol] = self.random.choice(SIZES[self.kind]) if chosen is None else chosen
        if isinstance(dim, Var):
            return self.symbols[dim]
        found = evaluate(dim, self.symbols)
        if found is None or found < 0:
            raise NoInput(f"no size for {dim}")
        return found

    def array(self, shape: tuple[int, ...], dtype: DataType) -> np.ndarray:
        """Data of a shape and dtype. Raises NoInput for more than MAX_ELEMENTS."""
        if int(np.prod(shape, dtype=object)) > MAX_ELEMENTS:
            raise NoInput(f"a tensor of shape {shape} is too large to check with")
        if dtype.is_float:
            made = np.asarray(self.data.integers(-8, 9, shape) / 4).astype(dtype.numpy)
            if self.kind == "special" and made.size:
                value = self.random.choice((np.nan, np.inf, -np.inf, -0.0))
                made.reshape(-1)[self.random.randrange(made.size)] = value
            return made
        if dtype.is_bool:
            return np.asarray(self.data.integers(0, 2, shape)).astype("bool")
        return np.asarray(self.data.integers(0, self.limit, shape)).astype(dtype.numpy)

    def value(self, ty: Type) -> Any:
        """A value of a type. Raises NoInput where it says too little."""
        if isinstance(ty, TensorType) and ty.dtype is not None:
            known = dims(ty)
            if known is None:
                rank = ty.ndim if ty.ndim >= 0 else 2
                return self.array(tuple([self.random.choice(SIZES[self.kind]) for _ in range(rank)]), ty.dtype)
            return self.array(tuple([self.size(d) for d in known]), ty.dtype)
        if isinstance(ty, ShapeType) and ty.values is not None:
            return tuple([self.size(d) for d in ty.values])
        if isinstance(ty, TupleType):
            return tuple([self.value(f) for f in ty.fields])
        if isinstance(ty, PrimType) and ty.dtype.code != "handle":
            return self.array((), ty.dtype).item()
        raise NoInput(f"no value for the type {ty}")

    def scalar(self, param: Var) -> Any:
        """A scalar parameter of a graph function or tensor program: integers are sizes as well."""
        if isinstance(param.ty, PrimType) and param.ty.dtype.is_integral and not param.ty.dtype.is_bool:
            return self.size(param)
        return self.value(param.ty)

    def arguments(self, fn: Function | PrimFunc) -> list[Any]:
        """Arguments of a function in order. Raises NoInput."""
        if isinstance(fn, Function):
            return [self.scalar(p) if isinstance(p.ty, PrimType) else self.value(p.ty) for p in fn.params]
        found: list[Any] = []
        for param in fn.params:
            buffer = fn.buffer_map.get(param)
            if buffer is None:
                found.append(self.scalar(param))
                continue
            shape = tuple([self.size(d) for d in buffer.shape])
            lanes = (buffer.dtype.lanes,) if buffer.dtype.lanes > 1 else ()
            found.append(self.array((*shape, *lanes), buffer.dtype.element))
        return found


def make_inputs(
    fn: Function | PrimFunc, seed: int, kind: str, limit: int = 8, sizes: Mapping[str, int] | None = None
) -> Inputs:
    """Arguments of a function. Raises NoInput."""
    maker = InputMaker(seed, kind, limit, sizes)
    arguments = maker.arguments(fn)
    return Inputs(arguments, kind, seed, {v.name: n for v, n in maker.symbols.items()})
