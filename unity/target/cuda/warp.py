"""Instructions of warps and blocks: barriers, shuffles between the lanes of a warp, atomic operations.

Arguments are TVM's; ``ir/interpret/threads/warp.py`` has the meaning.
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm, StringImm
from ...support.errors import CodegenError
from ..llvm.casts import convert
from ..llvm.intrinsics import pointer
from ..llvm.lltypes import llvm_type, value_type
from ..llvm.writer import FunctionWriter, Intrinsics
from .registers import I32, nvvm

FULL = ("i32", "-1")
"""All lanes of a warp."""
_SHUFFLES = {
    "T.tvm_warp_shuffle": "idx",
    "T.tvm_warp_shuffle_up": "up",
    "T.tvm_warp_shuffle_down": "down",
    "T.tvm_warp_shuffle_xor": "bfly",
}


def storage_sync(w: FunctionWriter, call: Call) -> None:
    """A barrier of the block or of the warp."""
    scope = call.args[0].value if type(call.args[0]) is StringImm else ""
    if scope in ("shared", "shared.dyn"):
        nvvm(w, "barrier0", "void")  # a name that older versions of LLVM know too
    elif scope == "warp":
        nvvm(w, "bar.warp.sync", "void", FULL)
    else:
        raise CodegenError("E526", f"T.tvm_storage_sync of scope {scope!r} has no code on a GPU", call.span,
                           help="a barrier of the whole grid is the end of a kernel")  # fmt: skip


def shuffle(w: FunctionWriter, call: Call) -> str:
    """The value of another lane, in groups of ``width`` lanes. Arguments: mask, value, lane or distance, width, warp size."""
    assert call.op_name in _SHUFFLES
    kind, dtype = _SHUFFLES[call.op_name], dtype_of(call.args[1])
    width = call.args[3].value if type(call.args[3]) is IntImm else 0
    if width not in (1, 2, 4, 8, 16, 32) or dtype.lanes != 1 or dtype.code == "handle":
        raise CodegenError(
            "E526", f"{call.op_name} of {dtype.name} in groups of {width or 'an unknown number of'} lanes", call.span
        )
    mask = convert(w, w.value(call.args[0]), dtype_of(call.args[0]), I32)
    lane = convert(w, w.value(call.args[2]), dtype_of(call.args[2]), I32)
    clamp = (32 - width) << 8 | (0 if kind == "up" else 31)
    words = [
        nvvm(w, f"shfl.sync.{kind}.i32", "i32", ("i32", mask), ("i32", word), ("i32", lane), ("i32", str(clamp)))
        for word in _words(w, w.value(call.args[1]), dtype)
    ]
    return _from_words(w, words, dtype)


def _words(w: FunctionWriter, text: str, dtype: DataType) -> list[str]:
    """The 32-bit words of a value."""
    ty, bits = value_type(dtype), max(8, dtype.bits)
    if dtype.is_bool:
        return [w.emit(f"zext i1 {text} to i32")]
    whole = text if ty == f"i{bits}" else w.emit(f"bitcast {ty} {text} to i{bits}")
    if bits < 32:
        return [w.emit(f"zext i{bits} {whole} to i32")]
    if bits == 32:
        return [whole]
    high = w.emit(f"lshr i64 {whole}, 32")
    return [w.emit(f"trunc i64 {part} to i32") for part in (whole, high)]


def _from_words(w: FunctionWriter, words: list[str], dtype: DataType) -> str:
    ty, bits = value_type(dtype), max(8, dtype.bits)
    if dtype.is_bool:
        return w.emit(f"trunc i32 {words[0]} to i1")
    whole = words[0]
    if bits < 32:
        whole = w.emit(f"trunc i32 {whole} to i{bits}")
    elif bits == 64:
        low, high = [w.emit(f"zext i32 {word} to i64") for word in words]
        moved = w.emit(f"shl i64 {high}, 32")
        whole = w.emit(f"or i64 {moved}, {low}")
    return whole if ty == f"i{bits}" else w.emit(f"bitcast i{bits} {whole} to {ty}")


def active_mask(w: FunctionWriter, call: Call) -> str:
    """The active lanes, as bits."""
    return convert(w, nvvm(w, "activemask", "i32"), DataType("uint32"), dtype_of(call))


def atomic_add(w: FunctionWriter, call: Call) -> str:
    """Add to the addressed element and return the old value."""
    dtype = dtype_of(call.args[1])
    if dtype.lanes != 1 or not (dtype.is_integral or dtype.is_float) or (dtype.bits < 16 and dtype.is_float):
        raise CodegenError("E526", f"T.atomic_add of {dtype.name}", call.span)
    own, kind, text = llvm_type(dtype), value_type(dtype), w.value(call.args[1])
    if dtype.bits < 32 and dtype.name != "float16" and not (dtype.is_float and "sm_90" in w.module.features):
        symbol, bits = f"@unity.atomic_add.{dtype.name}", f"i{dtype.bits}"
        w.module.declare(symbol, _addition(symbol, dtype))
        given = text if kind == bits else w.emit(f"bitcast {kind} {text} to {bits}")
        old = w.call(bits, symbol, f"ptr {pointer(w, call.args[0])}, {bits} {given}")
        return old if kind == bits else w.emit(f"bitcast {bits} {old} to {kind}")
    given = text if own == kind else w.emit(f"bitcast {kind} {text} to {own}")
    operation = "fadd" if dtype.is_float else "add"
    old = w.emit(f"atomicrmw {operation} ptr {pointer(w, call.args[0])}, {own} {given} monotonic")
    return old if own == kind else w.emit(f"bitcast {own} {old} to {kind}")


_FLOAT_SUM = """  %own.high = shl i32 %own, 16
  %own.float = bitcast i32 %own.high to float
  %x.high = shl i32 %addend, 16
  %x.float = bitcast i32 %x.high to float
  %float = fadd float %own.float, %x.float
  %bits = bitcast float %float to i32
  %last = lshr i32 %bits, 16
  %odd = and i32 %last, 1
  %half = add i32 %odd, 32767
  %rounded = add i32 %bits, %half
  %top = lshr i32 %rounded, 16
  %nan = fcmp uno float %float, %float
  %sum = select i1 %nan, i32 32704, i32 %top"""
"""The sum of two numbers of bfloat16, in the lower bits of i32."""


_EXCHANGE = "atom.relaxed.sys.cas.b16 $0, [$1], $2, $3;"


def _addition(symbol: str, dtype: DataType) -> str:
    """A function that adds to a number of 8 or 16 bits by exchanging the two bytes in which it lies, until nobody else did
    meanwhile. Its first guess is zero: a look at memory would be no atomic one. ``cmpxchg`` of LLVM would take four bytes."""
    bits = f"i{dtype.bits}"
    return f"""define internal {bits} {symbol}(ptr %at, {bits} %x) noinline nounwind {{
entry:
  %address = ptrtoint ptr %at to i64
  %inside = and i64 %address, {2 - dtype.bits // 8}
  %back = sub i64 0, %inside
  %word = getelementptr i8, ptr %at, i64 %back
  %wide = shl i64 %inside, 3
  %shift = trunc i64 %wide to i32
  %mask = shl i32 {(1 << dtype.bits) - 1}, %shift
  %others = xor i32 %mask, -1
  %addend = zext {bits} %x to i32
  br label %again
again:
  %seen = phi i16 [ 0, %entry ], [ %found, %again ]
  %old = zext i16 %seen to i32
  %shifted = lshr i32 %old, %shift
  %own = and i32 %shifted, {(1 << dtype.bits) - 1}
{_FLOAT_SUM if dtype.is_float else "  %sum = add i32 %own, %addend"}
  %moved = shl i32 %sum, %shift
  %set = and i32 %moved, %mask
  %kept = and i32 %old, %others
  %new = or i32 %set, %kept
  %short = trunc i32 %new to i16
  %found = call i16 asm sideeffect "{_EXCHANGE}", "=h,l,h,h,~{{memory}}"(ptr %word, i16 %seen, i16 %short)
  %same = icmp eq i16 %found, %seen
  br i1 %same, label %done, label %again
done:
  %result = trunc i32 %own to {bits}
  ret {bits} %result
}}
"""


EMITTERS: Intrinsics = {
    "T.atomic_add": atomic_add,
    "T.tvm_storage_sync": storage_sync,
    "T.tvm_warp_activemask": active_mask,
    **dict.fromkeys(_SHUFFLES, shuffle),
}
