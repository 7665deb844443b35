"""``unity.tir.transform``: passes of tensor programs under TVM's names, ``UnrollLoop()(mod)``; defined in ``unity.transform``."""

from __future__ import annotations

from typing import Any

from ..relax.transform import find_pass
from ..support.lazy import absent_names
from ..transform.infra.passes import prim_func_pass

TIR_NAMES = {
    "CanonicalizeLoop": "canonicalize_loop",
    "CompactBufferAllocation": "compact_buffer_allocation",
    "ConvertBlocksToOpaque": "convert_blocks_to_opaque",
    "FlattenBuffer": "flatten_buffer",
    "HoistIfThenElse": "hoist_if_then_else",
    "InjectDoubleBuffer": "inject_double_buffer",
    "InjectPTXAsyncCopy": "inject_ptx_async_copy",
    "InjectSoftwarePipeline": "inject_software_pipeline",
    "InjectVirtualThread": "inject_virtual_thread",
    "LoopPartition": "loop_partition",
    "LowerCrossThreadReduction": "lower_cross_thread_reduction",
    "LowerInitBlock": "lower_init_block",
    "LowerMatchBuffer": "lower_match_buffer",
    "LowerOpaqueBlock": "lower_opaque_block",
    "LowerThreadAllreduce": "lower_thread_allreduce",
    "LowerWarpMemory": "lower_warp_memory",
    "MergeSharedMemoryAllocations": "merge_shared_memory_allocations",
    "PlanAndUpdateBufferAllocationLocation": "plan_buffer_allocation",
    "RemoveNoOp": "remove_no_op",
    "RewriteUnsafeSelect": "rewrite_unsafe_select",
    "Simplify": "simplify",
    "SplitHostDevice": "split_host_device",
    "StmtSimplify": "simplify",
    "StorageRewrite": "storage_rewrite",
    "ThreadSync": "thread_sync storage_scope",
    "UnifyThreadBinding": "unify_thread_binding",
    "UnrollLoop": "unroll_loop",
    "VectorizeLoop": "vectorize_loop",
    "VerifyMemory": "verify_memory",
}
"""TVM's name to the pass."""


def _find(name: str) -> Any:
    globals()[name] = made = find_pass(name, TIR_NAMES)
    return made


__getattr__ = absent_names(__name__, {
    "BindTarget": "pass target= to unity.compile, or enter it: with Target(...)",
    "ForceNarrowIndexToInt32": "leave it out: the code generators choose the width of indices by what they prove",
    "NarrowDataType": "leave it out: the code generators choose the width of indices by what they prove",
}, _find)  # fmt: skip


def __dir__() -> list[str]:
    return sorted([*TIR_NAMES, *__all__])


__all__ = ["prim_func_pass"]
