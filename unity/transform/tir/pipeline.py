"""The lowering of scheduled tensor programs for a processor, in order."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ..infra.passes import Pipeline
from .blocks.lower_match_buffer import lower_match_buffer
from .blocks.lower_opaque_block import convert_blocks_to_opaque, lower_init_block, lower_opaque_block
from .blocks.plan_buffer_allocation import plan_buffer_allocation
from .buffers.compact_buffer_allocation import compact_buffer_allocation
from .buffers.flatten_buffer import flatten_buffer
from .buffers.inject_prefetch import inject_prefetch
from .buffers.instrument_bounds import instrument_bounds
from .buffers.storage_rewrite import storage_rewrite
from .expressions.legalize_narrow_float import legalize_narrow_float
from .expressions.remove_no_op import remove_no_op
from .expressions.rewrite_unsafe_select import rewrite_unsafe_select
from .expressions.simplify import bind_shared, simplify
from .loops.canonicalize_loop import canonicalize_loop
from .loops.chunk_parallel import chunk_parallel, share_loops
from .loops.coalesce_loops import coalesce_loops, split_periods
from .loops.fuse_outer_loops import fuse_outer_loops
from .loops.hoist_if_then_else import hoist_if_then_else
from .loops.loop_partition import loop_partition
from .loops.unroll_loop import unroll_loop
from .loops.version_predicates import version_predicates
from .threads.inject_software_pipeline import inject_double_buffer
from .vectors.configure_tiles import configure_tiles
from .vectors.vectorize_loop import independent_lanes, vectorize_loop

CPU_PIPELINE = Pipeline((
    bind_shared,
    canonicalize_loop,
    lower_init_block,
    plan_buffer_allocation,
    lower_match_buffer,
    convert_blocks_to_opaque,
    lower_opaque_block,
    independent_lanes,
    fuse_outer_loops,
    compact_buffer_allocation,
    share_loops,
    inject_double_buffer,
    hoist_if_then_else,
    version_predicates,
    loop_partition,
    flatten_buffer,
    simplify,
    coalesce_loops,
    split_periods,
    storage_rewrite,
    legalize_narrow_float,
    vectorize_loop,
    inject_prefetch,
    rewrite_unsafe_select,
    chunk_parallel,
    unroll_loop,
    remove_no_op,
    configure_tiles,
))  # fmt: skip
"""Blocks and loops of any program to flat loops over one-dimensional buffers."""

CHECKED_CPU_PIPELINE = CPU_PIPELINE.insert_after("independent_lanes", instrument_bounds)
"""The same with every index checked at run time: ``unity.compile(mod, tir_pipeline=CHECKED_CPU_PIPELINE)``."""


def lower_prim_funcs(functions: Mapping[str, PrimFunc], pipeline: Pipeline = CPU_PIPELINE) -> dict[str, PrimFunc]:
    """Lower tensor programs by name."""
    lowered = pipeline(IRModule(dict(functions), {}, {}))
    return lowered.prim_funcs()


def lower_prim_func(func: PrimFunc, pipeline: Pipeline = CPU_PIPELINE) -> PrimFunc:
    """Lower one tensor program."""
    return lower_prim_funcs({"main": func}, pipeline)["main"]
