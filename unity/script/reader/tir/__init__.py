"""Tensor programs: scalar expressions and buffers, the T forms, statements, functions."""
