"""``unity.tir.analysis``: what can be asked of tensor programs, by TVM's names; found in ``unity.ir.analysis``."""

from ..ir.analysis import (
    allocated_bytes as calculate_allocated_bytes,
    block_regions as get_block_access_region,
    buffer_access_lca as detect_buffer_access_lca,
    estimate_flops as estimate_tir_flops,
    is_pure_function,
    undefined_vars,
)
from ..ir.verifier.verifier import is_well_formed as verify_well_formed
from ..support.arguments import make_public

get_sblock_access_region = get_block_access_region

__all__ = [
    "calculate_allocated_bytes", "detect_buffer_access_lca", "estimate_tir_flops", "get_block_access_region",
    "get_sblock_access_region", "is_pure_function", "undefined_vars", "verify_well_formed",
]  # fmt: skip

make_public(globals(), __all__)
