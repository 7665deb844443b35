"""Random examples: every run tries a few, the same each time; ``FUZZ=10 pytest tests/property tests/transform`` tries ten times as many."""

import os

TIMES = int(os.environ.get("FUZZ", "1"))
