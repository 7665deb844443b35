"""Builtins whose result size depends on the data: nonzero, unique, slices with bounds in tensors. Not here: other builtins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ffi.dtype import sortable
from ...ffi.tensor import Tensor
from ...support.errors import VMError


def nonzero(value: Tensor) -> Tensor:
    """Indices of the elements that are not 0, (rank, count)."""
    data = value.numpy()
    places = np.flatnonzero(data if data.dtype == np.bool_ else data != 0)
    found = np.empty((data.ndim, places.size), np.int64)
    for axis in reversed(range(1, data.ndim)):  # quicker than np.nonzero, which walks over the indices
        np.divmod(places, max(data.shape[axis], 1), out=(found[axis - 1], found[axis]))
        places = found[axis - 1]
    if data.ndim == 1:
        found[0] = places
    return Tensor(found)


def unique(value: Tensor, ordered: int, index: int, inverse: int, counts: int, axis: int | None = None) -> Any:
    """Different elements in order, and what else is wanted. The order is always that of the values."""
    find: Any = np.unique
    data = value.numpy()
    result = find(sortable(data), bool(index), bool(inverse), bool(counts), axis)
    if not isinstance(result, tuple):
        return Tensor(np.ascontiguousarray(result.astype(data.dtype)))
    rest = [Tensor(np.ascontiguousarray(part.reshape(-1).astype(np.int64))) for part in result[1:]]
    return (Tensor(np.ascontiguousarray(result[0].astype(data.dtype))), *rest)


def dynamic_strided_slice(value: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    """A copy of part of a tensor. Raises VMError E603 for bounds that do not fit the rank, or a stride of 0."""
    bounds = [[int(v) for v in part.numpy().reshape(-1)] for part in (begin, end, strides)]
    if any([len(part) != value.ndim for part in bounds]):
        raise VMError("E603", f"a slice of a tensor of {value.ndim} dimensions needs as many bounds")
    if 0 in bounds[2]:
        raise VMError("E603", "a stride of 0 has no meaning")
    parts = [slice(b, None if s < 0 and e < -n else e, s) for b, e, s, n in zip(*bounds, value.shape, strict=True)]
    return Tensor(np.array(value.numpy()[tuple(parts)], order="C"))
