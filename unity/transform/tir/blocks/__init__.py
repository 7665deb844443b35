"""Blocks become plain statements: their initialisation, the buffers they allocate and match, their predicates."""
