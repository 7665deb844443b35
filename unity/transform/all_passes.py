"""Every pass of the house, loaded: importing this file fills ``PASSES`` (name to pass) for names in texts and for pages."""

from ..support.lazy import import_all
from . import default_schedule, relax, tir
from .infra.passes import PASSES

import_all(relax, default_schedule, tir)

__all__ = ["PASSES"]
