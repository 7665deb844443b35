"""``unity.ir.transform``: TVM's ``tvm.ir.transform``, a name of ``unity.transform`` as a module to import from."""

import sys

from .. import transform

sys.modules[__name__] = transform
