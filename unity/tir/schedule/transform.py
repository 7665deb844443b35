"""``unity.tir.schedule.transform``: schedules made of several primitives, by TVM's names."""

from ...transform.auto_tensorize.schedule import auto_tensorize, tile_with_tensor_intrin

__all__ = ["auto_tensorize", "tile_with_tensor_intrin"]
