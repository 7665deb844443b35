"""Random schedules that long runs of the fuzzers found wrong: the seeds that the short runs of every day do not reach."""

from __future__ import annotations

import random

import pytest
import test_schedule_hostile as hostile
import test_schedule_property as property_
from schedule_programs import assert_same

from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule


@pytest.mark.parametrize(("name", "seed"), [("conv", 220), ("softmax", 148)])
def test_copies_of_buffers_that_iterations_own(name: str, seed: int) -> None:
    mod = property_.module(property_.PROGRAMS[name])
    rng = random.Random(f"{name} {seed}")
    sch = Schedule(mod, seed=seed, debug_mask=1, error_render_level="fast")
    refused = []
    for _ in range(rng.randint(1, 12)):
        try:
            property_.random_step(sch, rng)
        except ScheduleError as error:
            refused.append(error.code)
    assert_same(mod, sch.mod, seeds=1)
    assert "E448" in refused


@pytest.mark.parametrize(("name", "seed"), [("pad", 34), ("dw", 66)])
def test_partial_results_without_a_first_step(name: str, seed: int) -> None:
    sch, moves = hostile.random_schedule(name, seed)
    for args, wanted in hostile.reference(name):
        hostile.compare(wanted, hostile.after(sch.mod, args, moves))
