"""The lowering of scheduled tensor programs for a device with threads, in order.

Blocks become plain statements, buffers of kernels shrink to what one owner touches, barriers are inserted, and at last
kernels become functions of their own, which the program calls.
"""

from __future__ import annotations

from ..infra.passes import Pipeline
from .blocks.lower_match_buffer import lower_match_buffer
from .blocks.lower_opaque_block import convert_blocks_to_opaque, lower_init_block, lower_opaque_block
from .blocks.mark_pipeline_stages import mark_pipeline_stages
from .blocks.plan_buffer_allocation import plan_buffer_allocation
from .buffers.flatten_buffer import flatten_buffer
from .expressions.legalize_narrow_float import legalize_narrow_float
from .expressions.remove_no_op import remove_no_op
from .expressions.rewrite_unsafe_select import rewrite_unsafe_select
from .expressions.simplify import bind_shared, simplify
from .loops.canonicalize_loop import canonicalize_loop
from .loops.hoist_if_then_else import hoist_if_then_else
from .loops.read_vectors import read_vectors
from .loops.unroll_loop import unroll_loop
from .loops.version_predicates import version_predicates
from .threads.compact_thread_buffers import compact_thread_buffers
from .threads.inject_ptx_async_copy import inject_ptx_async_copy
from .threads.inject_software_pipeline import inject_software_pipeline
from .threads.inject_virtual_thread import inject_virtual_thread
from .threads.lower_cross_thread_reduction import lower_cross_thread_reduction
from .threads.lower_thread_allreduce import lower_thread_allreduce
from .threads.lower_warp_memory import lower_warp_memory
from .threads.merge_shared_memory_allocations import merge_shared_memory_allocations
from .threads.split_host_device import split_host_device
from .threads.thread_sync import thread_sync
from .threads.unify_thread_binding import unify_thread_binding
from .threads.verify_gpu_code import verify_gpu_code
from .threads.verify_memory import verify_memory
from .vectors.split_wide_vectors import split_wide_vectors
from .vectors.vectorize_loop import independent_lanes, vectorize_loop

GPU_PIPELINE = Pipeline((
    verify_memory,
    bind_shared,
    canonicalize_loop,
    lower_cross_thread_reduction,
    lower_init_block,
    plan_buffer_allocation,
    lower_match_buffer,
    convert_blocks_to_opaque,
    mark_pipeline_stages,
    lower_opaque_block,
    simplify,
    independent_lanes,
    unify_thread_binding,
    compact_thread_buffers,
    inject_software_pipeline,
    inject_virtual_thread,
    lower_thread_allreduce,
    thread_sync,
    thread_sync.with_options(storage_scope="shared.dyn"),
    thread_sync.with_options(storage_scope="warp"),
    flatten_buffer,
    simplify,
    legalize_narrow_float,
    lower_warp_memory,
    split_wide_vectors,
    hoist_if_then_else.with_options(marked=True),
    read_vectors,
    version_predicates.with_options(vectors=True),
    vectorize_loop,
    inject_ptx_async_copy,
    rewrite_unsafe_select,
    merge_shared_memory_allocations,
    remove_no_op,
    verify_gpu_code,
    split_host_device,
    unroll_loop.with_options(explicit=False),
))  # fmt: skip
"""Scheduled programs to kernels and the programs that launch them: ``check_gpu(GPU_PIPELINE(sch.mod), ...)``."""
