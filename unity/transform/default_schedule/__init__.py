"""Default schedules: rules over the schedule primitives, tried on every tensor program of a module before it is lowered.

``apply`` the pass, ``base`` what a rule is, ``contraction`` what it recognises, ``matmul`` its schedule (``columns``: outputs
with channels first, ``borders``: copies before it), ``windows`` depthwise convolutions and pooling, ``repeated`` products
inside loops (recurrent layers), ``packing`` constants laid out at build. A new rule is one file, and a place in the rules of a
target (``target/cpu/backend.py``).
"""

from .apply import register_rule, schedule_default
from .base import Rule, Scheduled
from .packing import Packing

__all__ = ["Packing", "Rule", "Scheduled", "register_rule", "schedule_default"]
