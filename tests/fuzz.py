"""Random examples: every run tries a few, the same each time. ``FUZZ=10 pytest tests/property tests/transform`` tries ten times as many,
``FUZZ_SEED`` others of the damaged texts, damaged modules and graphs of operators."""

import os

TIMES = int(os.environ.get("FUZZ", "1"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
