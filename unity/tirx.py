"""``unity.tirx``: a later name of ``unity.tir`` in TVM, as a module to import from."""

import sys

from . import tir

sys.modules[__name__] = tir
