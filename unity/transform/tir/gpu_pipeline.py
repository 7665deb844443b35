"""The lowering of scheduled tensor programs for a device with threads, as far as it is done before code generation.

Blocks become plain statements, buffers of kernels shrink to what one owner touches, and barriers are inserted.
"""

from __future__ import annotations

from ..infra.passes import Pipeline
from .blocks.convert_blocks_to_opaque import convert_blocks_to_opaque
from .blocks.lower_init_block import lower_init_block
from .blocks.lower_match_buffer import lower_match_buffer
from .blocks.lower_opaque_block import lower_opaque_block
from .blocks.plan_buffer_allocation import plan_buffer_allocation
from .expressions.simplify import simplify
from .loops.canonicalize_loop import canonicalize_loop
from .threads.compact_thread_buffers import compact_thread_buffers
from .threads.lower_cross_thread_reduction import lower_cross_thread_reduction
from .threads.thread_sync import thread_sync

GPU_PIPELINE = Pipeline((
    canonicalize_loop,
    lower_cross_thread_reduction,
    lower_init_block,
    plan_buffer_allocation,
    lower_match_buffer,
    convert_blocks_to_opaque,
    lower_opaque_block,
    simplify,
    compact_thread_buffers,
    simplify,
    thread_sync,
    thread_sync.with_options(storage_scope="shared.dyn"),
    thread_sync.with_options(storage_scope="warp"),
))  # fmt: skip
"""Scheduled programs to kernels with their memory and barriers: ``check_gpu(GPU_PIPELINE(sch.mod), ...)``."""
