"""``unity.script.s_tir``: the latest name of ``unity.script.tir`` in TVM, as a module to import from."""

import sys

from . import tir

sys.modules[__name__] = tir
