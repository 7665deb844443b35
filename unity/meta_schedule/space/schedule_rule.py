"""``ScheduleRule``, and the rules by which Ansor and TVM make sketches: stages inlined, reductions tiled on several levels or made
in parts, a stage computed somewhere in the loops of its user, and what is shared, a vector, or written out.

They compose: each takes the schedules of the one before, block by block. Not here: the rules of the default build, whose decisions
are the first sketch of every space.

Source: Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI 2020; Shao et al., "Tensor
program optimization with probabilistic programs", NeurIPS 2022.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...ffi.native.pool import num_threads
from ...ffi.registry import get_global_func
from ...ir.build import int_value
from ...ir.scalar import BufferLoad
from ...ir.stmt import Block, BufferStore
from ...ir.walk import collect, used_vars
from ...support.errors import ScheduleError
from ...support.lazy import absent_names
from ...transform.schedule import BlockRV, LoopRV, Schedule
from ..core.part import Part, copied, is_for_processor, take_task
from .postproc import PARALLEL, UNROLL, VECTORIZE, loop_kinds

STRUCTURE = "meta_schedule.tiling_structure"
"""Annotation of a block that was tiled: no other rule moves it."""


class ScheduleRule(metaclass=Part):
    """Makes of a schedule, at one of its blocks, one or several: itself, where it has nothing to do."""

    what = "schedule rule"
    initialize_with_tune_context, clone = take_task, copied

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules."""

    @classmethod
    def create(cls, kind: Any, *args: Any, **options: Any) -> Any:
        """The rules of a kind of targets, in order: TVM's of a processor, none of a device; what is not text as it is."""
        found = is_for_processor(kind)
        return Part.create(cls, kind, *args, **options) if found is None else _of_processor() if found else []


class ApplyCustomRule(ScheduleRule, names=("apply-custom-rule",)):
    """Asks the function that is registered under the annotation ``schedule_rule`` of a block: ``f(sch, block)``."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules that the function makes. Raises ScheduleError E428 where nobody registered it."""
        name = sch.get(block).annotations.get("schedule_rule")
        if not name or name == "None":
            return [sch]
        function = get_global_func(str(name), allow_missing=True)
        if function is None:
            raise ScheduleError(
                "E428", f"no schedule rule {name!r} is registered", help=f'unity.register_global_func("{name}", f)'
            )
        sch.unannotate(block, "schedule_rule")
        return list(function(sch, block))


class AutoInline(ScheduleRule, names=("auto-inline",)):
    """Computes what is cell by cell where it is read, or the block that reads it where it is made. ``into_producer``,
    ``into_consumer``: which of the two; ``require_injective``: only blocks that read each element once."""

    def __init__(
        self, into_producer: bool = False, into_consumer: bool = True, inline_const_tensor: bool = True,
        disallow_if_then_else: bool = False, require_injective: bool = False, require_ordered: bool = False,
        disallow_op: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.into_producer, self.into_consumer = into_producer, into_consumer
        self.inline_const_tensor, self.disallow_if_then_else = inline_const_tensor, disallow_if_then_else
        self.require_injective, self.require_ordered = require_injective, require_ordered
        self.disallow_op = tuple(disallow_op or ())

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule, with the block inlined where that is right."""
        if self._wanted(sch.get(block)):
            for step in self._steps(sch, block):
                try:
                    getattr(sch, step)(block)
                except ScheduleError:
                    continue
                break
        return [sch]

    def _steps(self, sch: Schedule, block: BlockRV) -> list[str]:
        into = ["compute_inline"] if self.into_consumer and sch.get_consumers(block) else []
        return into + (["reverse_compute_inline"] if self.into_producer and sch.get_producers(block) else [])

    def _wanted(self, block: Block) -> bool:
        loads = collect(block.body, BufferLoad)
        if block.init is not None or type(block.body) is not BufferStore:
            return False
        if not loads and not self.inline_const_tensor:
            return False
        said = block.body.value.script()
        if self.disallow_if_then_else and ("T.if_then_else" in said or "T.Select" in said):
            return False
        if any([name.removeprefix("tir.") in said for name in self.disallow_op]):
            return False
        used = [[used_vars(index) for index in load.indices] for load in loads]
        ordered = [axis.var for axis in block.iter_vars]
        if self.require_injective and not all([{v for vs in one for v in vs} == set(ordered) for one in used]):
            return False
        indices = [[ordered.index(v) for vs in one for v in vs if v in ordered] for one in used]
        return not self.require_ordered or all([one == sorted(one) for one in indices])


class ReuseType(NamedTuple):
    """Where a copy of what is read or written stands: "no", "may" or "must" be there, at one of the ``levels`` of tiles, in the
    memory ``scope``."""

    req: str
    levels: Sequence[int]
    scope: str


class MultiLevelTiling(ScheduleRule, names=("multi-level-tiling",)):
    """Tiles a block in which elements are read again: ``structure`` says the loops from the outside in, "SSRSRS".

    ``max_innermost_factor`` bounds the innermost tiles. ``reuse_read``, ``reuse_write``: copies of operands and result.
    ``tile_binds``: axes of threads of the outer levels. ``filter_fn(sch, block)`` says which blocks besides are tiled.
    """

    def __init__(
        self, structure: str, tile_binds: Sequence[str] | None = None, max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None, reuse_read: ReuseType | None = None, reuse_write: ReuseType | None = None,
        filter_fn: Callable[[Schedule, BlockRV], bool] | None = None,
    ) -> None:  # fmt: skip
        if not structure or set(structure) - set("SR"):
            raise ScheduleError(
                "E428", f"the structure of tiles is a string of S and R, got {structure!r}", help="SSRSRS"
            )
        self.structure, self.tile_binds = structure, list(tile_binds or ())
        self.max_innermost_factor = -1 if max_innermost_factor is None else max_innermost_factor
        self.vector_load_lens = list(vector_load_lens or ())
        self.reuse_read, self.reuse_write, self.filter_fn = reuse_read, reuse_write, filter_fn

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules: one for each place of a copy."""
        wanted = self.filter_fn is not None and self.filter_fn(sch, block)
        if not wanted and not is_reused(sch, block):
            return [sch]
        sch.annotate(block, STRUCTURE, self.structure)
        levels = self._tiled(sch, block)
        schedules = self._written(sch, block, levels)
        return [done for one in schedules for done in self._read(one, block, levels)]

    def _tiled(self, sch: Schedule, block: BlockRV) -> list[list[LoopRV]]:
        """Tile the loops; those of each level."""
        levels: list[list[LoopRV]] = [[] for _ in self.structure]
        for loop, kind in zip(sch.get_loops(block), loop_kinds(sch, block)):
            indices = [k for k, letter in enumerate(self.structure) if letter == kind]
            if not indices:
                continue
            parts = [loop]
            if len(indices) > 1:
                factors = sch.sample_perfect_tile(loop, len(indices), self.max_innermost_factor)
                parts = sch.split(loop, factors)
            for index, part in zip(indices, parts):
                levels[index].append(part)
        sch.reorder(*[loop for level in levels for loop in level])
        for index, axis in enumerate(self.tile_binds[: len(levels)]):
            levels[index] = [sch.fuse(*levels[index])]
            sch.bind(levels[index][0], axis)
        return levels

    def _written(self, sch: Schedule, block: BlockRV, levels: list[list[LoopRV]]) -> list[Schedule]:
        """The schedules with the result at the places of ``reuse_write``: what reads it alone is computed there, or a copy."""
        reuse = self.reuse_write
        if reuse is None or reuse.req == "no":
            return [sch]
        found = [sch.copy()] if reuse.req == "may" else []
        consumers = sch.get_consumers(block)
        if len(consumers) == 1 and reuse.req == "may" and not sch.get(consumers[0]).init:
            written = consumers[0]
        else:
            written = sch.cache_write(block, 0, reuse.scope)
        for level in reuse.levels:
            copied = sch.copy()
            try:
                copied.reverse_compute_at(written, levels[level - 1][-1], preserve_unit_loops=True)
            except (ScheduleError, IndexError):
                continue
            found.append(copied)
        return found or [sch]

    def _read(self, sch: Schedule, block: BlockRV, levels: list[list[LoopRV]]) -> list[Schedule]:
        """The schedules with copies of what is read, at the places of ``reuse_read``."""
        reuse = self.reuse_read
        if reuse is None or reuse.req == "no":
            return [sch]
        found = []
        for level in reuse.levels:
            candidate = sch.copy()
            stores = collect(candidate.get(block).body, BufferStore)
            written = {store.buffer for store in stores}
            read = list(dict.fromkeys([r.buffer for r in candidate.get(block).reads if r.buffer not in written]))
            for index in range(len(read)):
                copied = candidate.cache_read(block, index, reuse.scope)
                candidate.compute_at(copied, levels[level - 1][-1], preserve_unit_loops=True)
                if self.vector_load_lens:
                    own = candidate.get_loops(copied)[-len(read[index].shape) :]
                    probs = [1 / len(self.vector_load_lens)] * len(self.vector_load_lens)
                    candidate.fuse(*own)
                    candidate.annotate(
                        copied,
                        "meta_schedule.cooperative_fetch",
                        candidate.sample_categorical(self.vector_load_lens, probs),
                    )
            found.append(candidate)
        return found


class AddRFactor(ScheduleRule, names=("add-rfactor",)):
    """A reduction with few results in parts that threads share: a schedule for each of the two loops that may keep the parts apart.
    ``max_jobs_per_core`` times the threads: results from which there are enough."""

    def __init__(self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = 64) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = -1 if max_innermost_factor is None else max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule as it is, and those in parts."""
        loops, kinds = sch.get_loops(block), loop_kinds(sch, block)
        extents = [int_value(sch.get(loop).extent) or 0 for loop in loops]
        results = steps = 1
        for kind, extent in zip(kinds, extents):
            results, steps = (results * extent, steps) if kind == "S" else (results, steps * extent)
        enough = self.max_jobs_per_core * num_threads()
        if (
            sch.get(block).init is None
            or STRUCTURE in sch.get(block).annotations
            or results >= steps
            or results > enough
        ):
            return [sch]
        found = [sch.copy()]
        for index in (0, 1):
            copied = sch.copy()
            try:
                reducing = [loop for loop, kind in zip(copied.get_loops(block), kinds) if kind == "R"]
                whole = copied.fuse(*reducing) if len(reducing) > 1 else reducing[0]
                parts = copied.split(whole, copied.sample_perfect_tile(whole, 2, self.max_innermost_factor))
                copied.rfactor(parts[index], 0)
            except ScheduleError:
                continue
            found.append(copied)
        return found


class RandomComputeLocation(ScheduleRule, names=("random-compute-location",)):
    """Computes a stage somewhere in the loops of what reads it (``sample_compute_location``): at any of them, inlined, or where it
    stands."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the place sampled."""
        if STRUCTURE in sch.get(block).annotations or not sch.get_loops(block) or not sch.get_consumers(block):
            return [sch]
        if len(sch.get_child_blocks(sch.get_loops(block)[0])) > 1:
            return [sch]
        sch.compute_at(block, sch.sample_compute_location(block), preserve_unit_loops=True)
        return [sch]


class ParallelizeVectorizeUnroll(ScheduleRule, names=("parallelize-vectorize-unroll",)):
    """Says at the root block how much of every nest is shared, a vector, and written out; `RewriteParallelVectorizeUnroll` does it.

    ``max_jobs_per_core``: parallel turns by threads (-1: none). ``max_vectorize_extent``: lanes (-1: none). ``unroll_max_steps``:
    candidates for the number of statements that are written out; ``unroll_explicit``: by us, else by LLVM.
    """

    def __init__(
        self, max_jobs_per_core: int = 16, max_vectorize_extent: int = 16, unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:  # fmt: skip
        self.max_jobs_per_core, self.max_vectorize_extent = max_jobs_per_core, max_vectorize_extent
        self.unroll_max_steps, self.unroll_explicit = list(unroll_max_steps or ()), unroll_explicit

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the annotations, once for all its nests."""
        root = sch.get_block("root")
        if any([key in sch.get(root).annotations for key in (PARALLEL, VECTORIZE, *UNROLL)]):
            return [sch]
        if self.max_jobs_per_core != -1 and num_threads() > 1:
            sch.annotate(root, PARALLEL, self.max_jobs_per_core * num_threads())
        if self.max_vectorize_extent != -1:
            sch.annotate(root, VECTORIZE, self.max_vectorize_extent)
        if self.unroll_max_steps:
            key = next(key for key, explicit in UNROLL.items() if explicit == self.unroll_explicit)
            probs = [1 / len(self.unroll_max_steps)] * len(self.unroll_max_steps)
            sch.annotate(root, key, sch.sample_categorical(self.unroll_max_steps, probs))
        return [sch]


def is_reused(sch: Schedule, block: BlockRV) -> bool:
    """True for a sum whose result, or an operand, does not move along every loop: elements are read again."""
    found = sch.get(block)
    if found.init is None or STRUCTURE in found.annotations:
        return False
    axes = {axis.var for axis in found.iter_vars}
    stored = {store.buffer for store in collect(found.body, BufferStore)}
    loads = [load for load in collect(found.body, BufferLoad) if load.buffer not in stored]
    left = [
        {axis.var for axis in found.iter_vars if axis.kind == "S"} - {v for i in load.indices for v in used_vars(i)}
        for load in loads
    ]
    kinds = loop_kinds(sch, block)
    return len(kinds) == len(axes) and "-" not in kinds and any(left)


def _of_processor() -> list[ScheduleRule]:
    """TVM's rules of a processor, in its order."""
    return [
        ApplyCustomRule(),
        AutoInline(disallow_if_then_else=True, require_injective=True, require_ordered=True, disallow_op=["tir.exp"]),
        AddRFactor(16, 64),
        MultiLevelTiling("SSRSRS", max_innermost_factor=64, reuse_write=ReuseType("may", [1, 2], "global")),
        ParallelizeVectorizeUnroll(16, 64, [0, 16, 64, 512]),
        RandomComputeLocation(),
    ]


create = ScheduleRule.create
PyScheduleRule = ScheduleRule

__all__ = [
    "AddRFactor", "ApplyCustomRule", "AutoInline", "MultiLevelTiling", "ParallelizeVectorizeUnroll", "PyScheduleRule",
    "RandomComputeLocation", "ReuseType", "ScheduleRule", "create", "is_reused",
]  # fmt: skip

__getattr__ = absent_names(__name__, {
    "MultiLevelTilingTensorCore": "rules of the default build make the sketches of a device (docs/search_space.md)",
    "CrossThreadReduction": "rules of the default build make the sketches of a device (docs/search_space.md)",
    "AutoBind": "rules of the default build make the sketches of a device (docs/search_space.md)",
    "MultiLevelTilingWithIntrin": "TensorInstructions([name]), of ms.space.tensor_instructions",
    "MultiLevelTilingWideVector": "MultiLevelTiling, and ParallelizeVectorizeUnroll for the lanes",
    "InlineConstantScalars": "AutoInline",
})  # fmt: skip
