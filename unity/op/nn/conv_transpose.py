"""Transposed convolution: the map whose matrix is the transpose of a convolution's.

Layouts as in conv.py; the weight is IOHW (input channels first). Every output gathers what reaches it, so outputs are
independent of each other. With stride s it is s convolutions of stride one along each axis, whose results interleave. Each has the
taps that reach it and no others, so an infinite or NaN element of the data spoils what it reaches; one of the weight also the
places at the borders where it is multiplied by padding, as in an ordinary convolution (asking for each product whether it is one of
the padding takes 4 to 25 times as long).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ... import te
from ...arith import Analyzer
from ...ir import build
from ...ir.expr import Call, IntImm
from ...ir.relation import indivisible, unequal
from ...ir.types import Expr
from ..common.lowering import cast_tensor, result_dims, result_dtype
from ..common.table import Operator, attribute, row
from ..common.type_rules import fail, int_attr, ints_attr
from .conv import (
    accumulator_dtype,
    as_tuple,
    conv_grad,
    conv_layouts,
    conv_params,
    conv_ref,
    conv_type,
    pad_tensor,
    pads,
    spatial,
    upcast_product,
)


def _extra(call: Call, rank: int, strides: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    value = ints_attr(call, "output_padding")
    value = value * rank if len(value) == 1 else value
    if len(value) != rank or any([v < 0 or (v >= s and v >= d) for v, s, d in zip(value, strides, dilation)]):
        raise fail(
            call, "E214", f"output_padding must be {rank} numbers from 0 below the stride or the dilation, got {value}"
        )
    return value


def _extents(call: Call, data: list[Expr], weight: list[Expr]) -> list[Expr]:
    rank, groups, channels = len(data) - 2, int_attr(call, "groups"), data[1]
    strides, dilation = spatial(call, "strides", rank), spatial(call, "dilation", rank)
    if unequal(channels, weight[0]):
        raise fail(call, "E213", f"data has {channels} channels, the weight takes {weight[0]}", arg=1)
    if groups < 1 or indivisible(channels, build.const(groups, "int64")):
        raise fail(call, "E213", f"{channels} channels do not divide into {groups} groups", arg=0)
    result = [weight[1] * groups]
    axes = zip(data[2:], weight[2:], strides, dilation, *pads(call, rank), _extra(call, rank, strides, dilation))
    for size, taps, stride, step, before, after, extra in axes:
        full = (size - 1) * stride + (taps - 1) * step
        result.append(Analyzer().simplify(full + (1 + extra - before - after)))
    return result


@dataclass(slots=True, frozen=True)
class Group:
    """``count`` phases from ``start`` on, each over ``taps`` taps: tap t of phase p is element t * stride + p of the kernel."""

    start: int
    count: int
    taps: int


@dataclass(slots=True, frozen=True)
class Phases:
    """One axis of a transposed convolution as ``stride`` interleaved convolutions of stride one.

    Place p of the uncropped result belongs to phase p % stride and reads elements p // stride - tap * dilation. Where the
    stride does not divide the kernel, the first phases have a tap more: two groups, and nothing is multiplied by zeros.
    ``first``: the least p // stride computed; ``reach``: elements before it that the most taps read; ``high``: border the
    data needs behind; ``offset``: what is cropped before the result.
    """

    stride: int
    dilation: int
    groups: tuple[Group, ...]
    first: int
    reach: int
    high: int
    offset: int


def phases(call: Call, kernel: Sequence[Expr]) -> list[Phases] | None:
    """Phases of each spatial axis; None where a kernel's size is not known or strides and dilations are mixed."""
    rank = len(kernel)
    strides, dilation = spatial(call, "strides", rank), spatial(call, "dilation", rank)
    before, after = pads(call, rank)
    extra = _extra(call, rank, strides, dilation)
    result = []
    for axis, size in enumerate(kernel):
        stride, step = strides[axis], dilation[axis]
        if type(size) is not IntImm or size.value < 1 or (stride > 1 and step > 1):
            return None
        taps, longer = divmod(size.value, stride)
        pair = Group(0, longer, taps + 1), Group(longer, stride - longer, taps)
        groups = tuple([g for g in pair if g.count])
        first = min(before[axis] // stride, min([g.taps - 1 for g in groups if g.taps]) * step)
        last = ((size.value - 1) * step - after[axis] + extra[axis]) // stride
        reach = (groups[0].taps - 1) * step
        result.append(Phases(stride, step, groups, first, reach, max(0, last), before[axis] - first * stride))
    return result


def _lower(rank: int) -> Any:
    def lower(call: Call, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        data, kernel, out = conv_layouts(call, rank, "IO")
        groups = int_attr(call, "groups")
        dtype = result_dtype(call)
        acc_dtype = accumulator_dtype(dtype)
        inner = x.shape[data[1]] // groups
        each = te.Value(w.shape[kernel[1]])
        rc = te.reduce_axis((0, inner), "rc")

        def ends(f: te.Value) -> tuple[Any, Any]:
            """Channel of the data, and of the weight."""
            channel = rc if groups == 1 else (f // each) * te.Value(inner) + rc
            return channel, f if groups == 1 else f % each

        result = _by_phases(call, x, w, (data, kernel, out), (rc, ends), acc_dtype)
        if result is None:
            result = _direct(call, x, w, (data, kernel, out), (rc, ends), acc_dtype)
        return cast_tensor(result, dtype, "conv_transpose_cast")

    return lower


def _by_phases(call: Call, x: te.Tensor, w: te.Tensor, layouts: Any, channels: Any, acc_dtype: str) -> te.Tensor | None:
    """Convolutions of stride one, one for each phase, then their results interleaved."""
    (data, kernel, out), (rc, ends) = layouts, channels
    rank = len(data) - 2
    parts = phases(call, [w.shape[kernel[2 + n]] for n in range(rank)])
    if parts is None:
        return None
    zero = te.const(0, x.dtype)
    padded = pad_tensor(x, data[2:], [p.reach - p.first for p in parts], [p.high for p in parts], zero)
    shape = list(result_dims(call))
    for n, p in enumerate(parts):
        if p.stride > 1:
            shape[out[2 + n]] = padded.shape[data[2 + n]] - p.reach

    def part(groups: Sequence[Group]) -> te.Tensor | None:
        """The results of the phases of one group along each axis; None where they have no taps."""
        if not all([g.taps for g in groups]):
            return None
        rs = [te.reduce_axis((0, g.taps), f"r{'dhw'[3 - rank + n]}") for n, g in enumerate(groups)]
        several = [n for n, g in enumerate(groups) if g.count > 1]

        def body(*i: te.Value) -> te.Value:
            phase = dict(zip(several, i))
            position = i[len(several) :]
            channel, feature = ends(position[out[1]])
            index: dict[int, Any] = {data[0]: position[out[0]], data[1]: channel}
            tap: dict[int, Any] = {kernel[0]: channel, kernel[1]: feature}
            for n, (p, g) in enumerate(zip(parts, groups)):
                shift = p.reach if p.stride > 1 else p.reach + p.offset
                index[data[2 + n]] = position[out[2 + n]] + shift - rs[n] * p.dilation
                tap[kernel[2 + n]] = rs[n] * p.stride + (phase[n] + g.start if n in phase else g.start)
            return te.sum(upcast_product(padded, index, w, tap, acc_dtype), axis=[rc, *rs])

        return te.compute([*[groups[n].count for n in several], *shape], body, f"conv{rank}d_transpose")

    results = {groups: part(groups) for groups in product(*[p.groups for p in parts])}
    if all([p.stride == 1 for p in parts]):
        return next(iter(results.values()))

    def interleaved(*i: te.Value) -> te.Value:
        position, phase = list(i), []
        for n, p in enumerate(parts):
            full = i[out[2 + n]] + p.offset
            phase.append(full % p.stride)
            if p.stride > 1:
                position[out[2 + n]] = full // p.stride

        def choose(groups: tuple[Group, ...]) -> te.Value:
            """The element, of the groups chosen along the first axes."""
            n = len(groups)
            if n < rank:
                short, *longer = [choose((*groups, g)) for g in reversed(parts[n].groups)]
                return te.if_then_else(phase[n] < parts[n].groups[0].count, longer[0], short) if longer else short
            source = results[groups]
            if source is None:
                return te.const(0, acc_dtype)
            return source[[*[phase[k] - g.start for k, g in enumerate(groups) if g.count > 1], *position]]

        return choose(())

    return te.compute(result_dims(call), interleaved, "interleaved")


def _direct(call: Call, x: te.Tensor, w: te.Tensor, layouts: Any, channels: Any, acc_dtype: str) -> te.Tensor:
    """Each output position asks each tap whether it reads the data."""
    (data, kernel, out), (rc, ends) = layouts, channels
    rank = len(data) - 2
    strides, dilation = spatial(call, "strides", rank), spatial(call, "dilation", rank)
    before, _ = pads(call, rank)
    rs = [te.reduce_axis((0, w.shape[kernel[2 + i]]), f"r{'dhw'[3 - rank + i]}") for i in range(rank)]

    def body(*i: te.Value) -> te.Value:
        n, f, *position = [i[p] for p in out]
        channel, feature = ends(f)
        index: dict[int, Any] = {data[0]: n, data[1]: channel}
        tap: dict[int, Any] = {kernel[0]: channel, kernel[1]: feature}
        inside = []
        for axis in range(rank):
            source = position[axis] + before[axis] - rs[axis] * dilation[axis]
            where = source // strides[axis]
            inside += [source >= 0, where < te.Value(x.shape[data[2 + axis]])]
            inside += [source % strides[axis] == 0] if strides[axis] > 1 else []
            index[data[2 + axis]], tap[kernel[2 + axis]] = where, rs[axis]
        value = upcast_product(x, index, w, tap, acc_dtype)
        return te.sum(te.if_then_else(te.all(*inside), value, 0), axis=[rc, *rs])

    return te.compute(result_dims(call), body, f"conv{rank}d_transpose")


def _meaning(
    data: np.ndarray, weight: np.ndarray, strides: Sequence[int], dilation: Sequence[int], border: Sequence[int], groups: int,
    output_padding: Any = 0,
) -> np.ndarray:  # fmt: skip
    rank, size, taps = len(strides), data.shape[2:], weight.shape[2:]
    extra = as_tuple(output_padding, rank)
    full = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in zip(size, strides, taps, dilation, extra)]
    inner, each = data.shape[1] // groups, weight.shape[1]
    result = np.zeros((data.shape[0], each * groups, *full), data.dtype)
    for g in range(groups):
        rows = slice(g * inner, (g + 1) * inner)
        for tap in np.ndindex(*taps):
            value = np.tensordot(data[:, rows], weight[(rows, slice(None), *tap)], ([1], [0]))
            where = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, size, strides)]
            result[(slice(None), slice(g * each, (g + 1) * each), *where)] += np.moveaxis(value, -1, 1)
    return result[(slice(None), slice(None), *[slice(border[i], full[i] - border[rank + i]) for i in range(rank)])]


_SAMPLES = {
    1: "f32[2,3,5], f32[3,4,3], strides=2, padding=1, output_padding=1; i32[1,1,1], i32[1,1,3]",
    2: "f32[1,4,3,4], f32[4,2,3,2], groups=2, strides=[2,3], padding=[1,0,0,1]; f16[1,2,3,3], f16[2,2,2,2], strides=2; "
    "f32[1,3,4,2], f32[3,5,2,2], data_layout='NHWC', kernel_layout='HOIW', dilation=[2,1]",
    3: "f32[1,2,2,3,2], f32[2,1,2,2,2], strides=[1,2,1]",
}


def _row(rank: int) -> Operator:
    return row(
        f"nn.conv{rank}d_transpose",
        conv_params(rank, "IO", attribute("output_padding", (0,) * rank)),
        conv_type(rank, _extents, "IO"),
        f"Applies the transpose of nn.conv{rank}d with the same weight and options.",
        family="nn",
        lower=_lower(rank),
        ref=conv_ref(rank, _meaning, "IO"),
        grad=conv_grad(rank, True),
        mixed_precision="always",
        samples=_SAMPLES[rank],
    )


conv1d_transpose = _row(1)
conv2d_transpose = _row(2)
conv3d_transpose = _row(3)
