"""Every pass, loaded: importing this file fills ``PASSES`` (name to pass) for names in texts and for pages.

A pass is a name of ``unity.transform`` or stands in a pipeline; no other place is searched.
"""

from .. import transform
from ..transform.default_schedule.nests import pipeline as _nests  # noqa: F401
from ..transform.infra.passes import PASSES
from ..transform.tir import gpu_pipeline as _gpu, pipeline as _tir  # noqa: F401

for _name in dir(transform):
    getattr(transform, _name)

__all__ = ["PASSES"]
