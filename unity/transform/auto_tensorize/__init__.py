"""Tensor intrinsics found for a block: which of its iterators are those of a description, and the schedule that follows from it."""
