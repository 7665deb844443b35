"""``unity.ir.instrument``: TVM's ``tvm.ir.instrument``, a name of ``unity.instrument`` as a module to import from."""

import sys

from .. import instrument

sys.modules[__name__] = instrument
