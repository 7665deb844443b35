"""``Postproc``: what finishes a candidate: steps after its decisions (``enter_postproc`` in the trace), or that it is none.

Rewrite of the two of the target's: ``sch.annotate(root, "meta_schedule.parallel", 32)`` -> the outermost loops of every nest shared
between threads, likewise vectors and loops that are written out; reductions whose initialisation stands in their loops -> before
them. Decisions of the default build need none: rules and passes take them.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ...ir.build import int_value
from ...ir.expr import IntImm
from ...ir.stmt import Block, BufferStore, For
from ...ir.walk import collect, used_vars
from ...support.errors import ScheduleError
from ...support.lazy import absent_names
from ...transform.schedule import BlockRV, LoopRV, Schedule
from ..core.part import Part, copied, is_for_processor, take_task
from ..core.tune_context import MAIN, TuneContext

PARALLEL, VECTORIZE = "meta_schedule.parallel", "meta_schedule.vectorize"
UNROLL = {"meta_schedule.unroll_explicit": 1, "meta_schedule.unroll_implicit": 0}
"""Annotations of the root block: the most parallel turns, the most lanes, statements that are written out (by LLVM: implicit)."""


class Postproc(metaclass=Part):
    """Finishes a schedule in place; False where it is not a candidate."""

    what = "postprocessing step"
    initialize_with_tune_context, clone = take_task, copied

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Finish a schedule."""

    @classmethod
    def create(cls, kind: Any, *args: Any, **options: Any) -> Any:
        """The steps of a kind of targets, in order; what is not text as it is."""
        found = is_for_processor(kind)
        return Part.create(cls, kind, *args, **options) if found is None else _of_target(found)


class DisallowDynamicLoop(Postproc, names=("disallow-dynamic-loop",)):
    """Refuses programs with a loop whose extent is not a number."""

    def apply(self, sch: Schedule) -> bool:
        """True where every extent is one."""
        return all([type(loop.extent) is IntImm for loop in collect(sch.mod.prim_funcs()[MAIN].body, For)])


class RewriteReductionBlock(Postproc, names=("rewrite-reduction-block",)):
    """Puts the initialisation of each reduction before the outermost of its loops that reduces."""

    def apply(self, sch: Schedule) -> bool:
        """Take the reductions apart."""
        for block in _leaves(sch):
            if sch.get(block).init is None:
                continue
            loops = sch.get_loops(block)
            reducing = [loop for loop, kind in zip(loops, loop_kinds(sch, block)) if kind != "S"]
            if reducing:
                with contextlib.suppress(ScheduleError):  # what lower passes put before the loops themselves
                    sch.decompose_reduction(block, reducing[0])
        return True


class RewriteParallelVectorizeUnroll(Postproc, names=("rewrite-parallel-vectorize-unroll",)):
    """Follows the annotations of the root block in every nest. Where a step does not apply the nest stays as it is."""

    def apply(self, sch: Schedule) -> bool:
        """Share, vectorize and write out loops."""
        root = sch.get_block("root")
        notes: Mapping[str, Any] = sch.get(root).annotations
        wanted = {key: int(notes[key]) for key in (PARALLEL, VECTORIZE, *UNROLL) if key in notes}
        for key in wanted:
            sch.unannotate(root, key)
        for block in _leaves(sch) if wanted else ():
            self._rewrite(sch, block, wanted)
        return True

    def _rewrite(self, sch: Schedule, block: BlockRV, wanted: Mapping[str, int]) -> None:
        loops = sch.get_loops(block)
        if not loops or _is_done(sch, loops):
            return
        vectors = _innermost(sch, block, wanted.get(VECTORIZE, 0))
        shared = _outermost(sch, block, wanted.get(PARALLEL, 0), len(loops) - vectors)
        reduces = "R" in loop_kinds(sch, block)
        _tried(sch, loops[-vectors:] if vectors else [], "vectorize")
        first = _tried(sch, loops[:shared], "parallel") or loops[0]
        for key, explicit in UNROLL.items():
            if wanted.get(key) and reduces:
                sch.annotate(first, "pragma_auto_unroll_max_step", wanted[key])
                sch.annotate(first, "pragma_unroll_explicit", explicit)


def _tried(sch: Schedule, loops: list[LoopRV], kind: str) -> LoopRV | None:
    """Some loops as one of another kind; None where that does not apply."""
    if not loops:
        return None
    whole = None
    for one in (sch.copy(), sch):  # tried first, as the loops stay as they are where their kind is refused
        try:
            whole = one.fuse(*loops) if len(loops) > 1 else loops[0]
            getattr(one, kind)(whole)
        except ScheduleError:
            return None
    return whole


def _leaves(sch: Schedule) -> list[BlockRV]:
    """Blocks without blocks in them, in program order."""
    blocks = [block for block in collect(sch.mod.prim_funcs()[MAIN].body, Block) if block.iter_vars]
    return [sch.get_block(block.name) for block in blocks if not collect(block.body, Block)]


def loop_kinds(sch: Schedule, block: BlockRV) -> list[str]:
    """Of each loop around a block: "S" where iterators that keep elements apart use it alone, "R" where a reduction does, "-" where
    nothing uses it."""
    sref = sch.get_sref(block)
    used = [(axis.kind, used_vars(value)) for axis, value in sref.realize.bindings]
    found = []
    for loop in sch.get_loops(block):
        kinds = {kind for kind, names in used if sch.get(loop).loop_var in names}
        found.append("-" if not kinds else "S" if kinds == {"S"} else "R")
    return found


def _is_plain(sch: Schedule, loop: LoopRV) -> bool:
    found = sch.get(loop)
    return found.kind == "serial" and not found.annotations and type(found.extent) is IntImm


def _is_done(sch: Schedule, loops: list[LoopRV]) -> bool:
    return any([sch.get(loop).kind in ("parallel", "vectorized") for loop in loops])


def _has_one_part(sch: Schedule, loop: LoopRV) -> bool:
    """True if the body of a loop is one statement."""
    return type(sch.get(loop).body).__name__ != "SeqStmt"


def _outermost(sch: Schedule, block: BlockRV, most: int, count: int) -> int:
    """The number of outer loops, of ``count``, that are shared so that there are ``most`` turns."""
    number, turns = 0, 1
    for loop, kind in list(zip(sch.get_loops(block), loop_kinds(sch, block)))[:count]:
        if turns >= most or kind != "S" or not _is_plain(sch, loop):
            break
        number, turns = number + 1, turns * (int_value(sch.get(loop).extent) or 1)
        if not _has_one_part(sch, loop):
            break
    return number


def _innermost(sch: Schedule, block: BlockRV, most: int) -> int:
    """The number of inner loops that become a vector of at most ``most`` elements; 0 where the innermost steps over elements."""
    number, lanes = 0, 1
    for loop, kind in reversed(list(zip(sch.get_loops(block), loop_kinds(sch, block)))):
        lanes *= (int_value(sch.get(loop).extent) or 1) if _is_plain(sch, loop) else most + 1
        if lanes > most or kind != "S" or not _has_one_part(sch, loop) or not (number or _is_along(sch, block, loop)):
            break
        number += 1
    return min(number, 1)  # what was tiled apart is not contiguous as one


def _is_along(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """True if a loop goes along the last axis of what a block writes."""
    sref, var = sch.get_sref(block), sch.get(loop).loop_var
    values = {axis.var: value for axis, value in sref.realize.bindings}
    stores = collect(sref.block.body, BufferStore)
    last = [used_vars(store.indices[-1]) for store in stores if store.indices]
    return bool(last) and all([any([var in used_vars(values[v]) for v in names if v in values]) for names in last])


def postprocs_of(context: TuneContext) -> list[Postproc]:
    """The steps that finish candidates of a task with steps of their own: those of its space, else of its target."""
    given = getattr(context.space_generator, "postprocs", None)
    return _of_target(bool(is_for_processor(context.target.kind))) if given is None else list(given)


def _of_target(processor: bool) -> list[Postproc]:
    return [RewriteParallelVectorizeUnroll(), RewriteReductionBlock()] if processor else []


create = Postproc.create
PyPostproc = Postproc

__all__ = [
    "PARALLEL", "UNROLL", "VECTORIZE", "DisallowDynamicLoop", "Postproc", "PyPostproc",
    "RewriteParallelVectorizeUnroll", "RewriteReductionBlock", "create", "loop_kinds", "postprocs_of",
]  # fmt: skip

__getattr__ = absent_names(__name__, {
    "RewriteCooperativeFetch": "default schedules of a device bind, vectorize and check by themselves (docs/gpu.md)",
    "RewriteUnboundBlock": "default schedules of a device bind, vectorize and check by themselves (docs/gpu.md)",
    "VerifyGPUCode": "default schedules of a device bind, vectorize and check by themselves (docs/gpu.md)",
    "RewriteTensorize": "the rule TensorInstructions puts instructions in",
    "RewriteLayout": "weights are packed by decisions of the default schedule",
    "DisallowAsyncStridedMemCopy": "derive from Postproc",
    "VerifyVTCMLimit": "derive from Postproc",
})  # fmt: skip
