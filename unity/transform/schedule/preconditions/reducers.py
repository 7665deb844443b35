"""Blocks that may take the steps of their reduction in any order.

Sums, products, minima, maxima and the like of values that do not read the result (sums of floats round otherwise). Anything
else declared a reduction - a tuple, a recurrence - may depend on the order, also where it is only ties that tell.
"""

from __future__ import annotations

from ....ir.analysis.reductions import REDUCERS, is_cell
from ....ir.expr import Call, Var
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, Bind, Block, BufferStore
from ....ir.walk import collect
from ..core.sref import Sref
from ..core.state import ScheduleState

_INSTRUCTIONS = ("T.call_llvm_intrin", "T.call_llvm_pure_intrin")


def free_steps(block: Sref) -> bool:
    """True if no order of a block's steps matters: each store outside of the block's own buffers combines its cell with a value
    that reads nothing the block writes.

    Calls of instructions that take the cell (``C = dot(C, a, b)``) are believed to add to it.
    """
    body = block.block.body
    own = {b.data for inner in (block.block, *collect(body, Block)) for b in inner.alloc_buffers}
    own |= {s.buffer.data for s in collect(body, AllocBuffer)}
    stores = [store for store in collect(body, BufferStore) if store.buffer.data not in own]
    written = {store.buffer.data for store in stores}
    if any([load.buffer.data in written for bind in collect(body, Bind) for load in collect(bind, BufferLoad)]):
        return False
    return all([_free(store, written) for store in stores])


def _free(store: BufferStore, written: set[Var]) -> bool:
    value = store.value
    if type(value) is Call and value.op_name in _INSTRUCTIONS:
        return True
    if not isinstance(value, REDUCERS):
        return False
    loads = [x for e in (value, *store.indices) for x in collect(e, BufferLoad) if x.buffer.data in written]
    return len(loads) == 1 and any([is_cell(side, store) for side in (value.a, value.b)])


def assume_free_steps(state: ScheduleState, block: Sref) -> None:
    """Take it as assumed, to be tested, that the order of a block's steps does not matter, unless it is known."""
    if not free_steps(block):
        state.assumptions.append(f"the order in which block {block.name} takes its steps does not matter")
