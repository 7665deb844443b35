"""Instructions of Hopper that run beside the threads, as data: products of warpgroups, copies of a box of a tensor.

The verifier, the thread checker and code generation read their arguments here. Sizes, boxes and corners stand in the order of a
shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...ffi.dtype import DataType
from ..build import int_value
from ..expr import Call, IntImm, StringImm
from ..types import Expr, PointerType, PrimType

SWIZZLES = (32, 64, 128)
"""Bytes within which bulk copies exchange pieces of 16 bytes, so that columns of a tile lie in different banks."""
_PRODUCTS = {
    "float16": ("float16", "float32"), "bfloat16": ("float32",), "float8_e4m3fn": ("float32",),
    "float8_e5m2": ("float32",), "int8": ("int32",), "uint8": ("int32",),
}  # fmt: skip
"""Accumulators by the type of both factors."""
MOST_BOX = 256
STORE = "T.ptx_cp_async_bulk_tensor_store"
WINDOWED = "T.ptx_cp_async_bulk_tensor_im2col"
TENSOR_COPIES = ("T.ptx_cp_async_bulk_tensor", STORE, WINDOWED)
MOST_PIXELS = 1024
CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""Bits of the corners of a window's places, and of offsets in it, by the axes of an image."""


@dataclass(slots=True, frozen=True)
class WarpgroupProduct:
    """``D += A B`` by four warps: 64 rows, ``columns``, ``depth`` summed at once. ``a_transposed``: A is stored as [depth, 64],
    else as [64, depth]; ``b_transposed``: B as [depth, columns], else as [columns, depth]. Rows of the tiles in shared memory are
    ``swizzle`` bytes long. A transposed B that is wider lies in pieces of this width, ``pitch`` elements apart."""

    columns: int
    depth: int
    operand: DataType
    total: DataType
    a_in_registers: bool
    a_transposed: bool
    b_transposed: bool
    swizzle: int
    pitch: int


def warpgroup_product(call: Call) -> WarpgroupProduct | str:
    """The form of a call of ``T.ptx_wgmma``, or what is wrong with it. Arguments: shape, layouts of A and B, types of A, B, D,
    pointer and offset of A, B, D, swizzle, whether D is added to, and optionally the distance between pieces of B."""
    words = [arg.value if type(arg) is StringImm else "" for arg in call.args[:6]]
    shape, first, second, a, b, d = words
    n, _, k = shape.removeprefix("m64n").partition("k")
    if d not in _PRODUCTS.get(a, ()) or a != b:
        return f"no product of {a or '?'} and {b or '?'} into {d or '?'}"
    operand = DataType(a)
    if not (shape.startswith("m64n") and n.isdigit() and k == str(32 // operand.itemsize)):
        return f"no shape {shape!r} of {a}: m64nNk{32 // operand.itemsize}"
    columns = int(n)
    if not 8 <= columns <= 256 or columns % (8 if operand.is_float else 16):
        return f"{columns} columns: a multiple of {8 if operand.is_float else 16} up to 256 is needed"
    swizzle = call.args[12].value if type(call.args[12]) is IntImm else 0
    if swizzle not in SWIZZLES:
        return f"tiles have rows of 32, 64 or 128 bytes, got {swizzle}"
    a_transposed, b_transposed, a_in_registers = first == "col", second == "row", _scope(call.args[6]) == "local"
    if (
        not {first, second} <= {"row", "col"}
        or ((a_transposed or b_transposed) and operand.itemsize != 2)
        or (a_transposed and a_in_registers)
    ):
        return f"no layouts {first!r} by {second!r} of {a}"
    if a_transposed and swizzle != 128:
        return f"64 rows of A by columns do not fit into a row of {swizzle} bytes"
    pitch = call.args[14].value if len(call.args) > 14 and type(call.args[14]) is IntImm else 0
    piece = swizzle // operand.itemsize
    if b_transposed and columns > piece and (pitch <= 0 or pitch % (8 * piece) or columns % piece):
        return f"{columns} columns of B by rows need pieces of {piece}, at a distance that is a multiple of {8 * piece}"
    return WarpgroupProduct(
        columns, int(k), operand, DataType(d), a_in_registers, a_transposed, b_transposed, swizzle, pitch
    )


@dataclass(slots=True, frozen=True)
class Window:
    """Where the window of a convolution stands in an image (im2col), for each of its axes: the first place, how far the last place
    is from the last pixel, the step from one place to the next, and the offset in the window of the pixel that is copied."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[Expr, ...]


@dataclass(slots=True, frozen=True)
class TensorCopy:
    """A copy of the ``box`` at ``corner`` of a tensor of ``sizes``, compact in global memory. What lies outside comes as zeros,
    and is not stored. With a window the tensor is a batch of images, channels last: the box is so many places of the window, row
    after row and image after image from the one at the corner, by channels of the pixel at the offset."""

    dtype: DataType
    swizzle: int
    sizes: tuple[Expr, ...]
    box: tuple[int, ...]
    corner: tuple[Expr, ...]
    window: Window | None = None

    @property
    def size(self) -> int:
        """Bytes of the box."""
        return self.dtype.itemsize * math.prod(self.box)


def tensor_copy(call: Call) -> TensorCopy | str:
    """The form of a call of ``T.ptx_cp_async_bulk_tensor``, or what is wrong with it. Arguments: shared pointer and offset, global
    pointer, barrier, swizzle (0: none), and for each axis the tensor's size, the box's, and the corner. A copy to the tensor,
    ``T.ptx_cp_async_bulk_tensor_store``, has no barrier."""
    if call.op_name == WINDOWED:
        return _windowed(call)
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    operand_index = 3 if call.op_name == STORE else 4
    numbers, rank = call.args[operand_index + 1 :], (len(call.args) - operand_index - 1) // 3
    if len(numbers) != 3 * rank or not 1 <= rank <= 5:
        return "it takes a size, a box and a corner for each of 1 to 5 axes"
    sizes, corner = numbers[:rank], numbers[2 * rank :]
    box = tuple([int_value(extent, 0) for extent in numbers[rank : 2 * rank]])
    swizzle = int_value(call.args[operand_index], -1)
    if not all([1 <= extent <= MOST_BOX for extent in box]):
        return f"a box of {box}: constants from 1 to {MOST_BOX} are needed"
    return _wrong_rows(dtype, swizzle, sizes, box) or TensorCopy(dtype, swizzle, sizes, box, corner)


def _wrong_rows(dtype: DataType, swizzle: int, sizes: tuple[Expr, ...], box: tuple[int, ...]) -> str:
    """Names the mistake in the elements, or in rows of a tensor or a box; "" where there is none."""
    if dtype.lanes != 1 or dtype.bits < 8 or dtype.is_bool or dtype.code == "handle":
        return f"no copies of {dtype.name}"
    row = box[-1] * dtype.itemsize
    if swizzle not in (0, *SWIZZLES) or row % 16 or (swizzle and row > swizzle):
        return f"rows of {row} bytes with the swizzle {swizzle}: rows are multiples of 16 bytes and no longer than the swizzle"
    last = sizes[-1]
    if len(sizes) > 1 and type(last) is IntImm and last.value * dtype.itemsize % 16:
        return f"rows of the tensor of {last.value * dtype.itemsize} bytes: multiples of 16 are needed"
    return ""


def _windowed(call: Call) -> TensorCopy | str:
    """The form of a call of ``T.ptx_cp_async_bulk_tensor_im2col``. Arguments: shared pointer and offset, global pointer, barrier,
    swizzle, places and channels of the box; sizes of images, axes and channels, then the corner; and for each axis of an image
    ``lower``, ``upper``, ``strides`` and ``offsets`` of a ``Window``."""
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    rank, numbers = (len(call.args) + 1) // 6, call.args[7:]
    if not 3 <= rank <= 5 or len(numbers) != 6 * rank - 8:
        return "it takes a size and a corner for each of 3 to 5 axes, and four numbers for each axis of an image"
    axes = rank - 2
    lower, upper, strides = [
        tuple([int_value(number, 1 << 20) for number in numbers[2 * rank + k * axes : 2 * rank + (k + 1) * axes]])
        for k in range(3)
    ]
    box = (int_value(call.args[5], 0), int_value(call.args[6], 0))
    if not (1 <= box[0] <= MOST_PIXELS and 1 <= box[1] <= MOST_BOX):
        return f"a box of {box}: constants, up to {MOST_PIXELS} places and {MOST_BOX} channels are needed"
    most = 1 << CORNER_BITS[axes] - 1
    if not all([-most <= number < most for number in (*lower, *upper)]):
        return f"corners {lower} and {upper}: constants from {-most} to {most - 1} are needed"
    if not all([1 <= stride <= 8 for stride in strides]):
        return f"steps of {strides}: constants from 1 to 8 are needed"
    sizes, corner, swizzle = numbers[:rank], numbers[rank : 2 * rank], int_value(call.args[4], -1)
    window = Window(lower, upper, strides, numbers[2 * rank + 3 * axes :])
    return _wrong_rows(dtype, swizzle, sizes, box) or TensorCopy(dtype, swizzle, sizes, box, corner, window)


def problem_of(call: Call) -> str:
    """Names the mistake in the arguments of an instruction of this file; "" where there is none."""
    check = _CHECKS.get(call.op_name)
    form = check(call) if check is not None else None
    return f"{call.op_name}: {form}" if isinstance(form, str) else ""


def _constant(call: Call) -> str | None:
    return None if type(call.args[0]) is IntImm and call.args[0].value >= 0 else "it takes a constant"


def _registers(call: Call) -> str | None:
    grows, count = call.args
    if type(grows) is IntImm and type(count) is IntImm and count.value in range(24, 257, 8):
        return None
    return "it takes a constant, whether the number grows, and a multiple of 8 from 24 to 256"


def _scope(expr: Expr) -> str:
    return expr.ty.scope if isinstance(expr.ty, PointerType) else ""


_CHECKS: dict[str, Callable[[Call], object]] = {
    "T.ptx_wgmma": warpgroup_product, **dict.fromkeys(TENSOR_COPIES, tensor_copy), "T.create_barriers": _constant,
    "T.ptx_wgmma_wait_group": _constant, "T.ptx_cp_async_bulk_wait_group": _constant, "T.ptx_setmaxnreg": _registers,
}  # fmt: skip
