"""Preconditions of primitives: conditions on blocks and loops, proved, refuted or tried."""
