"""``unity.script.tirx``: the later name of ``unity.script.tir`` in TVM, as a module to import from."""

import sys

from . import tir

sys.modules[__name__] = tir
