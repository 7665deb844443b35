"""``unity.s_tir.meta_schedule``: a later name of ``unity.meta_schedule`` in TVM, as a module to import from."""

import sys

from .. import meta_schedule

sys.modules[__name__] = meta_schedule
