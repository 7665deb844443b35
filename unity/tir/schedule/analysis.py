"""``unity.tir.schedule.analysis``: which iterators of a block are those of a tensor intrinsic, by TVM's names."""

from ...transform.auto_tensorize.mapping import (
    AutoTensorizeMappingInfo,
    TensorizeInfo,
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    is_tensorizable,
)

__all__ = [
    "AutoTensorizeMappingInfo", "TensorizeInfo", "get_auto_tensorize_mapping_info", "get_tensorize_loop_mapping",
    "is_tensorizable",
]  # fmt: skip
