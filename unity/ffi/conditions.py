"""The conditions on a value from outside and the words of what fails them, for checked entries and for the check instructions
of the VM. Machine code tests the same conditions and leaves the words to these.

A fault is (code, message): E603 kind, E604 dtype, E605 rank or length, E606 constant dimension, E607 symbol, E608 formula,
E609 layout, E610 read-only, E613 range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .abi import Dim, symbols_of
from .dtype import DataType
from .formula import formula_text

Fault = tuple[str, str]


def kind_fault(array: np.ndarray, dtype: str, wanted: str | None, ndim: int | None) -> Fault | None:
    """A tensor of a dtype and rank (None: any)."""
    if wanted is not None and dtype != wanted:
        return "E604", f"expected {wanted}, got {dtype}"
    if ndim is not None and array.ndim != ndim:
        return "E605", f"expected {ndim} dimensions, got {array.ndim} (shape {array.shape})"
    return None


def compact_fault(array: np.ndarray) -> Fault | None:
    """A C-contiguous tensor."""
    if array.flags.c_contiguous:
        return None
    steps = tuple([step // array.itemsize for step in array.strides])
    return "E609", f"expected a C-contiguous tensor, got shape {array.shape} with strides {steps}"


def read_only_fault(array: np.ndarray) -> Fault | None:
    """Memory that the function writes."""
    return None if array.flags.writeable else ("E610", "is written by the function, but the tensor is read-only")


def length_fault(count: int, wanted: int, what: str) -> Fault | None:
    """A tuple or shape of a length."""
    return None if count == wanted else ("E605", f"expected {wanted} {what}, got {count}")


def range_fault(number: int, dtype: str) -> Fault | None:
    """A whole number of an integer type."""
    kind = DataType(dtype)
    low, high = (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.is_int else (0, (1 << kind.bits) - 1)
    return None if low <= number <= high else ("E613", f"{number} does not fit into {dtype} ({low} to {high})")


def dimension_fault(
    dim: Dim, expected: int, got: int, names: Sequence[str], values: Mapping[int, int], origins: Mapping[int, str]
) -> Fault | None:
    """A dimension that is what a formula of symbols says; the message tells where each got its value."""
    if expected == got:
        return None
    if isinstance(dim, int):
        return "E606", f"expected {expected}, got {got}"
    if dim[0] == "sym":
        return "E607", f"expected {names[dim[1]]} = {expected} (from {origins[dim[1]]}), got {got}"
    given = ", ".join([f"{names[k]} = {values[k]} (from {origins[k]})" for k in sorted(symbols_of(dim))])
    return "E608", f"expected {formula_text(dim, names)} = {expected}, got {got}; {given}"
