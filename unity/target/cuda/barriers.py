"""Barriers of a block that count arrivals and bytes (mbarrier), and bulk copies that signal their completion to them (TMA).

Arguments are TVM's, barriers have numbers (``T.create_barriers``). Instructions are written as PTX, for sm_90 and PTX 8.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.analysis.asynchronous import STORE, TENSOR_COPIES, TensorCopy, tensor_copy
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm, Var
from ...ir.function import PrimFunc
from ...ir.structural import structural_equal
from ...ir.walk import collect, free_vars
from ...support.errors import CodegenError
from ..llvm.casts import convert
from ..llvm.indices import index_parts
from ..llvm.small_indices import plus
from ..llvm.writer import FunctionWriter, Intrinsics
from .registers import GLOBAL, I16, I32, assembly, element, fixed, require, shared_address

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGN, BARRIER_BYTES = 128, 64, 8
TensorMap = tuple[Var, TensorCopy]
"""A tensor map that a launch creates: the parameter of the pointer, and the copy whose tensor and box it describes."""


def create(w: FunctionWriter, call: Call) -> None:
    """Barriers of the block, in its static shared memory."""
    require(w, "sm_90", call)
    count = call.args[0]
    assert type(count) is IntImm
    symbol = _symbol(w)
    if symbol in w.module.definitions:
        raise CodegenError(
            "E526", "T.create_barriers stands twice in a kernel", call.span, help="make all barriers at once"
        )
    w.module.definitions[symbol] = f"{symbol} = internal addrspace(3) global [{count.value} x i64] undef, align 8\n"


def _symbol(w: FunctionWriter) -> str:
    return f"@{w.module.symbols[w.kernel.name]}.barriers"


def _barrier(w: FunctionWriter, call: Call, number: int = 0) -> tuple[str, str]:
    """(type, operand) of the address of the barrier whose number is an argument."""
    require(w, "sm_90", call)
    symbol = _symbol(w)
    if symbol not in w.module.definitions:
        raise CodegenError("E526", f"{call.op_name} stands before T.create_barriers", call.span)
    address = w.emit_before_loops(f"ptrtoint ptr addrspace(3) {symbol} to i32")
    at, constant = index_parts(w, call.args[number])
    if at != "0":
        behind = w.emit(f"mul nsw i32 {w.emit(f'trunc i64 {at} to i32')}, {BARRIER_BYTES}")
        address = w.emit(f"add nsw i32 {address}, {behind}")
    return "i32", plus(w, "i32", address, constant * BARRIER_BYTES)


def _word(w: FunctionWriter, call: Call, index: int) -> tuple[str, str]:
    """(type, operand) of an integer argument in 32 bits."""
    argument = call.args[index]
    return "i32", convert(w, w.value(argument), dtype_of(argument), I32)


def initialize(w: FunctionWriter, call: Call) -> None:
    """Arguments: barrier, arrivals of a phase. Copies may name the barrier at once."""
    text = "mbarrier.init.shared::cta.b64 [$0], $1; fence.mbarrier_init.release.cluster;"
    assembly(w, text, (), _barrier(w, call), _word(w, call, 1))


def arrive(w: FunctionWriter, call: Call) -> None:
    """Argument: barrier."""
    assembly(w, "mbarrier.arrive.shared::cta.b64 _, [$0];", (), _barrier(w, call))


def arrive_expecting(w: FunctionWriter, call: Call) -> None:
    """Arguments: barrier, bytes."""
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    assembly(w, text, (), _barrier(w, call), _word(w, call, 1))


def wait(w: FunctionWriter, call: Call) -> None:
    """Arguments: barrier, parity of the phase."""
    barrier = _barrier(w, call)
    parity = _word(w, call, 1) if len(call.args) > 1 else ("i32", "0")
    again, ended = w.label("wait"), w.label("ended")
    w.jump(again)
    w.start(again)
    text = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }"
    come = assembly(w, text, ("i32",), barrier, parity)
    w.branch(w.emit(f"icmp ne i32 {come}, 0"), ended, again)
    w.start(ended)


def arrive_when_copied(w: FunctionWriter, call: Call) -> None:
    """Argument: barrier."""
    assembly(w, "cp.async.mbarrier.arrive.shared::cta.b64 [$0];", (), _barrier(w, call))


def bulk(w: FunctionWriter, call: Call) -> None:
    """Arguments: shared pointer and offset, global pointer and offset (in elements), bytes, barrier."""
    dtype = dtype_of(call).element
    to = shared_address(w, call.args[0], call.args[1], dtype)
    source = element(w, call.args[2], call.args[3], dtype, GLOBAL)
    source_address = w.emit(f"ptrtoint ptr addrspace(1) {source} to i64")
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    assembly(w, text, (), to, ("i64", source_address), _word(w, call, 4), _barrier(w, call, 5))


def tensor_maps(func: PrimFunc) -> list[TensorMap]:
    """The tensor maps that a kernel needs, one for each tensor and box. Raises CodegenError E526."""
    found: list[TensorMap] = []
    for call in collect(func.body, Call):
        if call.op_name in TENSOR_COPIES:
            copy = _copy(call)
            source, symbols = call.args[2], {v for size in copy.sizes for v in free_vars(size)}
            if type(source) is not Var or source not in func.params or not symbols <= set(func.params):
                raise CodegenError("E526", f"{call.op_name} takes the pointer and the sizes of a parameter", call.span)
            if _number(found, source, copy) == len(found):
                found.append((source, copy))
    return found


def _copy(call: Call) -> TensorCopy:
    form = tensor_copy(call)
    if isinstance(form, str):
        raise CodegenError("E526", f"{call.op_name}: {form}", call.span)
    return form


def _number(maps: Sequence[TensorMap], source: Var, copy: TensorCopy) -> int:
    """The number of the map for a copy; that of a new one where there is none yet."""
    form = (source, copy.dtype, copy.swizzle, copy.box, _window(copy))
    same = [
        form == (var, known.dtype, known.swizzle, known.box, _window(known))
        and structural_equal(copy.sizes, known.sizes)
        for var, known in maps
    ]
    return same.index(True) if True in same else len(maps)


def _window(copy: TensorCopy) -> object:
    """The part of a tensor map that is about windows."""
    window = copy.window
    return None if window is None else (window.lower, window.upper, window.strides)


def bulk_tensor(w: FunctionWriter, call: Call) -> None:
    """Copy a box of a tensor whose map is a parameter of the kernel: ``%map0`` and so on in the order of ``tensor_maps``."""
    copy, source = _copy(call), call.args[2]
    assert type(source) is Var
    tensor = w.emit(f"ptrtoint ptr %map{_number(tensor_maps(w.kernel.func), source, copy)} to i64")
    to = shared_address(w, call.args[0], call.args[1], copy.dtype)
    corner = [convert(w, w.value(n), dtype_of(n), I32) for n in reversed(copy.corner)]
    rank = len(corner)
    registers = ", ".join([f"${3 + axis}" for axis in range(rank)])
    coordinates = [("i32", n) for n in corner]
    if call.op_name == STORE:
        require(w, "sm_90", call)
        registers = ", ".join([f"${2 + axis}" for axis in range(rank)])
        text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [$1, {{{registers}}}], [$0];"
        assembly(w, text, (), to, ("i64", tensor), *coordinates)
        return
    kind = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global"
    rest = "mbarrier::complete_tx::bytes [$0], [$1"
    barrier = _barrier(w, call, 3)
    if copy.window is None:
        assembly(w, f"{kind}.tile.{rest}, {{{registers}}}], [$2];", (), to, ("i64", tensor), barrier, *coordinates)
        return
    window = [("i16", convert(w, w.value(n), dtype_of(n), I16)) for n in reversed(copy.window.offsets)]
    offsets = ", ".join([f"${3 + rank + axis}" for axis in range(rank - 2)])
    text = f"{kind}.im2col.{rest}, {{{registers}}}], [$2], {{{offsets}}};"
    assembly(w, text, (), to, ("i64", tensor), barrier, *coordinates, *window)


def elect(w: FunctionWriter, call: Call) -> str:
    """True in one lane of the warp."""
    require(w, "sm_90", call)
    text = "{ .reg .pred p; elect.sync _|p, -1; selp.u32 $0, 1, 0, p; }"
    return w.emit(f"icmp ne i32 {assembly(w, text, ('i32',))}, 0")


EMITTERS: Intrinsics = {
    "T.create_barriers": create, "T.ptx_init_barrier_thread_count": initialize, "T.ptx_arrive_barrier": arrive,
    "T.ptx_arrive_barrier_expect_tx": arrive_expecting, "T.ptx_wait_barrier": wait, "T.ptx_cp_async_barrier": arrive_when_copied,
    "T.ptx_cp_async_bulk": bulk, **dict.fromkeys(TENSOR_COPIES, bulk_tensor),
    "T.ptx_cp_async_bulk_commit_group": fixed("sm_90", "cp.async.bulk.commit_group;"),
    "T.ptx_cp_async_bulk_wait_group": fixed("sm_90", "cp.async.bulk.wait_group {};"),
    "T.ptx_fence_proxy_async": fixed("sm_90", "fence.proxy.async.shared::cta;"),
    "T.ptx_elect_sync": elect,
}  # fmt: skip
