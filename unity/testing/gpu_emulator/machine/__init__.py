"""Lanes in lockstep: linking and compiling kernels, the scheduler, memory accesses, rounding, findings."""
