"""Default schedules: the loops of every tensor program of a module, chosen before it is lowered.

``apply`` has both passes of a build: one tries rules over the schedule primitives (``base`` says what a rule is), the other
schedules the ``nests`` that rules leave; ``common`` is what both use. The rules: ``matmul`` for what ``contraction`` recognises
(``transposed_output`` around it), ``windows`` for depthwise convolutions and pooling, ``separated`` for pooling over large windows,
``recurrent_matmul`` for products inside loops, ``few_columns`` for products of fewer columns than lanes, ``split_reductions`` for
long reductions to few cells. ``packing`` lays constants out at build. A new rule is one file, and a place in the rules of a target
(``target/cpu/backend.py``).
"""

from .apply import register_rule, schedule_default
from .base import Rule, Scheduled
from .packing import Packing

__all__ = ["Packing", "Rule", "Scheduled", "register_rule", "schedule_default"]
