"""The page of primitives: every example runs, and what it makes agrees with the program it started from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from schedule_programs import assert_same

from unity.transform.schedule import FAMILIES, ROWS

sys.path.append(str(Path(__file__).parents[3] / "tools"))

import make_schedule_docs

EXAMPLES = [name for name, row in ROWS.items() if row.example]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    sch = make_schedule_docs.execute(ROWS[name].example)
    kinds = [inst.kind for inst in sch.trace.insts]
    assert name in kinds
    if "unsafe" not in [inst.grade for inst in sch.trace.insts]:
        assert_same(make_schedule_docs.example_module(), sch.mod, seeds=1)


def test_steps_have_examples() -> None:
    assert [name for name, row in ROWS.items() if row.kind == "step" and not row.example] == ["enter_postproc"]


def test_every_family_has_a_section() -> None:
    families = {family.__name__.rsplit(".", 1)[-1] for family in FAMILIES}
    assert {row.family for row in ROWS.values()} == families
    assert all([family.__doc__ for family in FAMILIES])
