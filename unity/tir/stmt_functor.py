"""``unity.tir.stmt_functor``: TVM's walks over tensor programs, defined in ``unity.ir.stmt_functor``."""

from ..ir.stmt_functor import *  # noqa: F403
from ..ir.stmt_functor import __all__ as __all__
from ..support.arguments import make_public

make_public(globals(), __all__)
