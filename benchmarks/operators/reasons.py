"""Why an operator is slower than 0.9 of torch: one line for each row of the page that is. A row without one is a defect to mend."""

from __future__ import annotations

SLOW = 0.9
REASONS: dict[str, str] = {}
"""``"case, size"`` -> what limits it."""
