"""Gradients of operators: rules by operator name (`rules.py`), one file per family. Importing this package fills the table.

Not here: the pass that asks for them (`transform/relax/gradient/gradient.py`), operators that only gradients use (`op/grad.py`).
"""

from . import attention, elements, linalg, moves, nn, recurrent, sampling, special
from .rules import GRADIENTS, Rule

__all__ = ["GRADIENTS", "Rule", "attention", "elements", "linalg", "moves", "nn", "recurrent", "sampling", "special"]
