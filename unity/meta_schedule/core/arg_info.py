"""``TensorInfo``, ``ScalarInfo``: an argument of a program as data, at the sizes that a program is tuned for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...arith.evaluate import evaluate
from ...ir.buffer import Buffer
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.types import PrimType
from ...ir.walk import free_vars
from ...support.arguments import guarded_class
from ...support.errors import ScheduleError

Sizes = Mapping[Any, int]
"""Numbers for the symbols of shapes, by name or variable."""
LEAST = 3
"""Smaller sizes are not compared at: some programs take 0 and 1 apart."""


@guarded_class
class ArgInfo(ABC):
    """An argument of any kind."""

    __slots__ = ()
    dtype: str

    @abstractmethod
    def as_json(self) -> list[Any]:
        """TVM's form."""

    @property
    @abstractmethod
    def size(self) -> tuple[int, ...] | int:
        """The shape, or the number."""

    @staticmethod
    def from_json(data: Any) -> ArgInfo:
        """An argument from what ``as_json`` gave, here or in TVM. Raises ScheduleError E405 for anything else."""
        match data:
            case ["TENSOR", str(dtype), [*shape]] if all([type(n) is int for n in shape]):
                return TensorInfo(dtype, tuple(shape))
            case ["SCALAR", str(dtype), int(value)]:
                return ScalarInfo(dtype, value)
        raise ScheduleError("E405", f"this is not an argument of a tuning record: {data!r}")

    @staticmethod
    def from_prim_func(func: PrimFunc, sizes: Sizes | None = None) -> list[ArgInfo]:
        """The arguments of a program where its symbols, and numbers that it takes, have these sizes. Raises ScheduleError E428
        where one is not known."""
        return [_argument(param, func.buffer_map.get(param), sizes or {}) for param in func.params]

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[ArgInfo]:
        """The arguments of the one program of a module. Raises ScheduleError E407 where it has several."""
        programs = list(mod.prim_funcs().values())
        if len(programs) != 1:
            raise ScheduleError(
                "E407", f"the module has {len(programs)} programs", help="ArgInfo.from_prim_func(program)"
            )
        return ArgInfo.from_prim_func(programs[0])


@guarded_class
@dataclass(slots=True, frozen=True)
class TensorInfo(ArgInfo):
    """A tensor that a program takes."""

    dtype: str
    shape: tuple[int, ...]

    def as_json(self) -> list[Any]:
        """``["TENSOR", dtype, shape]``."""
        return ["TENSOR", self.dtype, list(self.shape)]

    @property
    def size(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape


@guarded_class
@dataclass(slots=True, frozen=True)
class ScalarInfo(ArgInfo):
    """A whole number that a program takes: a size that no shape gives alone."""

    dtype: str
    value: int

    def as_json(self) -> list[Any]:
        """``["SCALAR", dtype, value]``."""
        return ["SCALAR", self.dtype, self.value]

    @property
    def size(self) -> int:
        """The number."""
        return self.value


def _argument(param: Var, buffer: Buffer | None, sizes: Sizes) -> ArgInfo:
    name = param.name
    if buffer is None:
        value = sizes.get(param, sizes.get(name))
        if value is None or not (isinstance(param.ty, PrimType) and param.ty.dtype.is_integral):
            raise ScheduleError("E428", f"{name} is neither a tensor nor a known size",
                                help=f'say for what it is tuned: sizes={{"{name}": 128}}')  # fmt: skip
        return ScalarInfo(param.ty.dtype.name, value)
    symbols = {var for extent in buffer.shape for var in free_vars(extent)}
    known = {var: sizes.get(var, sizes.get(var.name, 0)) for var in symbols}
    unknown = sorted([var.name for var, size in known.items() if not size])
    if unknown:
        text = f"{name} has no constant shape: {', '.join(unknown)} is not known"
        raise ScheduleError("E428", text, help=f'say for what it is tuned: sizes={{"{unknown[0]}": 128}}')
    shape = [evaluate(extent, known) for extent in buffer.shape]
    whole = tuple([extent for extent in shape if extent is not None])
    if len(whole) != len(shape):
        raise ScheduleError("E428", f"the shape of {name} is more than arithmetic of sizes")
    return TensorInfo(buffer.dtype.name, whole)


def check_sizes(sizes: Mapping[str, int], symbols: set[str]) -> None:
    """Raise ScheduleError E428 for what is not a size, and for names that are not among the symbols."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ScheduleError("E428", f"the size of {name} must be a number from 1 up, got {size!r}")
        if name not in symbols:
            known = ", ".join(sorted(symbols)) or "none"
            raise ScheduleError("E428", f"no shape has the symbol {name}", help=f"the symbols: {known}")


def other_size(size: int) -> int:
    """An odd size, another one than that which is tuned for, at which results are compared as well."""
    half = size // 2 | 1
    return half if half >= LEAST else size // 2 * 2 + LEAST


__all__ = ["ArgInfo", "ScalarInfo", "Sizes", "TensorInfo", "check_sizes", "other_size"]
