"""Convolutions of images with few channels, for devices that copy whole vectors of channels at once.

Rewrite: ``y = R.nn.conv2d(x, w)`` with 3 channels and a kernel 7 wide -> ``lines[n, i, j, c * 8 + u] = x[n, c, i, j * stride + u -
3]``, zero outside of the image, and ``y = R.nn.conv2d(lines, w1)`` whose kernel is one wide and has 24 channels. Each number of a
line belongs to one result alone, so what is infinite or not a number reaches no other; sums stay those of the same products.

Taken are float16 and bfloat16 with constant weights in one group, where results have channels last, the kernel is not dilated, and
a line fills a good part of a stage of 64 steps. Only devices with products of warpgroups gain: others gather as fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import te
from ....ffi.tensor import Tensor
from ....ir.build import const
from ....ir.expr import Call, Constant, IntImm, Var
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.relation import dims, tensor_dtype, tensor_type
from ....ir.types import Expr
from ....op.building.call_inputs import kernel_call
from ....op.common.table import R, constant
from ....op.common.type_rules import int_attr
from ....op.nn.conv import conv2d, pads, spatial
from ....te.kernel_table import KernelTable
from ...default_schedule.base import mark_scheduled, program_of, schedule_of
from ...default_schedule.gpu.common.stages import distribute_loop
from ...infra.backend import machine_in_use
from ...infra.passes import module_pass
from ..fusion.op_pattern import OpPatternKind
from ..precision.quantize_weights import constants_of
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

VECTOR = 8
"""Elements of a vector of 16 bytes."""
LEAST, MOST = 22, 128
"""Elements of a line: a third of a stage at least."""
MOST_CHANNELS = 8
MOST_STRIDE = 8
THREADS = 256


def _line(call: Call) -> int:
    """Places of a line for each channel; 0 for a convolution that stays as it is."""
    weight, shape, out = call.args[1], dims(call.args[0].ty), dims(call.ty)
    if type(weight) is not Constant or {tensor_dtype(v.ty) for v in (*call.args, call)} not in (
        {"float16"},
        {"bfloat16"},
    ):
        return 0
    data = call.attrs.get("data_layout")
    if data not in ("NCHW", "NHWC") or call.attrs.get("kernel_layout") != "HWIO":
        return 0
    if (call.attrs.get("out_layout") or data) != "NHWC" or int_attr(call, "groups", 1) != 1:
        return 0
    if spatial(call, "dilation", 2) != (1, 1) or spatial(call, "strides", 2)[0] > MOST_STRIDE:
        return 0
    if shape is None or out is None or not all([type(n) is IntImm and n.value > 0 for n in (*shape[1:], *out[1:])]):
        return 0
    channels, wide = weight.data.shape[2], weight.data.shape[1]
    even = VECTOR if VECTOR // 2 < wide <= VECTOR else wide
    best = min((even, wide), key=lambda places: -(-channels * places // VECTOR))
    return best if channels <= MOST_CHANNELS and LEAST <= _padded(channels * best) <= MOST else 0


def _padded(elements: int) -> int:
    return -(-elements // VECTOR) * VECTOR


def lines_of(
    shape: Sequence[Expr], last: bool, dtype: str, wide: int, size: int, places: int, left: int, stride: int
) -> Any:
    """The program that makes the lines of images, and its symbols. ``size``: lines of a row of an image."""
    x = te.placeholder(shape, dtype, "x")
    batch, high, width, channels = x.shape if last else [x.shape[k] for k in (0, 2, 3, 1)]
    count = shape[3 if last else 1]
    assert type(count) is IntImm

    def line(n: te.Value, i: te.Value, j: te.Value, k: te.Value) -> te.Value:
        c, u = k // places, k % places
        at = j * stride + u - left
        inside = te.all(c < te.Value(channels), u < wide, at >= 0, at < te.Value(width))
        return te.if_then_else(inside, x[n, i, at, c] if last else x[n, c, i, at], te.const(0, dtype))

    made = te.compute((batch, high, size, _padded(count.value * places)), line, "lines")
    attrs = {"tir.noalias": True, "op_pattern": int(OpPatternKind.OPAQUE)}
    func, symbols = te.create_prim_func_with_symbols([x, made], attrs=attrs)
    sch = schedule_of(func)
    distribute_loop(sch, sch.fuse(*sch.get_loops(sch.get_block("lines"))), THREADS, VECTOR)
    return mark_scheduled(program_of(sch)), symbols


def _weights(weights: np.ndarray, places: int) -> np.ndarray:
    """(rows, columns, channels, O) -> (rows, 1, elements of a line, O)."""
    high, wide, channels, filters = weights.shape
    made = np.zeros((high, 1, _padded(channels * places), filters), weights.dtype)
    for u in range(wide):
        made[:, 0, u : channels * places : places] = weights[:, u]
    return made


@module_pass()
def image_lines(mod: IRModule) -> IRModule:
    """Compute convolutions of images with few channels as convolutions of the lines under their kernel.

    Requires constant weights and channels last, after ``fold_constant``; a device with products of warpgroups.
    """
    gpu = machine_in_use().gpu
    if gpu is None or not gpu.warpgroups:
        return mod
    kernels, known = KernelTable(mod), constants_of(mod)

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        data, weight = call.args
        call = replace(call, args=(data, known.get(weight, weight) if isinstance(weight, Var) else weight))
        places = _line(call)
        if not places:
            return None
        weight, shape, out = call.args[1], dims(data.ty), dims(call.ty)
        assert type(weight) is Constant and shape is not None and out is not None and type(out[2]) is IntImm
        dtype, last = tensor_dtype(data.ty), call.attrs.get("data_layout") == "NHWC"
        (top, left), (bottom, _) = pads(call, 2)
        high, stride = spatial(call, "strides", 2)
        channels, wide = weight.data.shape[2], weight.data.shape[1]
        func, symbols = lines_of(shape, last, dtype, wide, out[2].value, places, left, stride)
        ty = tensor_type((shape[0], shape[1 if last else 2], out[2], const(_padded(channels * places), "int64")), dtype)
        lines = kernel_call(kernels.add(func, "image_lines"), [data], symbols, ty)
        filters = constant(Tensor(_weights(weight.data.numpy(), places)))
        attrs = {**call.attrs, "data_layout": "NHWC", "strides": (high, 1), "padding": (top, 0, bottom, 0)}
        return conv2d(lines, filters, **attrs)

    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, R.nn.conv2d.name), kernels.added)
