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
TENSOR_COPIES = ("T.ptx_cp_async_bulk_tensor", STORE)


@dataclass(slots=True, frozen=True)
class WarpgroupProduct:
    """``D += A B`` by four warps: 64 rows, ``columns``, ``depth`` summed at once. ``held``: A lies in registers. ``across``: A
    lies by columns, as [depth, 64], else as [64, depth]. ``turned``: B lies by rows, as [depth, columns], else as [columns, depth].
    Rows of the tiles in shared memory are ``swizzle`` bytes long. A B by rows that is wider lies in pieces of this width, each
    ``pitch`` elements behind the one before."""

    columns: int
    depth: int
    operand: DataType
    total: DataType
    held: bool
    across: bool
    turned: bool
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
    across, turned, held = first == "col", second == "row", _scope(call.args[6]) == "local"
    if not {first, second} <= {"row", "col"} or ((across or turned) and operand.itemsize != 2) or (across and held):
        return f"no layouts {first!r} by {second!r} of {a}"
    if across and swizzle != 128:
        return f"64 rows of A by columns do not fit into a row of {swizzle} bytes"
    pitch = call.args[14].value if len(call.args) > 14 and type(call.args[14]) is IntImm else 0
    piece = swizzle // operand.itemsize
    if turned and columns > piece and (pitch <= 0 or pitch % (8 * piece) or columns % piece):
        return f"{columns} columns of B by rows need pieces of {piece}, at a distance that is a multiple of {8 * piece}"
    return WarpgroupProduct(columns, int(k), operand, DataType(d), held, across, turned, swizzle, pitch)


@dataclass(slots=True, frozen=True)
class TensorCopy:
    """A copy of the ``box`` at ``corner`` of a tensor of ``sizes``, compact in global memory. What lies outside comes as zeros,
    and is not stored."""

    dtype: DataType
    swizzle: int
    sizes: tuple[Expr, ...]
    box: tuple[int, ...]
    corner: tuple[Expr, ...]

    @property
    def size(self) -> int:
        """Bytes of the box."""
        return self.dtype.itemsize * math.prod(self.box)


def tensor_copy(call: Call) -> TensorCopy | str:
    """The form of a call of ``T.ptx_cp_async_bulk_tensor``, or what is wrong with it. Arguments: shared pointer and offset, global
    pointer, barrier, swizzle (0: none), and for each axis the tensor's size, the box's, and the corner. A copy to the tensor,
    ``T.ptx_cp_async_bulk_tensor_store``, has no barrier."""
    dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")
    place = 3 if call.op_name == STORE else 4
    numbers, rank = call.args[place + 1 :], (len(call.args) - place - 1) // 3
    if len(numbers) != 3 * rank or not 1 <= rank <= 5:
        return "it takes a size, a box and a corner for each of 1 to 5 axes"
    sizes, corner = numbers[:rank], numbers[2 * rank :]
    box = tuple([int_value(extent, 0) for extent in numbers[rank : 2 * rank]])
    mode = call.args[place]
    swizzle = int_value(mode, -1)
    if dtype.lanes != 1 or dtype.bits < 8 or dtype.is_bool or dtype.code == "handle":
        return f"no copies of {dtype.name}"
    if not all([1 <= extent <= MOST_BOX for extent in box]):
        return f"a box of {box}: constants from 1 to {MOST_BOX} are needed"
    row = box[-1] * dtype.itemsize
    if swizzle not in (0, *SWIZZLES) or row % 16 or (swizzle and row > swizzle):
        return f"rows of {row} bytes with the swizzle {swizzle}: rows are multiples of 16 bytes and no longer than the swizzle"
    last = sizes[-1]
    if rank > 1 and type(last) is IntImm and last.value * dtype.itemsize % 16:
        return f"rows of the tensor of {last.value * dtype.itemsize} bytes: multiples of 16 are needed"
    return TensorCopy(dtype, swizzle, sizes, box, corner)


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
