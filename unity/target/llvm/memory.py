"""Reading and writing buffers: addresses, lanes, predicates.

A ramp with step 1 is one vector access, a read along few rows picks lanes, as does an access along one under a mask (``rows.py``);
an element that all lanes read is read once; other vectors of indices gather and scatter. Masked-off lanes of a read are zero.
Masked accesses have their alignment as an argument, as all versions of LLVM take it. Not here: indices (``indices.py``).
"""

from __future__ import annotations

import math
from functools import reduce

from ...ffi.dtype import DataType
from ...ir.buffer import Buffer
from ...ir.build import broadcast, conjuncts, const, dtype_of, is_int, logical_and, lt, ramp
from ...ir.expr import IntImm, Var
from ...ir.node import replace
from ...ir.scalar import Broadcast, BufferLoad, Ramp
from ...ir.types import Expr
from ...support.errors import CodegenError
from ...support.source import Span
from .casts import from_memory, to_memory
from .indices import Offset, divisor, index, offset_of
from .lltypes import memory_type, value_type
from .rows import contiguous_lanes, shuffled_load
from .small_indices import kept_elements
from .vectors import concat_vectors, shuffled, splat
from .writer import EXPRESSIONS, FunctionWriter

_I64 = DataType("int64")
NEAR = 4
"""Largest step between lanes for which a read takes whole vectors and picks from them, instead of gathering."""
PIECE = 16
"""Lanes that a read with a step between them takes at a time."""
WIDE = ("ptr", "ptr addrspace(1)")
"""Pointers of 64 bits: those of a device's memory are known to be."""


def data_pointer(w: FunctionWriter, buffer: Buffer, span: Span | None = None) -> tuple[str, str]:
    """Type and operand of a buffer's pointer. Raises CodegenError E524 for a buffer that is not declared here."""
    found = w.spaces.get(buffer.data)
    if found is not None:
        return found
    generic = w.env.get(buffer.data)
    if generic is None:
        raise CodegenError("E524", f"buffer {buffer.name} is used outside its declaration", span)
    return "ptr", generic


def strides_of(w: FunctionWriter, buffer: Buffer) -> list[str]:
    """Stride of each axis in elements, as i64 operands."""
    if buffer.strides:
        return [index(w, s) for s in buffer.strides]
    strides, running = ["1"], "1"
    for extent in reversed(buffer.shape[1:]):
        size = index(w, extent)
        running = size if running == "1" else w.emit(f"mul nsw i64 {running}, {size}")
        strides.insert(0, running)
    return strides[: len(buffer.shape)]


def _linear(
    w: FunctionWriter, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None, max_step: int = 1
) -> tuple[Offset, int, str | None]:
    """(offset, lanes, step): step "1" for one contiguous access, None for a vector of offsets; another step up
    to ``near`` where the offsets are so far apart."""
    if len(indices) != len(buffer.shape):
        raise CodegenError("E524", f"{buffer.name} has {len(buffer.shape)} axes, got {len(indices)} indices", span)
    for position in indices[:-1]:
        if dtype_of(position).lanes != 1:
            raise CodegenError("E524", f"only the last index of {buffer.name} may be a vector", span)
    strides = strides_of(w, buffer)
    total = "0"
    narrow = w.spaces.get(buffer.data, ("ptr", ""))[0] in WIDE  # addresses of other spaces have 32 bits themselves
    if buffer.elem_offset is not None and not _is_parameter(w, buffer):
        total = index(w, buffer.elem_offset, narrow)
    last = indices[-1] if indices else None
    lanes = dtype_of(last).lanes if last is not None else 1
    if lanes == 1 and total == "0" and not buffer.strides and all([is_int(extent, 1) for extent in buffer.shape]):
        return ("0", 0), 1, None  # the only element, whatever the indices say
    alone = len(indices) == 1 and total == "0" and strides == ["1"]
    if last is not None and lanes == 1 and alone:
        return offset_of(w, last, narrow), 1, None
    for position, stride in zip(indices, strides):
        if position is last and lanes > 1:
            break
        term = index(w, position, narrow)
        if stride != "1":
            term = w.emit(f"mul nsw i64 {term}, {stride}")
        total = term if total == "0" else w.emit(f"add nsw i64 {total}, {term}")
    if last is None or lanes == 1:
        return (total, 0), 1, None
    if type(last) is Ramp and type(last.stride) is IntImm and strides[-1] == "1" and 1 <= last.stride.value <= max_step:
        step = str(last.stride.value)
        if alone:
            return offset_of(w, last.base, narrow), lanes, step
        base = index(w, last.base, narrow)
        return (base if total == "0" else w.emit(f"add nsw i64 {total}, {base}"), 0), lanes, step
    vector = index(w, last)
    ty = f"<{lanes} x i64>"
    if strides[-1] != "1":
        vector = w.emit(f"mul nsw {ty} {vector}, {splat(w, strides[-1], _I64.with_lanes(lanes))}")
    if total != "0":
        vector = w.emit(f"add nsw {ty} {vector}, {splat(w, total, _I64.with_lanes(lanes))}")
    return (vector, 0), lanes, None


def space_of(kind: str) -> str:
    """Number of the address space of a pointer type."""
    return kind.removeprefix("ptr addrspace(").removesuffix(")") if kind != "ptr" else "0"


def element_pointer(w: FunctionWriter, buffer: Buffer, kind: str, pointer: str, offset: Offset) -> str:
    """Pointer of a type to an element. Vector elements lie close together in memory: LLVM's own vectors would be padded to powers
    of two."""
    ty = memory_type(buffer.dtype) if buffer.dtype.lanes == 1 else f"[{buffer.dtype.itemsize} x i8]"
    return moved(w, ty, kind, moved(w, ty, kind, pointer, offset[0]), str(offset[1]))


def moved(w: FunctionWriter, ty: str, kind: str, pointer: str, offset: str) -> str:
    """A pointer moved by elements of an LLVM type."""
    return pointer if offset == "0" else w.emit(f"getelementptr {ty}, {kind} {pointer}, i64 {offset}")


def _is_parameter(w: FunctionWriter, buffer: Buffer) -> bool:
    return any([b is buffer for b in w.kernel.func.buffer_map.values()])


def address(w: FunctionWriter, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None = None) -> str:
    """Generic pointer to an element."""
    offset, lanes, step = _linear(w, buffer, indices, span)
    if lanes > 1 and step is None:
        raise CodegenError("E524", f"the address of a vector of elements of {buffer.name}", span)
    kind, pointer = data_pointer(w, buffer, span)
    element = element_pointer(w, buffer, kind, pointer, offset)
    return element if kind == "ptr" else w.emit(f"addrspacecast {kind} {element} to ptr")


def _active(w: FunctionWriter, predicate: Expr | None, lanes: int) -> str | None:
    """The lanes that take part: predicate and current mask."""
    mask = w.mask if w.mask_lanes == lanes else None
    if predicate is None:
        return mask
    text = w.value(predicate)
    if dtype_of(predicate).lanes != lanes or not dtype_of(predicate).is_bool:
        raise CodegenError("E524", f"a predicate for {lanes} lanes has type {dtype_of(predicate).name}", predicate.span)  # type: ignore[attr-defined]
    return text if mask is None else w.emit(f"and <{lanes} x i1> {text}, {mask}")


def _opaque(w: FunctionWriter, mask: str, lanes: int) -> str:
    """The mask, of which LLVM knows nothing.

    For a narrowed vector and a mask of which it knows that one lane is active, LLVM 22 stores an element of the wide type where
    AVX-512 is at hand: the bytes after the element are overwritten.
    """
    one = w.emit('call i32 asm "", "=r,0"(i32 1)')
    unknown = splat(w, w.emit(f"trunc i32 {one} to i1"), DataType("bool").with_lanes(lanes))
    return w.emit(f"and <{lanes} x i1> {mask}, {unknown}")


def _perhaps(w: FunctionWriter, mask: str, lanes: int) -> str:
    """The mask, of which LLVM knows no lane.

    Where it splits a wide access for AVX2 and one part of the mask turns out to be false or true in all lanes, LLVM 22 reads that
    part whole, or ends the process.
    """
    zero = w.emit('call i32 asm "", "=r,0"(i32 0)')
    unknown = splat(w, w.emit(f"trunc i32 {zero} to i1"), DataType("bool").with_lanes(lanes))
    return w.emit(f"xor <{lanes} x i1> {mask}, {unknown}")


def _alignment(w: FunctionWriter, buffer: Buffer, indices: tuple[Expr, ...]) -> int:
    """The alignment of an access in bytes: an element's, or that of a vector where its first index shows it."""
    own = max(1, buffer.dtype.bits // 8)
    plain = buffer.data in w.aligned and not buffer.strides and buffer.elem_offset is None
    if plain and len(indices) == 1 and type(indices[0]) is Ramp:
        base, lanes = indices[0].base, indices[0].lanes
        if base not in w.multiples:
            w.multiples[base] = divisor(base)
        # a power of two: what divides the first index, the memory and the vector
        return math.gcd(w.multiples[base] * own, w.aligned[buffer.data], lanes * own)
    return own


def _load(w: FunctionWriter, expr: BufferLoad) -> str:
    buffer, result = expr.buffer, expr.ty.dtype
    held = kept_elements(w, buffer, expr.indices) if w.places and expr.predicate is None else None
    if held is not None and held[2] is result:
        return from_memory(w, held[0].read(w, held[1], result.lanes, memory_type(result)), result)
    rows = shuffled_load(expr) if w.mask is None else None
    if rows is not None:
        return w.value(rows)
    row = _row(w, buffer, expr.indices, expr.predicate)
    if row is not None:
        indices, predicate = _from_first(row, expr.indices)
        text, ty = w.value(replace(expr, indices=indices, predicate=predicate)), value_type(expr.ty.dtype)
        lanes = expr.ty.dtype.lanes
        picks = [row[1].index(lane) if lane in row[1] else lanes for lane in range(lanes)]
        return shuffled(w, ty, text, picks, "zeroinitializer")
    offset, lanes, step = _linear(w, buffer, expr.indices, expr.span, NEAR)
    if result is not buffer.dtype.with_lanes(lanes * buffer.dtype.lanes):
        raise CodegenError(
            "E523", f"a read of {lanes} lanes of {buffer.name} ({buffer.dtype.name}) as {result.name}", expr.span
        )
    element = memory_type(buffer.dtype, expr.span)
    align = _alignment(w, buffer, expr.indices)
    alike = lanes == 1 or (step == "1" and buffer.dtype.lanes == 1)
    place = w.places.get(buffer.data)
    if place is not None:  # a mask is of no use there: nothing is read that may not be
        held = place.read(w, offset if alike and expr.predicate is None else None, lanes, memory_type(result))
        if held is not None:
            return from_memory(w, held, result)
    active = _active(w, expr.predicate, lanes)
    kind, pointer = data_pointer(w, buffer, expr.span)
    if alike:
        address = element_pointer(w, buffer, kind, pointer, offset)
        ty = memory_type(result)
        if active is None or lanes == 1:
            hint = w.unchanging.get(buffer.data, "")
            loaded = w.read(buffer, f"load {ty}, {kind} {address}, align {align}{hint}")
            if lanes == 1 and active is not None:
                raise CodegenError("E524", f"a predicate on a single element of {buffer.name}", expr.span)
        else:
            address = _within(w, expr.predicate, kind, address, pointer)
            loaded = _masked_load(w, buffer, kind, address, align, lanes, active)
        return from_memory(w, loaded, result)
    if buffer.dtype.lanes != 1:
        raise CodegenError("E524", f"a vector of indices into {buffer.name}, whose elements are vectors", expr.span)
    ty = memory_type(result)
    if step is not None:
        return from_memory(
            w,
            _strided_load(
                w, buffer, kind, element_pointer(w, buffer, kind, pointer, offset), align, lanes, int(step), active
            ),
            result,
        )
    last = expr.indices[-1]
    if active is not None and kind == "ptr" and type(last) is Broadcast:
        (offset, _, _) = _linear(w, buffer, (*expr.indices[:-1], last.value), expr.span)
        address = element_pointer(w, buffer, kind, pointer, offset)
        return from_memory(w, _shared_load(w, buffer, (kind, pointer), address, align, lanes, active), result)
    addresses = w.emit(f"getelementptr {element}, {kind} {pointer}, <{lanes} x i64> {offset[0]}")
    mask = active or "splat (i1 true)"
    name = f"@llvm.masked.gather.v{lanes}{element_suffix(element)}.v{lanes}p{space_of(kind)}"
    loaded = w.read(
        buffer,
        f"call {ty} {name}(<{lanes} x {kind}> {addresses}, i32 {align}, <{lanes} x i1> {mask}, {ty} zeroinitializer)",
    )
    return from_memory(w, loaded, result)


def _within(w: FunctionWriter, predicate: Expr | None, kind: str, address: str, first: str) -> str:
    """An address to read from: that of the ``first`` element where a predicate holds in no lane, as far as its lanes have
    conditions in common. Masked instructions would read nothing, but take hundreds of cycles at a page that nobody touched."""
    parts = [] if predicate is None else conjuncts(w.masks.get(predicate, predicate))
    common = [part.value for part in parts if type(part) is Broadcast]
    if not common:
        return address
    return w.emit(f"select i1 {w.value(reduce(logical_and, common))}, {kind} {address}, {kind} {first}")


def _strided_load(
    w: FunctionWriter, buffer: Buffer, kind: str, address: str, align: int, lanes: int, step: int, active: str | None
) -> str:
    """Elements 0, step, 2 * step, ... as a vector: whole vectors are read under a mask, so that nothing else is touched."""
    element = memory_type(buffer.dtype)
    if lanes > PIECE and lanes % PIECE == 0:  # LLVM picks well from few registers only
        half = lanes // 2 if lanes // 2 % PIECE == 0 else PIECE
        parts = []
        for first, count in ((0, half), (half, lanes - half)):
            address_at = w.emit(f"getelementptr {element}, {kind} {address}, i64 {first * step}") if first else address
            picked = active and shuffled(w, f"<{lanes} x i1>", active, range(first, first + count))
            known = math.gcd(align, first * step * buffer.dtype.itemsize)
            parts.append(_strided_load(w, buffer, kind, address_at, known, count, step, picked))
        return concat_vectors(w, element, parts, (half, lanes - half))
    wide = lanes * step
    if active is None:
        lit = ", ".join([f"i1 {'true' if i % step == 0 else 'false'}" for i in range(wide)])
        mask = f"<{lit}>"
    else:
        stride_lanes = [i // step if i % step == 0 else lanes for i in range(wide)]
        mask = shuffled(w, f"<{lanes} x i1>", active, stride_lanes, "zeroinitializer")
    read = _masked_load(w, buffer, kind, address, align, wide, mask)
    return shuffled(w, f"<{wide} x {element}>", read, range(0, wide, step))


def _masked_load(w: FunctionWriter, buffer: Buffer, kind: str, address: str, align: int, lanes: int, mask: str) -> str:
    """Elements after each other, those of the mask; zero in the other lanes."""
    element = memory_type(buffer.dtype)
    if _is_split(w, buffer, lanes):
        mask = _perhaps(w, mask, lanes)
    name, ty = f"@llvm.masked.load.v{lanes}{element_suffix(element)}.p{space_of(kind)}", f"<{lanes} x {element}>"
    return w.read(
        buffer, f"call {ty} {name}({kind} {address}, i32 {align}, <{lanes} x i1> {mask}, {ty} zeroinitializer)"
    )


def _shared_load(
    w: FunctionWriter, buffer: Buffer, start: tuple[str, str], address: str, align: int, lanes: int, mask: str
) -> str:
    """One element in all lanes of a mask, zero in the others: read once, if any lane wants it, where LLVM would gather."""
    kind, pointer = start
    some = w.emit(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")
    address = w.emit(f"select i1 {some}, {kind} {address}, {kind} {pointer}")  # as in `_within`
    first = w.emit(f"insertelement <{lanes} x i1> zeroinitializer, i1 {some}, i64 0")
    loaded, ty = _masked_load(w, buffer, kind, address, align, lanes, first), f"<{lanes} x {memory_type(buffer.dtype)}>"
    alike = shuffled(w, ty, loaded, [0] * lanes)
    return w.emit(f"select <{lanes} x i1> {mask}, {ty} {alike}, {ty} zeroinitializer")


def _masked_store(
    w: FunctionWriter, buffer: Buffer, kind: str, address: str, align: int, lanes: int, mask: str, text: str
) -> None:
    """Store the elements of the mask after each other."""
    element = memory_type(buffer.dtype)
    ty = f"<{lanes} x {element}>"
    if _is_split(w, buffer, lanes):
        mask = _perhaps(w, mask, lanes)
    if element in ("i8", "i16", "i32") and "avx512f" in w.module.features:
        mask = _opaque(w, mask, lanes)
    name = f"@llvm.masked.store.v{lanes}{element_suffix(element)}.p{space_of(kind)}"
    w.do(f"call void {name}({ty} {text}, {kind} {address}, i32 {align}, <{lanes} x i1> {mask})")


def _is_split(w: FunctionWriter, buffer: Buffer, lanes: int) -> bool:
    """True for masked accesses that LLVM splits for AVX and AVX2."""
    features = w.module.features
    return lanes * buffer.dtype.itemsize > 32 and "avx" in features and "avx512f" not in features


def element_suffix(element: str) -> str:
    """Suffix of a memory type in intrinsic names."""
    return {"float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)


def _row(
    w: FunctionWriter, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None
) -> tuple[Expr, list[int]] | None:
    """The first index, and the lanes that count, of an access whose lanes that count lie one after the other."""
    if predicate is None or w.mask is not None or buffer.dtype.lanes > 1:
        return None
    return contiguous_lanes(indices, w.masks.get(predicate, predicate))


def _from_first(row: tuple[Expr, list[int]], indices: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr | None]:
    """Indices and predicate of an access whose lanes that count are its first ones."""
    first, places = row
    lanes, number = dtype_of(indices[-1]).lanes, dtype_of(first)
    zero, one = const(0, number), const(1, number)
    counted = lt(ramp(zero, one, lanes), broadcast(const(len(places), number), lanes))
    return (*indices[:-1], ramp(first, one, lanes)), counted if len(places) < lanes else None


def store(
    w: FunctionWriter, buffer: Buffer, value: Expr, indices: tuple[Expr, ...], predicate: Expr | None, span: Span | None
) -> None:
    """Write ``buffer[indices] = value``."""
    dtype = dtype_of(value)
    held = kept_elements(w, buffer, indices) if w.places and predicate is None and w.mask is None else None
    if held is not None and held[2] is dtype:
        held[0].write(w, held[1], dtype.lanes, memory_type(dtype), to_memory(w, w.value(value), dtype))
        return
    row = _row(w, buffer, indices, predicate)
    if row is not None:
        indices, predicate = _from_first(row, indices)
    offset, lanes, step = _linear(w, buffer, indices, span)
    wanted = buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
    text = w.value(value)
    if dtype is not wanted:
        if dtype.lanes == 1 and dtype is wanted.element:
            text = splat(w, text, wanted)
        else:
            raise CodegenError(
                "E523", f"a value of type {dtype.name} is stored into {buffer.name} ({wanted.name})", span
            )
    text = to_memory(w, text, wanted)
    text = text if row is None else shuffled(w, memory_type(wanted), text, (row[1] * lanes)[:lanes])
    element, ty = memory_type(buffer.dtype, span), memory_type(wanted)
    active = _active(w, predicate, lanes)
    alike = lanes == 1 or (step == "1" and buffer.dtype.lanes == 1)
    place = w.places.get(buffer.data)
    if place is not None and place.write(w, offset if alike and active is None else None, lanes, ty, text):
        return
    kind, pointer = data_pointer(w, buffer, span)
    if pointer.startswith("@") and kind == "ptr":
        raise CodegenError("E524", f"a store into the constant {buffer.name}", span)
    align = _alignment(w, buffer, indices)
    if alike:
        if lanes == 1 and active is not None:
            raise CodegenError("E524", f"a predicate on a single element of {buffer.name}", span)
        address = element_pointer(w, buffer, kind, pointer, offset)
        if active is None:
            w.do(f"store {ty} {text}, {kind} {address}, align {align}")
        else:
            _masked_store(w, buffer, kind, address, align, lanes, active, text)
        return
    if buffer.dtype.lanes != 1:
        raise CodegenError("E524", f"a vector of indices into {buffer.name}, whose elements are vectors", span)
    addresses = w.emit(f"getelementptr {element}, {kind} {pointer}, <{lanes} x i64> {offset[0]}")
    mask = active or "splat (i1 true)"
    name = f"@llvm.masked.scatter.v{lanes}{element_suffix(element)}.v{lanes}p{space_of(kind)}"
    w.do(f"call void {name}({ty} {text}, <{lanes} x {kind}> {addresses}, i32 {align}, <{lanes} x i1> {mask})")


def variable(w: FunctionWriter, var: Var) -> str:
    """Operand of a variable. Raises CodegenError E524 where it has no value."""
    found = w.env.get(var)
    if found is None:
        raise CodegenError("E524", f"variable {var.name} has no value here", var.span)
    return found


EXPRESSIONS[BufferLoad] = _load
EXPRESSIONS[Var] = variable
