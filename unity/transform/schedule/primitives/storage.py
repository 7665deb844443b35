"""set_scope, storage_align, unsafe_set_dtype: properties of a buffer that a block writes or reads."""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ir.buffer import Buffer
from ....ir.build import cast
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.scalar import BufferLoad, Cast
from ....ir.stmt import BufferStore
from ....ir.types import Expr, PointerType, prim_type
from ....support.errors import UnityError
from ...tir.analysis.loop_nests import JOINS
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, Sref
from ..core.state import ScheduleState
from ..preconditions.dependence import regions
from ..rewrites.parameter_layout import parameter_of
from ..rewrites.rewriting import allocating_block, replace_buffer
from .annotations import notes, set_notes

ALIGN_KEY = "buffer_dim_align"
SCOPES = (
    "global",
    "shared",
    "shared.dyn",
    "local",
    "warp",
    "wmma.matrix_a",
    "wmma.matrix_b",
    "wmma.accumulator",
    "amx.tile",
    "texture",
)


def known_scope(scope: str) -> bool:
    """A storage scope of the table, or main memory set apart under a name of one's own (``"global.A_reg"``)."""
    return scope in SCOPES or (scope.startswith("global.") and scope[7:].isidentifier())


def require_scope(block: Sref, storage_scope: str) -> None:
    """Refuse E429 for a storage scope that is not known."""
    if not known_scope(storage_scope):
        refuse("E429", f"there is no storage scope {storage_scope!r}", "known scope", block,
               f"one of: {', '.join(SCOPES)}")  # fmt: skip


def named_buffer(state: ScheduleState, block: Sref, verb: str, index: int | str) -> Buffer:
    """One of the buffers that a block ``verb``s, reads or writes, by place or by name. Refuses E438 or E429 for another."""
    used = regions(state, block.block)[verb == "write"]
    buffers = list(dict.fromkeys([r.buffer for r in used]))
    if isinstance(index, str):
        named = [b for b in buffers if b.name == index]
        if len(named) == 1:
            return named[0]
    elif isinstance(index, int) and 0 <= index < len(buffers):
        return buffers[index]
    shown = ", ".join([f"{k}: {b.name}" for k, b in enumerate(buffers)]) or "none"
    code, done = {"read": ("E438", "a read buffer"), "write": ("E429", "a written buffer")}[verb]
    refuse(code, f"block {block.name} {verb}s no buffer {index!r}", done, block,
           f"it {verb}s {shown}")  # fmt: skip


def buffer_of(state: ScheduleState, block: Sref, which: Any) -> tuple[str, Buffer]:
    """A buffer of a block and whether it is one that it reads or writes: ``("read", 0)``, ``("write", "C")``, a name, or its place
    among those read and then those written."""
    verb, name = which if isinstance(which, (tuple, list)) and len(which) == 2 else ("", which)
    if verb not in ("read", "write"):
        reads, writes = regions(state, block.block)
        behind = type(name) is int and name >= len(reads)
        written = behind or (isinstance(name, str) and name in [w.buffer.name for w in writes])
        verb, name = "write" if written else "read", name - len(reads) if behind else name
    return verb, named_buffer(state, block, verb, name)


def owner_of(state: ScheduleState, block: Sref, buffer: Buffer, code: str) -> Sref:
    """The block that allocates a buffer, the root block for a parameter. Refuses ``code`` for one that a loop allocates."""
    found = allocating_block(block, buffer)
    if found is None and parameter_of(state, block.func, buffer) is None:
        refuse(code, f"{buffer.name} is allocated inside a loop", "allocated in the function", block,
               "take this step before parallel")  # fmt: skip
    return found or state.root(block.func)


def allocated(state: ScheduleState, block: Sref, buffer: Buffer) -> Sref:
    """The block that allocates a buffer. Refuses E429 for a parameter of the function."""
    if parameter_of(state, block.func, buffer) is not None:
        refuse("E429", f"{buffer.name} is a parameter of the function", "allocated in the function", block,
               "cache_write gives a buffer of its own")  # fmt: skip
    return owner_of(state, block, buffer, "E429")


@primitive(checks=("a written buffer", "allocated in the function", "known scope"), rewrite='T.alloc_buffer(..., scope="shared")',
           example='sch.set_scope(sch.get_block("C"), 0, "shared")')  # fmt: skip
def set_scope(state: ScheduleState, block: BlockRef, buffer_index: int | str, storage_scope: str) -> None:
    """Put a buffer that a block writes into another storage scope ("shared", "local", ...).

    ``buffer_index``: number of the buffer among those the block writes, or its name. Raises ScheduleError E429 for a parameter of
    the function, or an unknown scope.
    """
    buffer = named_buffer(state, block, "write", buffer_index)
    require_scope(block, storage_scope)
    if buffer.scope != storage_scope:
        where = allocated(state, block, buffer)
        replace_buffer(state, where, buffer, with_fields(buffer, data=_pointer(buffer, buffer.dtype, storage_scope)))


def _pointer(buffer: Buffer, dtype: DataType, scope: str) -> Var:
    return Var(buffer.data.name, PointerType(prim_type(dtype), scope))


@primitive(checks=("a written buffer", "allocated in the function", "axis in range", "positive factor"),
           rewrite="adds buffer_dim_align to the block: the stride of the axis becomes k * factor + offset",
           example='sch.storage_align(sch.get_block("C"), 0, axis=0, factor=32, offset=8)')  # fmt: skip
def storage_align(
    state: ScheduleState, block: BlockRef, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Request that the stride of an axis of a written buffer be ``k * factor + offset``, in elements (against bank conflicts).

    The block gets the annotation ``buffer_dim_align``, a list of [buffer, axis, factor, offset]. Negative axes count from the end.
    Raises ScheduleError E429.
    """
    buffer = named_buffer(state, block, "write", buffer_index)
    allocated(state, block, buffer)
    if not -buffer.ndim <= axis < buffer.ndim:
        refuse(
            "E429",
            f"{buffer.name} has {buffer.ndim} axes, not {axis}",
            "axis in range",
            block,
            f"an axis from {-buffer.ndim} to {buffer.ndim - 1}",
        )
    if factor <= 0:
        refuse("E429", f"factor {factor} is not positive", "positive factor", block, "e.g. factor=32, offset=8")
    entry = (buffer_index, axis % buffer.ndim, factor, offset)
    known = [e for e in notes(block).get(ALIGN_KEY, ()) if tuple(e[:2]) != entry[:2]]
    set_notes(state, block, {**notes(block), ALIGN_KEY: (*known, entry)})


@primitive(checks=("a written buffer", "allocated in the function"), unsafe=True,
           rewrite="every store into the buffer converts, every load converts back",
           example='sch.unsafe_set_dtype(sch.get_block("C"), 0, "float16")')  # fmt: skip
def unsafe_set_dtype(state: ScheduleState, block: BlockRef, buffer_index: int | str, dtype: str) -> None:
    """Keep a buffer that a block writes in another data type.

    Values are converted when stored and converted back when loaded, so results change by rounding: the step is graded "unsafe".
    What is combined with cells that became wider is computed in the wider type: a float32 sum becomes a float64 sum. Raises
    ScheduleError E429.
    """
    buffer = named_buffer(state, block, "write", buffer_index)
    where = allocated(state, block, buffer)
    try:
        target = DataType(dtype)
    except (UnityError, ValueError, TypeError) as error:
        refuse(
            "E429",
            f"there is no data type {dtype!r} ({error})",
            "known data type",
            block,
            "e.g. float16, bfloat16, int8",
        )
    if target.lanes != 1 or not (target.is_float or target.is_integral or target.is_bool):
        refuse(
            "E429",
            f"a buffer cannot be kept as {dtype}",
            "known data type",
            block,
            "a number type of one lane, e.g. float16",
        )
    if target is buffer.dtype:
        return
    made = with_fields(buffer, data=_pointer(buffer, target, buffer.scope), dtype=target)

    def load(node: BufferLoad) -> Expr:
        if node.buffer is not made:
            return node
        lanes = node.ty.dtype.lanes
        return cast(with_fields(node, ty=prim_type(target.with_lanes(lanes))), node.ty.dtype)

    def store(node: BufferStore) -> BufferStore:
        if node.buffer is not made:
            return node
        value = node.value
        wide = target.with_lanes(value.ty.dtype.lanes)  # type: ignore[attr-defined]
        if type(value) in JOINS and buffer.dtype.is_float and target.is_float and target.bits > buffer.dtype.bits:
            sides = [value.a, value.b]  # type: ignore[attr-defined]
            cells = [
                s.value for s in sides if type(s) is Cast and type(s.value) is BufferLoad and s.value.buffer is made
            ]
            if cells:
                value = JOINS[type(value)](
                    *[s.value if type(s) is Cast and s.value in cells else cast(s, wide) for s in sides]
                )
        return with_fields(node, value=cast(value, wide))

    replace_buffer(state, where, buffer, made, {BufferLoad: load, BufferStore: store})
