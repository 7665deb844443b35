"""Passes that choose how the elements of tensors lie, and the algorithms that depend on it."""
