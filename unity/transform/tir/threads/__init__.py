"""Lowering passes for GPU programs: kernels, the memory that their threads share, barriers."""
