"""Reductions: in register tiles, in lanes of vectors."""
