"""Runs every case file; ``pytest tests/test_golden.py --update-golden`` writes the results into the files."""

import pytest
from cases import Case, all_cases, check_case, update_file


@pytest.mark.parametrize("case", all_cases())
def test_case(case: Case, request: pytest.FixtureRequest) -> None:
    changed = check_case(case, update=request.config.getoption("--update-golden"))
    if changed is not None:
        update_file(case.file, {case.name: changed})
