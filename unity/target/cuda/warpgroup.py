"""Products of a warpgroup, ``wgmma``: four warps, operands in shared memory given by descriptors, sums in registers.

Instructions are written as PTX, for sm_90a and PTX 8.0: LLVM has no intrinsic for the product. Source: the PTX ISA 8.0,
"Asynchronous Warpgroup Level Matrix Shared Memory Layout".
"""

from __future__ import annotations

from ...arith.analyzer import Analyzer
from ...ffi.dtype import DataType
from ...ir.analysis.asynchronous import warpgroup_product
from ...ir.build import floordiv
from ...ir.expr import Call, IntImm, Var
from ...ir.function import PrimFunc
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import CodegenError
from ..llvm.indices import index_parts
from ..llvm.writer import FunctionWriter, Intrinsics
from .places import load_words
from .registers import assembly, fixed, number, require, shared_address
from .sums import Sums

NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "s8", "uint8": "u8",
    "float32": "f32", "int32": "s32",
}  # fmt: skip
MODES = {128: 1, 64: 2, 32: 3}
"""The swizzle in a descriptor."""
PIECE_BYTES = 16
"""Bytes of a piece, in which descriptors count."""


def _descriptor(
    w: FunctionWriter, base: Expr, offset: Expr, dtype: DataType, swizzle: int, pitch: int = 0
) -> tuple[str, str]:
    """(type, operand) of the descriptor of a tile: its start, the bytes of eight rows and to the next piece, the swizzle. Addresses
    have 18 bits, and no sum of them has more: so what does not change in a loop is computed before it, and the constant distance of
    a tile from another one, whole pieces of 16 bytes, is added last."""
    _, start = shared_address(w, base)
    field = w.emit_before_loops(f"lshr i32 {w.emit_before_loops(f'and i32 {start}, 262143')}, 4")
    low = w.emit_before_loops(f"or i32 {field}, {max(1, pitch * dtype.itemsize >> 4) << 16}")
    pieces = Analyzer().simplify(floordiv(offset, PIECE_BYTES // dtype.itemsize))
    behind, constant = index_parts(w, pieces, False)
    if behind != "0":
        low = w.emit(f"add nuw i32 {low}, {w.emit(f'trunc i64 {behind} to i32')}")
    upper = MODES[swizzle] << 62 | (8 * swizzle >> 4) << 32
    signed = upper - (1 << 64) if upper >> 63 else upper
    first = w.emit(f"or i64 {w.emit(f'zext i32 {low} to i64')}, {signed}")
    return "i64", first if constant == 0 else w.emit(f"add i64 {first}, {constant}")


def product(w: FunctionWriter, call: Call) -> None:
    """Arguments: shape, layouts of A and B, types of A, B, D, pointer and offset of A, B, D, swizzle, whether D is added to,
    and optionally the distance between pieces of B."""
    require(w, "sm_90a", call)
    form = warpgroup_product(call)
    if isinstance(form, str):
        raise CodegenError("E526", f"{call.op_name}: {form}", call.span)
    dtype, total = form.operand, form.total
    place = w.places.get(call.args[10]) if type(call.args[10]) is Var else None
    if not isinstance(place, Sums):
        raise CodegenError("E526", f"{call.op_name} adds to registers of a thread, an array of scope local", call.span)
    sums = place.words(w, call.args[11], form.columns * total.itemsize // 8)
    operands = []
    if form.a_in_registers:
        operands += load_words(w, call.args[6], call.args[7], dtype, 4, "i32")
        left = "{$0, $1, $2, $3}"
    else:
        operands.append(_descriptor(w, call.args[6], call.args[7], dtype, form.swizzle))
        left = "$0"
    operands.append(_descriptor(w, call.args[8], call.args[9], dtype, form.swizzle, form.pitch))
    added, before, keeps = call.args[13], "", "1"
    if type(added) is IntImm:
        keeps = str(int(added.value != 0))
    else:
        operands.append(("i32", w.emit(f"zext i1 {w.value(added)} to i32")))
        before, keeps = f".reg .pred p; setp.ne.b32 p, ${len(operands) - 1}, 0; ", "p"
    right = 4 if form.a_in_registers else 1
    rest = [keeps] + ["1", "1"] * dtype.is_float
    if dtype.itemsize == 2:
        rest += [str(int(form.a_transposed))] * (not form.a_in_registers) + [str(int(form.b_transposed))]
    shape = f"m64n{form.columns}k{form.depth}.{NAMES[total.name]}.{NAMES[dtype.name]}.{NAMES[dtype.name]}"
    text = f"{{ {before}wgmma.mma_async.sync.aligned.{shape} {{{sums}}}, {left}, ${right}, {', '.join(rest)}; }}"
    assembly(w, text, (), *operands)


def set_registers(w: FunctionWriter, call: Call) -> None:
    """Arguments: whether the number grows, registers of a thread."""
    require(w, "sm_90a", call)
    assembly(w, f"setmaxnreg.{'inc' if number(call, 0) else 'dec'}.sync.aligned.u32 {number(call, 1)};", ())


def sets_registers(func: PrimFunc) -> bool:
    """True if a kernel moves registers between its warpgroups; the assembler must then know how many it begins with."""
    return any([call.op_name == "T.ptx_setmaxnreg" for call in collect(func.body, Call)])


EMITTERS: Intrinsics = {
    "T.ptx_wgmma": product, "T.ptx_wgmma_fence": fixed("sm_90a", "wgmma.fence.sync.aligned;"),
    "T.ptx_wgmma_commit_group": fixed("sm_90a", "wgmma.commit_group.sync.aligned;"),
    "T.ptx_wgmma_wait_group": fixed("sm_90a", "wgmma.wait_group.sync.aligned {};"),
    "T.ptx_setmaxnreg": set_registers,
}  # fmt: skip
