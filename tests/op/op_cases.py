"""Inputs for every operator, of its row and beside it: (name, inputs, attributes)."""

import edge_cases
import row_samples
from op_values import Shape

CASES = [*row_samples.CASES, *edge_cases.CASES]
GRADIENT_CASES = [*row_samples.GRADIENT_CASES, *edge_cases.GRADIENT_CASES]

__all__ = ["CASES", "GRADIENT_CASES", "Shape"]
