"""Names that are looked up, registered: passes by TVM's names and ours, operators on whole te tensors, names of script in Python.

Importing this file imports the tables that fill the registries. Every pass is a name of ``unity.transform`` or stands in a
pipeline; no other place is searched.
"""

from .. import topi as _topi, transform  # noqa: F401
from ..transform.default_schedule.nests import pipeline as _nests  # noqa: F401
from ..transform.infra.passes import PASSES
from ..transform.tir import gpu_pipeline as _gpu, pipeline as _tir  # noqa: F401
from . import script_names as _script_names, transform as _tvm_names  # noqa: F401

for _name in dir(transform):
    getattr(transform, _name)

__all__ = ["PASSES"]
