"""3x3 convolutions by Winograd's algorithm, on request: ``winograd.with_options(tile=2)`` after ``fold_constant``.

Rewrite: ``y = R.nn.conv2d(x, w)`` with channels last and constant weights -> ``v`` = transformed tiles of x,
``z = R.matmul(v, u)`` with ``u`` the weights transformed at build, ``y`` = the tiles of z transformed back. It needs 2.25 (tile=2)
or 4 (tile=4) times fewer multiplications.

Never a default, as results differ: an element that is infinite or not a number spoils all results of the tiles it is in, and where
tile=2 rounds about as direct sums do, tile=4 rounds several times coarser. Taken are float32 calls with stride and dilation 1, in
one group, of constant sizes but for the batch, whose channels fill vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ffi.tensor import Tensor
from ....ir.build import const, int_values, mul
from ....ir.expr import Call, Constant, IntImm, ShapeExpr, Var
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.relation import dims, tensor_dtype, tensor_type
from ....ir.types import Expr
from ....op.building.call_inputs import kernel_call
from ....op.common.table import R, constant
from ....op.common.type_rules import int_attr
from ....op.linalg.products import matmul
from ....op.manipulate.manipulate import permute_dims, reshape
from ....op.manipulate.slicing import strided_slice
from ....op.nn.conv import pads, spatial
from ....support.errors import PassError
from ....te.kernel_table import KernelTable
from ...default_schedule.winograd import MATRICES, result_of_tiles, tiles_of_image
from ...infra.backend import machine_in_use
from ...infra.passes import module_pass
from ..precision.quantize_weights import constants_of
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

CONVOLUTION = R.nn.conv2d.name


def refused(call: Call) -> str:
    """The reason why a convolution is not computed so; "" if it can be."""
    if call.op_name != CONVOLUTION:
        return "it is not a convolution of images"
    weight, shape, out = call.args[1], dims(call.args[0].ty), dims(call.ty)
    if {tensor_dtype(v.ty) for v in (*call.args, call)} != {"float32"}:
        return "it is not float32"
    if type(weight) is not Constant:
        return "its weight is not a constant"
    data, kernel = call.attrs.get("data_layout"), call.attrs.get("kernel_layout")
    if data not in ("NCHW", "NHWC") or kernel != "HWIO" or (call.attrs.get("out_layout") or data) != "NHWC":
        return "its channels are not last"
    if weight.data.shape[:2] != (3, 3) or (*spatial(call, "strides", 2), *spatial(call, "dilation", 2)) != (1, 1, 1, 1):
        return "its kernel is not 3x3 with stride 1"
    if int_attr(call, "groups", 1) != 1:
        return "it has groups"
    if shape is None or out is None or not all([type(n) is IntImm for n in (*shape[1:], *out[1:])]):
        return "its sizes are not known"
    if 0 in int_values((*shape, *out)):
        return "it has no elements"
    lanes = machine_in_use().lanes(4)
    return "its channels do not fill vectors" if any([n % lanes for n in weight.data.shape[2:]]) else ""


def transformed_weights(weights: np.ndarray, tile: int) -> np.ndarray:
    """(3, 3, I, O) -> ((tile + 2)^2, I, O), in float64 rounded once."""
    kernel = MATRICES[tile].kernel
    made = np.tensordot(kernel, np.tensordot(kernel, weights.astype("float64"), (1, 1)), (1, 1))
    return np.ascontiguousarray(made.reshape(-1, *weights.shape[2:]), "float32")


def _computed(call: Call, tile: int, kernels: KernelTable) -> Expr:
    """The result of a call that is not refused."""
    data, weight = call.args
    if call.attrs["data_layout"] == "NCHW":
        data = permute_dims(data, axes=(0, 2, 3, 1))
    shape, out = dims(data.ty), dims(call.ty)
    assert shape is not None and out is not None and type(weight) is Constant
    sizes = int_values(out[1:])
    tiles, side, lanes = [-(-n // tile) for n in sizes[:2]], tile + 2, machine_in_use().lanes(4)
    high, wide = [const(n, "int64") for n in tiles]
    edge, step = const(side, "int64"), const(tile, "int64")

    def program(made: Any, hint: str, value: Expr, result: Sequence[Expr]) -> Expr:
        func, symbols = made
        return kernel_call(kernels.add(func, hint), [value], symbols, tensor_type(result, "float32"))

    places = (shape[0], high, wide)
    apart = (edge, edge, *places, shape[3])
    tiled = program(tiles_of_image(shape, pads(call, 2)[0], tiles, tile, lanes), "winograd_tiles", data, apart)
    rows = reshape(tiled, ShapeExpr((mul(edge, edge), mul(shape[0], mul(high, wide)), shape[3])))
    sums = matmul(rows, constant(Tensor(transformed_weights(weight.data.numpy(), tile))))
    whole = (edge, edge, *places, out[3])
    back = program(
        result_of_tiles(whole, tile, lanes), "winograd_result", reshape(sums, ShapeExpr(whole)),
        (shape[0], high, step, wide, step, out[3]),
    )  # fmt: skip
    full = [n * tile for n in tiles]
    made: Expr = reshape(back, ShapeExpr((shape[0], *[const(n, "int64") for n in full], out[3])))
    return made if full == sizes[:2] else strided_slice(made, [1, 2], [0, 0], sizes[:2])


def by_tiles(mod: IRModule, tile_of: Callable[[Call], int]) -> IRModule:
    """The module with its convolutions computed in tiles; ``tile_of`` gives their side, 0 for a call that stays."""
    kernels, known = KernelTable(mod), constants_of(mod)

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        data, weight = call.args
        call = replace(call, args=(data, known.get(weight, weight) if isinstance(weight, Var) else weight))
        tile = tile_of(call) if not refused(call) else 0
        return _computed(call, tile, kernels) if tile else None

    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, CONVOLUTION), kernels.added)


@module_pass()
def winograd(mod: IRModule, *, tile: int = 2) -> IRModule:
    """Compute 3x3 convolutions by Winograd's algorithm. Changes rounding.

    Requires float32, channels last and constant weights, after ``fold_constant``.
    ``tile``: results along each side of a tile, 2 or 4.
    """
    if tile not in MATRICES:
        raise PassError("E988", f"tile must be one of {list(MATRICES)}, got {tile}")
    return by_tiles(mod, lambda call: tile)
