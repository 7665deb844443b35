"""Graph operators, one file per family. One row = name, parameters, type rule, lowering, gradient, numpy meaning, doc.

``unity.op.add(x, y)`` builds a typed call; ``unity.ir.op.OPS["R.add"]`` is the row. Importing this package fills the table.
"""

from .core import *  # noqa: F403
from .memory import *  # noqa: F403
from .binary import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .linalg import *  # noqa: F403
from .manipulate import *  # noqa: F403
