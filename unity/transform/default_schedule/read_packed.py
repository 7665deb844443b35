"""Programs that read a weight element by element read it packed, where another program packs the same memory.

Rewrite: ``y[i, j] = table[ids[i], j]`` beside a product that takes ``table`` transposed and packed in blocks ->
``y[i, j] = packed[ids[i] // 64, j, ids[i] % 64]``. Only for weights whose memory goes with the last reader: a tied table is not
held twice then. Not here: programs that a rule has scheduled. Invariant: each load gives the same element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir.buffer import Buffer
from ...ir.build import const
from ...ir.expr import Constant, Var
from ...ir.function import PrimFunc, is_scheduled
from ...ir.node import replace
from ...ir.scalar import BufferLoad
from ...ir.walk import collect, rewrite
from ..infra.constant_lifetime import is_owned
from ..infra.constant_provenance import peek
from .packing import Packing

Form = tuple[Constant, Packing]
"""A constant that is packed, and how."""


@dataclass(slots=True)
class PackedRead:
    """A program that now takes some parameters packed: which constant in which layout, by position."""

    func: PrimFunc
    forms: dict[int, Form] = field(default_factory=dict)


def read_packed(
    functions: Mapping[str, PrimFunc],
    calls: Mapping[str, Sequence[tuple[Any, ...]]],
    layouts: Mapping[str, Mapping[int, Packing]],
) -> dict[str, PackedRead]:
    """Programs with a single call that may read a weight as ``layouts`` (of other programs, by position) pack it."""
    forms: dict[int, Form] = {}
    for name, packed in layouts.items():
        for args in calls[name]:
            for index, layout in [item for item in packed.items() if not item[1].fused]:
                forms.setdefault(args[index].data.data_ptr, (args[index], layout))
    made: dict[str, PackedRead] = {}
    for name, fn in functions.items():
        if is_scheduled(fn) or len(calls.get(name, ())) != 1:
            continue
        for index, value in enumerate(calls[name][0]):
            form = forms.get(value.data.data_ptr) if type(value) is Constant and is_owned(value.data) else None
            order = None if form is None else _order(peek(value.data), peek(form[0].data))
            if form is None or order is None:
                continue
            reader = made.get(name) or PackedRead(fn)
            changed = _reading(reader.func, index, order, form)
            if changed is not None:
                reader.func = changed
                reader.forms[index] = form
                made[name] = reader
    return made


def _order(array: np.ndarray, packed: np.ndarray) -> tuple[int, ...] | None:
    """For each axis of the array that is packed the axis of the other one that walks the same memory; None for other elements."""
    axes = list(zip(array.shape, array.strides))
    wanted = list(zip(packed.shape, packed.strides))
    if array.dtype != packed.dtype or sorted(axes) != sorted(wanted) or len(set(axes)) < len(axes):
        return None
    return tuple([axes.index(axis) for axis in wanted])


def _reading(fn: PrimFunc, index: int, order: tuple[int, ...], form: Form) -> PrimFunc | None:
    """The program with one parameter packed; None where it does more with it than load elements."""
    param = fn.params[index]
    old = fn.buffer_map.get(param)
    if old is None or old.strides or old.elem_offset is not None or len(old.shape) != len(order):
        return None
    name, packed = f"{old.name}_packed", form[1].shape(form[0].data.shape)
    shape = tuple([const(extent, "int64") for extent in packed])
    new = replace(old, data=Var(name, old.data.ty), shape=shape, name=name)

    def moved(load: BufferLoad) -> BufferLoad:
        if load.buffer is not old or load.predicate is not None:
            return load
        indices = form[1].indices(tuple([load.indices[axis] for axis in order]))
        return replace(load, buffer=new, indices=indices)

    body = rewrite(fn.body, {BufferLoad: moved})
    if any([buffer is old for buffer in collect(body, Buffer)]):
        return None
    return replace(fn, body=body, buffer_map={**fn.buffer_map, param: new})


__all__ = ["PackedRead", "read_packed"]
