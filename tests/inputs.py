"""Arguments for any function of a module, made from its types; tensor programs get outputs filled with data as well."""

from __future__ import annotations

import operator
import random
from typing import Any

import numpy as np

from unity.ffi.dtype import DataType
from unity.ir.expr import IntImm, Var
from unity.ir.function import Function, PrimFunc
from unity.ir.relation import dims
from unity.ir.scalar import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub
from unity.ir.types import Expr, PrimType, ShapeType, TensorType, TupleType, Type

_OPERATIONS: dict[type, Any] = {
    Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b, FloorDiv: operator.floordiv, FloorMod: operator.mod, Min: min,
    Max: max,
}  # fmt: skip


class InputMaker:
    """Makes arguments; each symbol gets one small size."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.symbols: dict[Var, int] = {}

    def size(self, dim: Expr) -> int:
        """Value of a dimension."""
        if isinstance(dim, IntImm):
            return dim.value
        if isinstance(dim, Var):
            return self.symbols.setdefault(dim, self.rng.choice((2, 3, 4, 5)))
        operation = _OPERATIONS.get(type(dim))
        if operation is None:
            raise ValueError(f"no size for {dim}")
        return int(operation(self.size(dim.a), self.size(dim.b)))  # type: ignore[attr-defined]

    def array(self, shape: tuple[int, ...], dtype: DataType) -> np.ndarray:
        """Data of a dtype: small dyadic floats, small integers."""
        if dtype.is_float:
            return (self.data.integers(-16, 16, shape) / 4).astype(dtype.numpy)
        if dtype.is_bool:
            return self.data.integers(0, 2, shape).astype("bool")
        return self.data.integers(0, 8, shape).astype(dtype.numpy)

    def value(self, ty: Type) -> Any:
        """A value of a type. Raises ValueError where it says too little."""
        if isinstance(ty, TensorType) and ty.dtype is not None:
            known = dims(ty)
            if known is None:
                known_rank = ty.ndim if ty.ndim >= 0 else 2
                return self.array((3,) * known_rank, ty.dtype)
            return self.array(tuple([self.size(d) for d in known]), ty.dtype)
        if isinstance(ty, ShapeType) and ty.values is not None:
            return tuple([self.size(d) for d in ty.values])
        if isinstance(ty, TupleType):
            return tuple([self.value(f) for f in ty.fields])
        if isinstance(ty, PrimType) and ty.dtype.code != "handle":
            return self.array((), ty.dtype).item()
        raise ValueError(f"no value for the type {ty}")

    def arguments(self, fn: Function | PrimFunc) -> list[Any]:
        """Arguments of a function in order."""
        if isinstance(fn, Function):
            return [self.value(p.ty) for p in fn.params]
        found: list[Any] = []
        for param in fn.params:
            buffer = fn.buffer_map.get(param)
            if buffer is None and isinstance(param.ty, PrimType) and param.ty.dtype.is_integral:
                found.append(self.symbols.setdefault(param, self.rng.choice((2, 3, 4))))
            elif buffer is None:
                found.append(self.value(param.ty))
            else:
                shape = tuple([self.size(d) for d in buffer.shape])
                found.append(
                    self.array(shape, buffer.dtype)
                    if buffer.dtype.lanes == 1
                    else self.array((*shape, buffer.dtype.lanes), buffer.dtype)
                )
        return found
