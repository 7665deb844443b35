"""The targets and tensor intrinsics of this package: importing this file registers them. A further one has its line here."""

from .. import tensor_intrin as _tensor_intrin
from ..cpu import backend as _cpu
from ..cuda import backend as _cuda
