"""``unity.nd``: an earlier name of ``unity.runtime`` in TVM, as a module to import from."""

import sys

from . import runtime

sys.modules[__name__] = runtime
