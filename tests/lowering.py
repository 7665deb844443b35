"""The passes of a tensor program that no rule takes: its nests are scheduled, then it is lowered."""

from __future__ import annotations

from unity.transform.default_schedule.nests.pipeline import CPU_NESTS
from unity.transform.infra.passes import Pipeline
from unity.transform.tir.pipeline import CHECKED_CPU_PIPELINE, CPU_PIPELINE

LOOPS = Pipeline((CPU_NESTS, CPU_PIPELINE))
CHECKED_LOOPS = Pipeline((CPU_NESTS, CHECKED_CPU_PIPELINE))
"""The same with every index checked at run time."""
