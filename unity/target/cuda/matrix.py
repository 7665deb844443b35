"""Matrix instructions: ``mma.sync`` and ``ldmatrix`` on the registers of a thread, ``wmma`` on fragments.

The PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions", says which lane holds which element. Arguments are TVM's. A
table lists every form that has code, because LLVM ends the process at one that it cannot select.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ffi.dtype import DataType
from ...ir.buffer import Buffer
from ...ir.build import dtype_of, mul
from ...ir.expr import Call, IntImm, StringImm, Var
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import CodegenError
from ...support.source import Span
from ..llvm.casts import convert, to_memory
from ..llvm.indices import index
from ..llvm.intrinsics import pointer
from ..llvm.writer import FunctionWriter, Intrinsics
from .places import Words, give_slot, load_words, store_words
from .registers import I32, SHARED, element, nvvm, require, structure


@dataclass(slots=True, frozen=True)
class Form:
    """A matrix product in LLVM: the end of the intrinsic's name, the registers of a lane for A, B and C, their LLVM types, and
    the first architecture that has it."""

    name: str
    a: int
    b: int
    c: int
    operand: str = "i32"
    total: str = "i32"
    arch: str = "sm_80"


_HALF = "<2 x half>"
_BYTES = {"int8": "s8", "uint8": "u8"}
MMA: dict[tuple[str, str, str, str], Form] = {
    ("m16n8k8", "float16", "float16", "float32"): Form("f32.f32", 2, 1, 4, _HALF, "float", "sm_75"),
    ("m16n8k16", "float16", "float16", "float32"): Form("f32.f32", 4, 2, 4, _HALF, "float"),
    ("m16n8k8", "float16", "float16", "float16"): Form("f16.f16", 2, 1, 2, _HALF, _HALF, "sm_75"),
    ("m16n8k16", "float16", "float16", "float16"): Form("f16.f16", 4, 2, 2, _HALF, _HALF),
    ("m16n8k8", "bfloat16", "bfloat16", "float32"): Form("bf16", 2, 1, 4, "i32", "float"),
    ("m16n8k8", "float32", "float32", "float32"): Form("tf32", 4, 2, 4, "i32", "float"),
    ("m16n8k16", "bfloat16", "bfloat16", "float32"): Form("bf16", 4, 2, 4, "i32", "float"),
    **{
        (shape, a, b, "int32"): Form(_BYTES[a] if a == b else f"{_BYTES[a]}.{_BYTES[b]}", *counts)
        for shape, counts in (("m16n8k16", (2, 1, 4)), ("m16n8k32", (4, 2, 4)))
        for a in _BYTES
        for b in _BYTES
    },
}  # fmt: skip
"""Products by shape and types of A, B and C; A by rows, B by columns."""

WMMA: dict[tuple[str, str], tuple[Form, str, str]] = {
    ("float16", "float32"): (Form("f32.f32", 8, 8, 8, _HALF, "float", "sm_75"), "f16", "f32"),
    ("float16", "float16"): (Form("f16.f16", 8, 8, 4, _HALF, _HALF, "sm_75"), "f16", "f16"),
    ("bfloat16", "float32"): (Form("bf16", 4, 4, 8, "i32", "float"), "bf16", "f32"),
    ("int8", "int32"): (Form("s8", 2, 2, 8, arch="sm_75"), "s8", "s32"),
    ("uint8", "int32"): (Form("u8", 2, 2, 8, arch="sm_75"), "u8", "s32"),
}
"""Products of fragments of 16x16x16 by types of the operands and of the accumulator, and the names of these types in PTX."""
_TYPES = {
    "tf32": "float32", "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32",
    "int8": "int8", "s8": "int8", "uint8": "uint8", "u8": "uint8", "int32": "int32", "s32": "int32",
}  # fmt: skip
FRAGMENT_WORDS = 8
"""Registers of a fragment at most."""
SIZE = 16


def _text(call: Call, index: int) -> str:
    argument = call.args[index]
    return argument.value if type(argument) is StringImm else ""


def mma(w: FunctionWriter, call: Call) -> None:
    """``C += A @ B``. Arguments: shape, layouts of A and B, types of A, B, C, pointer and offset of A, B, C, saturate."""
    kinds = [_TYPES.get(_text(call, position), _text(call, position)) for position in (3, 4, 5)]
    form = MMA.get((_text(call, 0), kinds[0], kinds[1], kinds[2]))
    saturated = any([type(flag) is IntImm and flag.value for flag in call.args[12:13]])
    if form is None or (_text(call, 1), _text(call, 2)) != ("row", "col") or saturated:
        shown = ", ".join(kinds)
        raise CodegenError(
            "E526", f"no mma.sync {_text(call, 0)} {_text(call, 1)} by {_text(call, 2)} of {shown}", call.span
        )
    require(w, form.arch, call)
    a, b, c = [(call.args[k], call.args[k + 1], DataType(kind)) for k, kind in zip((6, 8, 10), kinds)]
    operands = load_words(w, *a, form.a, form.operand) + load_words(w, *b, form.b, form.operand)
    operands += load_words(w, *c, form.c, form.total)
    made = nvvm(w, f"mma.{_text(call, 0)}.row.col.{form.name}", structure([form.total] * form.c), *operands)
    store_words(w, *c, made, form.c, form.total)


def ldmatrix(w: FunctionWriter, call: Call) -> None:
    """8x8 matrices of 16 bits from shared memory. Arguments: trans, number, ".b16", pointer and offset of the registers,
    pointer and offset of the row that the lane gives."""
    trans, number = [argument.value if type(argument) is IntImm else None for argument in call.args[:2]]
    dtype = dtype_of(call).element
    if number not in (1, 2, 4) or _text(call, 2) != ".b16" or trans is None or dtype.itemsize > 4:
        raise CodegenError("E526", "T.ptx_ldmatrix takes 1, 2 or 4 matrices of .b16", call.span)
    row = element(w, call.args[5], call.args[6], dtype, SHARED)
    name = f"ldmatrix.sync.aligned.m8n8.x{number}{'.trans' if trans else ''}.b16.p3"
    made = nvvm(w, name, structure(["i32"] * number), (SHARED, row))
    store_words(w, call.args[3], call.args[4], dtype, made, number, "i32")


def fragments(w: FunctionWriter, buffer: Buffer, count: int, span: Span | None) -> None:
    """Allocate the fragments of a buffer, each in registers of the lanes."""
    if count % (SIZE * SIZE):
        raise CodegenError("E525", f"fragments of {buffer.name} are not matrices of {SIZE}x{SIZE}", span)
    give_slot(w, buffer, "i32", 16, max(1, count // (SIZE * SIZE)) * FRAGMENT_WORDS)


def _fragment(w: FunctionWriter, call: Call, arg: int, number: int) -> tuple[Words, Buffer]:
    """The registers of fragment ``call.args[number]`` of the buffer whose pointer is an argument, and the buffer."""
    var = call.args[arg]
    buffer = w.buffers.get(var) if type(var) is Var else None
    if buffer is None or not buffer.scope.startswith("wmma."):
        raise CodegenError("E526", f"argument {arg} of {call.op_name} is not a buffer of fragments", call.span)
    return (var, mul(call.args[number], FRAGMENT_WORDS), I32), buffer


def _checked_size(call: Call) -> None:
    if [getattr(a, "value", None) for a in call.args[1:4]] != [SIZE] * 3:
        raise CodegenError("E526", f"{call.op_name} has code for fragments of {SIZE}x{SIZE}x{SIZE} only", call.span)


def _accumulator(buffer: Buffer, call: Call) -> tuple[str, int, str]:
    """(name in PTX, registers, LLVM type) of an accumulator."""
    for (_, total), (form, _, name) in WMMA.items():
        if total == buffer.dtype.name:
            return name, form.c, form.total
    raise CodegenError("E526", f"no accumulator of {buffer.dtype.name}", call.span)


def fill_fragment(w: FunctionWriter, call: Call) -> None:
    """Arguments: fragments, m, n, k, number, value."""
    _checked_size(call)
    registers, buffer = _fragment(w, call, 0, 4)
    _, count, kind = _accumulator(buffer, call)
    if buffer.scope != "wmma.accumulator":
        raise CodegenError(
            "E526", f"T.tvm_fill_fragment has code for accumulators only, not for {buffer.scope}", call.span
        )
    value = to_memory(w, convert(w, w.value(call.args[5]), dtype_of(call.args[5]), buffer.dtype), buffer.dtype)
    if kind == _HALF:
        pair = w.emit(f"insertelement <2 x i16> poison, i16 {value}, i64 0")
        pair = w.emit(f"shufflevector <2 x i16> {pair}, <2 x i16> poison, <2 x i32> zeroinitializer")
        value = w.emit(f"bitcast <2 x i16> {pair} to {_HALF}")
    store_words(w, *registers, [value] * count, count, kind)


def _operand(buffer: Buffer, call: Call) -> tuple[str, int, str]:
    """(name in PTX, registers, LLVM type) of a matrix A or B."""
    for (operand, _), (form, name, _) in WMMA.items():
        if operand == buffer.dtype.name:
            return name, form.a, form.operand
    raise CodegenError("E526", f"no fragments of {buffer.dtype.name}", call.span)


def load_fragment(w: FunctionWriter, call: Call) -> None:
    """Arguments: fragments, m, n, k, number, pointer, stride, layout."""
    _checked_size(call)
    registers, buffer = _fragment(w, call, 0, 4)
    part = buffer.scope.removeprefix("wmma.")
    name, count, kind = _accumulator(buffer, call) if part == "accumulator" else _operand(buffer, call)
    letter = {"matrix_a": "a", "matrix_b": "b", "accumulator": "c"}[part]
    layout = _text(call, 7).removesuffix("_major")
    if name == "bf16":
        require(w, "sm_80", call)
    source = pointer(w, call.args[5])
    stride = w.emit(f"trunc i64 {index(w, call.args[6])} to i32")
    made = nvvm(
        w, f"wmma.m16n16k16.load.{letter}.{layout}.stride.{name}.p0", structure([kind] * count), ("ptr", source), ("i32", stride)
    )  # fmt: skip
    store_words(w, *registers, made, count, kind)


def store_fragment(w: FunctionWriter, call: Call) -> None:
    """Arguments: fragments, m, n, k, number, pointer, stride, layout."""
    _checked_size(call)
    registers, buffer = _fragment(w, call, 0, 4)
    name, count, kind = _accumulator(buffer, call)
    layout = _text(call, 7).removesuffix("_major")
    to = pointer(w, call.args[5])
    stride = w.emit(f"trunc i64 {index(w, call.args[6])} to i32")
    words = load_words(w, *registers, count, kind)
    nvvm(w, f"wmma.m16n16k16.store.d.{layout}.stride.{name}.p0", "void", ("ptr", to), *words, ("i32", stride))


def _layout(w: FunctionWriter, var: Expr, call: Call) -> str:
    """The layout in which the fragments of a buffer are loaded; the product has it in its name."""
    loads = [c for c in collect(w.kernel.func.body, Call) if c.op_name == "T.tvm_load_matrix_sync" and c.args[0] is var]
    found = {_text(load, 7).removesuffix("_major") for load in loads}
    if len(found) != 1:
        raise CodegenError("E526", "the fragments of a product are loaded in two layouts, or not at all", call.span)
    return found.pop()


def mma_fragments(w: FunctionWriter, call: Call) -> None:
    """``D = A @ B + C``. Arguments: fragments and number of D, A, B, C."""
    (d, total), (a, left), (b, _), (c, _) = [_fragment(w, call, k, k + 1) for k in (0, 2, 4, 6)]
    found = WMMA.get((left.dtype.name, total.dtype.name))
    if found is None:
        raise CodegenError("E526", f"no product of fragments of {left.dtype.name} into {total.dtype.name}", call.span)
    form = found[0]
    require(w, form.arch, call)
    words = load_words(w, *a, form.a, form.operand) + load_words(w, *b, form.b, form.operand)
    words += load_words(w, *c, form.c, form.total)
    layouts = f"{_layout(w, call.args[2], call)}.{_layout(w, call.args[4], call)}"
    made = nvvm(w, f"wmma.m16n16k16.mma.{layouts}.{form.name}", structure([form.total] * form.c), *words)
    store_words(w, *d, made, form.c, form.total)


EMITTERS: Intrinsics = {
    "T.ptx_mma": mma,
    "T.ptx_ldmatrix": ldmatrix,
    "T.tvm_fill_fragment": fill_fragment,
    "T.tvm_load_matrix_sync": load_fragment,
    "T.tvm_store_matrix_sync": store_fragment,
    "T.tvm_mma_sync": mma_fragments,
}
