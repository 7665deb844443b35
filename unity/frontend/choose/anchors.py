"""Calls whose kernel is a decision: products, convolutions, and what somebody registered a kernel of a library for.

Equal calls are one site. Not here: what computes them (`alone.py`, `kernels.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ffi.dtype import DataType
from ...ffi.library import KERNELS, Anchor
from ...ir.build import int_value
from ...ir.expr import Call, Constant, IntImm, Var
from ...ir.module import IRModule
from ...ir.relation import dims
from ...ir.types import TensorType
from ...ir.walk import collect, free_vars
from ...op.common.table import R

ANCHORS = frozenset([R.matmul.name, R.nn.conv1d.name, R.nn.conv2d.name, R.nn.conv3d.name, R.nn.conv2d_transpose.name])
"""Operators that are decided about, beside those somebody registers a kernel for."""
BUCKETS = (1, 16, 64, 256)
"""Sizes at which symbolic dimensions are measured."""
Key = tuple[Any, ...]
"""The common part of equal calls: operator, types, which operands are constants, attributes."""


@dataclass(slots=True)
class Site:
    """Calls of one operator on the same types, with the same operands constant."""

    call: Call
    constant: tuple[bool, ...]

    def anchor(self, size: int) -> Anchor | None:
        """The call with every symbol of that size; None where a type is not known well enough."""
        found = [f for f in [_shape(a.ty, size) for a in (*self.call.args, self.call)] if f is not None]
        attrs = {k: v.name if isinstance(v, DataType) else v for k, v in self.call.attrs.items()}
        if len(found) <= len(self.call.args) or not all([_plain(v) for v in attrs.values()]):
            return None
        *tensors, (shape, dtype) = found
        return Anchor(
            self.call.op_name, tuple([s for s, _ in tensors]), tuple([d for _, d in tensors]), shape, dtype, attrs
        )

    @property
    def symbolic(self) -> bool:
        """True if a dimension depends on a symbol."""
        return any([type(d) is not IntImm for a in self.call.args for d in dims(a.ty) or ()])

    def symbol(self) -> Var | None:
        """The one symbol that is a dimension of an operand, where no dimension depends on another."""
        extents = [d for a in self.call.args for d in dims(a.ty) or ()]
        found = {v for d in extents for v in free_vars(d)}
        return next(iter(found)) if len(found) == 1 and found <= {d for d in extents if isinstance(d, Var)} else None


def _shape(ty: Any, size: int) -> tuple[tuple[int, ...], str] | None:
    extents = dims(ty) if isinstance(ty, TensorType) else None
    if extents is None or ty.dtype is None:
        return None
    return tuple([int_value(e, size) for e in extents]), ty.dtype.name


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all([_plain(v) for v in value])
    return value is None or isinstance(value, (int, float, str, bool))


def key_of(call: Call) -> Key:
    """The key of a call."""
    constant = tuple([type(a) is Constant for a in call.args])
    return call.op_name, tuple([str(a.ty) for a in call.args]), constant, repr(sorted(call.attrs.items(), key=str))


def sites_of(mod: IRModule) -> dict[Key, Site]:
    """The sites of a module."""
    known = ANCHORS | {kernel.op for kernel in KERNELS.values()}
    found: dict[Key, Site] = {}
    for fn in mod.graph_functions().values():
        for call in collect(fn, Call):
            if call.op_name in known and Site(call, ()).anchor(1) is not None:
                found.setdefault(key_of(call), Site(call, tuple([type(a) is Constant for a in call.args])))
    return found


def text_of(anchor: Anchor) -> str:
    """A call as the table shows it."""
    return f"{' x '.join([str(list(s)).replace(' ', '') for s in anchor.shapes])} {anchor.dtypes[0]}"
