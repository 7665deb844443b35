"""Buffer accesses of a batch: from indices to byte addresses, with bounds, alignment, traffic, and the values themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....support.errors import InterpreterError
from ....support.source import Span
from ...buffer import Buffer
from ...build import dtype_of
from ...types import Expr
from ..common.arrays import Value
from ..common.expressions import Closure, lanes_of
from .findings import Site
from .lanes import Mask
from .memory import Array
from .wave import Wave


def array_of(wave: Wave, buffer: Buffer, span: Span | None) -> Array:
    """The array of a buffer; InterpreterError E323 where it is not declared."""
    found = wave.env.get(buffer)
    if found is None:
        raise InterpreterError("E323", f"buffer {buffer.name} is not declared here", span)
    return found  # type: ignore[no-any-return]


class Locator:
    """The site of a buffer access: one per load and store in the program."""

    def __init__(
        self,
        wave: Wave,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        compiled: list[Closure],
        predicate: Closure | None,
        site: Site,
    ) -> None:
        self.wave, self.buffer, self.compiled, self.predicate, self.site = wave, buffer, compiled, predicate, site
        self.columns = max([lanes_of(dtype_of(i)) for i in indices], default=1)
        self.width = buffer.dtype.lanes
        self.vector = self.columns > 1 or self.width > 1

    def scalar(self, mask: Mask) -> tuple[Array, Value, Mask]:
        """Byte address in every lane, and the lanes that may go there."""
        array = self._array()
        address, bad = self._address(array, [c(mask) for c in self.compiled], mask)
        if bad is not None:
            mask = mask.where(~bad)
        self.wave.count(self.site, array.storage, address, mask, array.dtype.itemsize)
        return array, address, mask

    def columns_of(self, mask: Mask) -> tuple[Array, np.ndarray, np.ndarray]:
        """Byte addresses in lanes x columns, and which of them are accessed."""
        array, size = self._array(), self.wave.batch.size
        point = [c(mask) for c in self.compiled]
        address, bad = self._address(
            array, [p if np.ndim(p) != 1 or self.columns == 1 else p[:, None] for p in point], mask
        )
        item = array.dtype.element.itemsize
        if np.ndim(address) == 1:
            address = address[:, None]
        if self.width > 1:
            address = (np.asarray(address)[..., None] + np.arange(self.width) * item).reshape(
                *np.shape(address)[:-1], -1
            )
        total = self.columns * self.width
        address = np.broadcast_to(address, (size, total))
        active = np.broadcast_to(mask.lanes[:, None], (size, total))
        if bad is not None:
            bad = bad[:, None] if np.ndim(bad) == 1 else bad
            active = active & ~(np.repeat(bad, total // np.shape(bad)[-1], axis=-1) if np.ndim(bad) else bad)
        if self.predicate is not None:
            active = active & self.predicate(mask)
        self._count_columns(array, address, active, item)
        return array, address, active

    def _array(self) -> Array:
        array = array_of(self.wave, self.buffer, self.site.span)
        self.wave.array = array
        return array

    def _address(self, array: Array, point: list[Value], mask: Mask) -> tuple[Value, Value]:
        if len(point) != len(array.shape):
            text = f"{array.name} has {len(array.shape)} axes, indexed with {len(point)}"
            raise InterpreterError("E310", text, self.site.span)
        offset, bad = array.base, None
        for index, extent, stride in zip(point, array.shape, array.strides):
            outside = (index < 0) | (index >= extent)
            if outside if np.ndim(outside) == 0 else outside.any():
                bad = outside if bad is None else bad | outside
            offset = offset + index * stride
        address = array.start + offset * array.dtype.itemsize
        if bad is not None:
            bad = self._report(bad, mask, lambda lanes, column: self.wave.out_of_bounds(
                self.site, array, point, lanes, column
            ))  # fmt: skip
        if not array.inside:
            bad = self._inside(array, address, mask, bad)
        return address, bad

    def _inside(self, array: Array, address: Value, mask: Mask, bad: Value) -> Value:
        """Check addresses against the memory itself where the whole buffer is not known to be inside."""
        item, storage = array.dtype.itemsize, array.storage
        element = array.dtype.element.itemsize
        outside = (address < 0) | (address + item > storage.limit)
        if bad is not None:
            outside = outside & ~bad
        misaligned = address % element != 0
        outside = self._report(outside, mask, lambda lanes, _: self.wave.outside_memory(self.site, array, lanes))
        misaligned = self._report(
            misaligned, mask, lambda lanes, _: self.wave.misaligned(self.site, array, lanes, element)
        )
        for more in (outside, misaligned):
            if more is not None:
                bad = more if bad is None else bad | more
        return bad

    def _report(self, bad: Value, mask: Mask, tell: Callable[[np.ndarray, int], None]) -> Value:
        """Tell of lanes of the mask for which ``bad`` holds; None where there is none."""
        if np.ndim(bad) == 2:
            masked = bad & mask.lanes[:, None]
            if masked.any():
                rows, columns = np.nonzero(masked)
                if self.predicate is None:
                    tell(rows, int(columns[0]))
            return bad if masked.any() else None
        masked = mask.lanes & bad
        if not masked.any():
            return None
        tell(np.flatnonzero(masked), 0)
        return bad if np.ndim(bad) else masked

    def _count_columns(self, array: Array, address: np.ndarray, active: np.ndarray, item: int) -> None:
        wave, total = self.wave, address.shape[1]
        steps = np.arange(total) * item
        whole: np.ndarray = np.all(active, axis=1)
        if (whole == np.any(active, axis=1)).all() and (address - address[:, :1] == steps).all():
            start, width = address[:, 0], item * total
            misaligned = np.flatnonzero(whole & (start % width != 0)) if width in (2, 4, 8, 16) else whole[:0]
            if misaligned.size and array.storage.scope != "local":
                wave.misaligned(self.site, array, misaligned, width)
            wave.count(self.site, array.storage, start, Mask(whole), width)
            return
        for column in range(total):
            wave.count(self.site, array.storage, address[:, column], Mask(active[:, column]), item)

    # ---- values

    def load(self, mask: Mask) -> Value:
        """The numbers read; 0 where nothing is read."""
        wave, site = self.wave, self.site
        if self.vector:
            array, address, active = self.columns_of(mask)
            rows, columns = np.nonzero(active)
            found = np.zeros(address.shape, array.dtype.numpy)
            found[rows, columns] = wave.accesses.load(
                array.storage, address[rows, columns], rows, array.dtype.element, site
            )
            return found
        array, address, good = self.scalar(mask)
        storage, dtype = array.storage, array.dtype
        if not good.count:
            return np.zeros((), dtype.numpy)[()]
        if np.ndim(address) == 0 and np.ndim(storage.owner) == 0 and storage.shadow is None:
            return wave.accesses.load(storage, np.full(1, address), good.index[:1], dtype, site)[0]
        if np.ndim(address) == 0:
            address = np.full(wave.batch.size, address)
        values = wave.accesses.load(storage, good.picked(address), good.index, dtype, site)
        if good.all:
            return values
        found = np.zeros(wave.batch.size, dtype.numpy)
        found[good.index] = values
        return found

    def store(self, mask: Mask, value: Value, defined: bool) -> None:
        """Store numbers (lanes, or lanes x columns)."""
        wave, site = self.wave, self.site
        if self.vector:
            array, address, active = self.columns_of(mask)
            self._writable(array)
            rows, columns = np.nonzero(active)
            numbers = np.broadcast_to(value, address.shape)[rows, columns]
            wave.accesses.store(
                array.storage, address[rows, columns], rows, numbers, array.dtype.element, site, defined
            )
            return
        array, address, good = self.scalar(mask)
        self._writable(array)
        if not good.count:
            return
        if np.ndim(address) == 0:
            address = np.full(wave.batch.size, address)
        wave.accesses.store(
            array.storage, good.picked(address), good.index, good.picked(value), array.dtype, site, defined
        )

    def _writable(self, array: Array) -> None:
        if not array.storage.raw.flags.writeable:
            raise InterpreterError("E319", f"{array.name} is read-only memory", self.site.span)
