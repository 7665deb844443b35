"""Kernels run on the processor with all threads of a block at once: races, barriers, bounds, uninitialised reads, traffic.

numpy alone; the scalar interpreter (``interpret``) runs the code around kernels. What a program does wrong is collected as
findings, what cannot be run at all is raised as an InterpreterError.
"""

from .findings import Finding, Log, Site
from .lanes import Geometry, ThreadId
from .program import DEFAULT_MAX_LANES, ThreadedInterpreter, has_kernels

__all__ = ["DEFAULT_MAX_LANES", "Finding", "Geometry", "Log", "Site", "ThreadId", "ThreadedInterpreter", "has_kernels"]
