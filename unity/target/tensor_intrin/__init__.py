"""The tensor intrinsics that are shipped, by name; importing this registers them (each is made when first asked for)."""

from ...transform.schedule.core.tensor_intrin import TensorIntrin
from .amx import AMX_FAMILIES, AMX_INTRINSICS
from .cpu import CPU_INTRINSICS
from .mma import MMA_INTRINSICS
from .wmma import WMMA_INTRINSICS, get_wmma_intrin_group

for _table in (CPU_INTRINSICS, AMX_INTRINSICS, MMA_INTRINSICS, WMMA_INTRINSICS):
    for _name, _make in _table.items():
        TensorIntrin.register_maker(_name, _make)
for _pattern, _family in AMX_FAMILIES.items():
    TensorIntrin.register_family(_pattern, _family)


def shipped() -> list[str]:
    """Names of the tensor intrinsics of this package."""
    return [*CPU_INTRINSICS, *AMX_INTRINSICS, *MMA_INTRINSICS, *WMMA_INTRINSICS]


__all__ = ["TensorIntrin", "get_wmma_intrin_group", "shipped"]
