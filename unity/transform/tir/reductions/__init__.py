"""Reductions: in chunks, in pieces for threads, in register tiles, in lanes of vectors."""
