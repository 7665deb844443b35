"""Check that this processor can run code compiled for given features.

Not here: which features code is compiled for (``target/``). Invariant: code with instructions that the processor lacks is refused
before it is loaded.
"""

from __future__ import annotations

from ..ffi.targets.processor import lacking_features
from ..support.errors import VMError


def require_processor(features: str) -> None:
    """Refuse VMError E451 for code that uses instructions this processor lacks, or AMX where the system does not allow it."""
    lacking = lacking_features(features)
    if lacking:
        raise VMError(
            "E451",
            f"the code is for a processor with {', '.join(lacking)}, which this one lacks",
            help="compile for this machine: leave -mcpu and -mattr out of the target, and UNITY_TARGET unset",
        )
