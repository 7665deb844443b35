"""Passes and rewrites on blocks: inlining, sharing, and what becomes of them below."""
