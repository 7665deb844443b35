"""Names that are looked up, registered: passes by TVM's names and ours, operators on whole te tensors, names of script in Python.

Importing this file imports the tables that fill the registries.
"""

from .. import topi as _topi  # noqa: F401
from ..transform.validation import translation_validation as _check  # noqa: F401
from . import script_names as _script_names, transform as _transform  # noqa: F401
