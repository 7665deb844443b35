"""The reference interpreter: runs graph functions and tensor programs with numpy alone, exactly and with every check.

It is the judge of passes and code generators: slow, no compiler involved. What it raises is an InterpreterError.
"""

from .scalar.interpreter import Interpreter
from .threads.program import run

__all__ = ["Interpreter", "run"]
