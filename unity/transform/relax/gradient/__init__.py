"""Reverse-mode differentiation of graph functions."""
