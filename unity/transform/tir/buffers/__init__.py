"""Passes on buffers: where they are allocated, how large, one-dimensional, shared, fetched ahead, checked."""
