"""Integer arithmetic for loop indices and symbolic shapes: canonical forms, bounds, modular sets, proofs, iteration maps.

The overflow rule of the house: index arithmetic on signed integers of 32 and 64 bits is arithmetic of the mathematical
integers; a program whose index expressions overflow has no meaning. Unsigned and narrower integers wrap and are only
folded, never reordered. Dividing by zero is an error when evaluated; a simplification may remove such a division.
"""

from ..ir.relation import PROVERS
from .analyzer import Analyzer, compare_dims
from .interval import Interval
from .modular import ModularSet
from .prove import Proof, Verdict

PROVERS.append(compare_dims)

__all__ = ["Analyzer", "Interval", "ModularSet", "Proof", "Verdict"]
