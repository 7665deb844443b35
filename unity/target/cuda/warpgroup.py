"""Products of a warpgroup, ``wgmma``: four warps, operands in shared memory given by descriptors, sums in registers.

Instructions are written as PTX, for sm_90a and PTX 8.0: LLVM has no intrinsic for the product. Source: the PTX ISA 8.0,
"Asynchronous Warpgroup Level Matrix Shared Memory Layout".
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.analysis.asynchronous import WarpgroupProduct, warpgroup_product
from ...ir.expr import Call, IntImm
from ...ir.function import PrimFunc
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import CodegenError
from ..llvm.memory import index_parts
from ..llvm.writer import FunctionWriter, Intrinsics
from .matrix import load_words, store_words
from .registers import assembly, element, fixed, number, require, shared_address

NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "s8", "uint8": "u8",
    "float32": "f32", "int32": "s32",
}  # fmt: skip
MODES = {128: 1, 64: 2, 32: 3}
"""The swizzle in a descriptor."""


def _descriptor(
    w: FunctionWriter, base: Expr, offset: Expr, dtype: DataType, swizzle: int, pitch: int = 0
) -> tuple[str, str]:
    """(type, operand) of the descriptor of a tile: its start, the bytes of eight rows and to the next piece, the swizzle. Addresses
    have 18 bits, and no sum of them has more: so what does not change in a loop is computed before it, and the constant distance of
    a tile from another one, whole pieces of 16 bytes, is added last."""
    _, start = shared_address(w, base)
    field = w.emit_before_loops(f"lshr i32 {w.emit_before_loops(f'and i32 {start}, 262143')}, 4")
    low = w.emit_before_loops(f"or i32 {field}, {max(1, pitch * dtype.itemsize >> 4) << 16}")
    behind, constant = index_parts(w, offset, False)
    shift = 5 - dtype.itemsize  # pieces of 16 bytes, of types of one and two bytes
    if behind != "0":
        words = w.emit(f"trunc i64 {behind} to i32")
        low = w.emit(f"add nuw i32 {low}, {w.emit(f'lshr i32 {words}, {shift}')}")
    upper = MODES[swizzle] << 62 | (8 * swizzle >> 4) << 32
    signed = upper - (1 << 64) if upper >> 63 else upper
    first = w.emit(f"or i64 {w.emit(f'zext i32 {low} to i64')}, {signed}")
    return "i64", first if constant == 0 else w.emit(f"add i64 {first}, {constant >> shift}")


def product(w: FunctionWriter, call: Call) -> None:
    """Arguments: shape, layouts of A and B, types of A, B, D, pointer and offset of A, B, D, swizzle, whether D is added to,
    and optionally the distance between pieces of B."""
    require(w, "sm_90a", call)
    form = warpgroup_product(call)
    if isinstance(form, str):
        raise CodegenError("E526", f"{call.op_name}: {form}", call.span)
    dtype, total = form.operand, form.total
    count, kind = _sums(form)
    sums = element(w, call.args[10], call.args[11], total)
    held = load_words(w, sums, count, kind)
    operands, first = [], 2 * count  # the sums are results, then operands
    if form.a_in_registers:
        operands += load_words(w, element(w, call.args[6], call.args[7], dtype), 4, "i32")
        left = "{" + ", ".join([f"${first + n}" for n in range(4)]) + "}"
    else:
        operands.append(_descriptor(w, call.args[6], call.args[7], dtype, form.swizzle))
        left = f"${first}"
    operands.append(_descriptor(w, call.args[8], call.args[9], dtype, form.swizzle, form.pitch))
    added, before, keeps = call.args[13], "", "1"
    if type(added) is IntImm:
        keeps = str(int(added.value != 0))
    else:
        operands.append(("i32", w.emit(f"zext i1 {w.value(added)} to i32")))
        before, keeps = f".reg .pred p; setp.ne.b32 p, ${first + len(operands) - 1}, 0; ", "p"
    right = first + (4 if form.a_in_registers else 1)
    rest = [keeps] + ["1", "1"] * dtype.is_float
    if dtype.itemsize == 2:
        rest += [str(int(form.a_transposed))] * (not form.a_in_registers) + [str(int(form.b_transposed))]
    shape = f"m64n{form.columns}k{form.depth}.{NAMES[total.name]}.{NAMES[dtype.name]}.{NAMES[dtype.name]}"
    registers = ", ".join([f"${n}" for n in range(count)])
    text = f"{{ {before}wgmma.mma_async.sync.aligned.{shape} {{{registers}}}, {left}, ${right}, {', '.join(rest)}; }}"
    made = assembly(w, text, [kind] * count, *operands, tied=[value for _, value in held])
    store_words(w, sums, made, count, kind)


def fence(w: FunctionWriter, call: Call) -> None:
    """Put the sums into their registers before the fence: if they move after it, the assembler serialises the products."""
    require(w, "sm_90a", call)
    products = [found for found in collect(w.kernel.func.body, Call) if found.op_name == "T.ptx_wgmma"]
    accumulators = {(found.args[10], getattr(found.args[11], "value", None)): found for found in products}
    for (data, offset), found in accumulators.items():
        form = warpgroup_product(found)
        if data in w.env and offset is not None and not isinstance(form, str):
            sums = element(w, found.args[10], found.args[11], form.total)
            count, kind = _sums(form)
            made = assembly(w, "", [kind] * count, tied=[value for _, value in load_words(w, sums, count, kind)])
            store_words(w, sums, made, count, kind)
    assembly(w, "wgmma.fence.sync.aligned;", ())


def _sums(form: WarpgroupProduct) -> tuple[int, str]:
    """Registers of a lane that hold D, and their LLVM type."""
    return form.columns * form.total.itemsize // 8, "float" if form.total.name == "float32" else "i32"


def set_registers(w: FunctionWriter, call: Call) -> None:
    """Arguments: whether the number grows, registers of a thread."""
    require(w, "sm_90a", call)
    assembly(w, f"setmaxnreg.{'inc' if number(call, 0) else 'dec'}.sync.aligned.u32 {number(call, 1)};", ())


def sets_registers(func: PrimFunc) -> bool:
    """True if a kernel moves registers between its warpgroups; the assembler must then know how many it begins with."""
    return any([call.op_name == "T.ptx_setmaxnreg" for call in collect(func.body, Call)])


def multiplies_in_groups(func: PrimFunc) -> bool:
    """True if warpgroups multiply in a kernel."""
    return any([call.op_name == "T.ptx_wgmma" for call in collect(func.body, Call)])


RULES: Intrinsics = {
    "T.ptx_wgmma": product, "T.ptx_wgmma_fence": fence,
    "T.ptx_wgmma_commit_group": fixed("sm_90a", "wgmma.commit_group.sync.aligned;"),
    "T.ptx_wgmma_wait_group": fixed("sm_90a", "wgmma.wait_group.sync.aligned {};"),
    "T.ptx_setmaxnreg": set_registers,
}  # fmt: skip
