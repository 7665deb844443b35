"""Operands of instructions: elements that each lane names by a pointer and an offset behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ...expr import Call
from ...scalar import BufferLoad
from ...types import Expr, PrimType, pointed
from .expressions import ExprCompiler
from .lanes import WARP, Mask
from .memory import Storage


def name_of(expr: Any) -> str:
    """The name of the memory behind an address, for messages."""
    if type(expr) is Call:
        expr = expr.args[1] if len(expr.args) > 1 else getattr(expr.args[0], "buffer", expr)
    return str(getattr(expr, "name", "memory"))


def element_of(expr: Expr) -> DataType | None:
    """The element type behind an address; None where it does not say what it points to."""
    if type(expr) is Call and expr.op_name == "T.tvm_access_ptr" and isinstance(expr.args[0].ty, PrimType):
        return expr.args[0].ty.dtype.element
    if type(expr) is Call and expr.op_name == "T.address_of" and type(expr.args[0]) is BufferLoad:
        return expr.args[0].buffer.dtype.element
    dtype = pointed(expr.ty)
    return None if dtype is None else dtype.element


class Operand:
    """Elements from a pointer on, an argument of a call that an offset in elements follows; how they are accessed, and where."""

    def __init__(
        self, compiler: ExprCompiler, call: Call, index: int, dtype: DataType, kind: str, scope: str = "local",
        collective: bool = False, offset: bool = True,
    ) -> None:  # fmt: skip
        self.wave, self.dtype, self.span = compiler.wave, dtype, call.span
        self.address = compiler.address(call.args[index], call)
        self.offset = compiler.index(call.args[index + 1]) if offset else None
        self.name = name_of(call.args[index])
        self.site = self.wave.log.site(self.name, kind, scope, call.span, collective=collective)

    def start(self, mask: Mask) -> tuple[Storage, np.ndarray]:
        """The memory, and the byte address of the first element in every lane."""
        target = self.address(mask)
        behind = self.offset(mask) * self.dtype.itemsize if self.offset is not None else 0
        return target.storage, self.wave.rows(target.offset + behind)

    def checked(self, storage: Storage, addresses: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Byte addresses (lanes first) that must lie inside a memory. Raises InterpreterError E310."""
        item = self.dtype.itemsize
        wrong = (addresses < 0) | (addresses + item > storage.limit) | (addresses % item != 0)
        text = f"{self.name} reaches outside its memory of {storage.limit} bytes"
        self.wave.refuse(wrong, lanes, "E310", self.span, lambda _: text)
        self.wave.array = storage.flat(self.dtype, self.name)
        return addresses

    def run(self, storage: Storage, start: np.ndarray, count: int, lanes: np.ndarray) -> np.ndarray:
        """Byte addresses of ``count`` neighbours in each lane."""
        addresses = start[lanes][:, None] + np.arange(count) * self.dtype.itemsize
        return self.checked(storage, addresses, lanes)

    def aligned(self, start: np.ndarray, lanes: np.ndarray, width: int) -> None:
        """Report lanes whose first element does not lie at a multiple of ``width`` bytes."""
        misaligned = lanes[start[lanes] % width != 0]
        if misaligned.size and self.wave.array is not None:
            self.wave.misaligned(self.site, self.wave.array, misaligned, width)

    def cells(self, storage: Storage, addresses: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """The cells of elements at byte addresses of lanes."""
        item = self.dtype.itemsize
        return storage.cells(storage.element_indices(addresses, item, lanes), item)

    def load(self, storage: Storage, addresses: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Elements at byte addresses, each of a lane."""
        return self.wave.accesses.load(storage, addresses, lanes, self.dtype, self.site)

    def store(
        self, storage: Storage, addresses: np.ndarray, lanes: np.ndarray, values: np.ndarray, defined: bool = True
    ) -> None:
        """Store elements at byte addresses, each of a lane."""
        self.wave.accesses.store(storage, addresses, lanes, values, self.dtype, self.site, defined)

    # ---- in registers

    def addresses(self, mask: Mask, count: int, lanes: np.ndarray) -> tuple[Storage, np.ndarray]:
        """The memory, and byte addresses of ``count`` elements in each lane."""
        storage, start = self.start(mask)
        return storage, self.run(storage, start, count, lanes)

    def read(self, mask: Mask, count: int, lanes: np.ndarray) -> np.ndarray:
        """``count`` elements of each lane of whole warps."""
        storage, addresses = self.addresses(mask, count, lanes)
        return self.load(storage, addresses.ravel(), np.repeat(lanes, count)).reshape(-1, WARP, count)

    def write(self, mask: Mask, values: np.ndarray, lanes: np.ndarray) -> None:
        """Store the elements of each lane (warps x lanes x elements)."""
        count = values.shape[-1]
        storage, addresses = self.addresses(mask, count, lanes)
        self.store(storage, addresses.ravel(), np.repeat(lanes, count), values.ravel())
