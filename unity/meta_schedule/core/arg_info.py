"""``TensorInfo``: an argument of a program as data: its element type and its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.expr import IntImm
from ...ir.function import PrimFunc
from ...support.errors import ScheduleError


@dataclass(slots=True, frozen=True)
class TensorInfo:
    """A tensor that a program takes."""

    dtype: str
    shape: tuple[int, ...]

    def as_json(self) -> list[Any]:
        """TVM's form: ``["TENSOR", dtype, shape]``."""
        return ["TENSOR", self.dtype, list(self.shape)]

    @staticmethod
    def from_json(data: Any) -> TensorInfo:
        """An argument from what ``as_json`` gave, here or in TVM. Raises ScheduleError E405 for anything else."""
        match data:
            case ["TENSOR", str(dtype), [*shape]] if all([type(n) is int for n in shape]):
                return TensorInfo(dtype, tuple(shape))
        raise ScheduleError("E405", f"this is no argument of a tuning record: {data!r}")

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[TensorInfo]:
        """The arguments of a program. Raises ScheduleError E428 where one is no tensor of a constant shape."""
        return [_argument(param.name, func.buffer_map.get(param)) for param in func.params]


def _argument(name: str, buffer: Any) -> TensorInfo:
    shape = buffer.shape if buffer is not None else ()
    if buffer is None or not all([type(n) is IntImm for n in shape]):
        raise ScheduleError("E428", f"{name} is no tensor of a constant shape",
                            help="bind the symbols of the program to the sizes it is tuned for")  # fmt: skip
    return TensorInfo(buffer.dtype.name, tuple([n.value for n in shape]))


ArgInfo = TensorInfo
"""TVM's name of all kinds of arguments; programs that are tuned take tensors."""

__all__ = ["ArgInfo", "TensorInfo"]
