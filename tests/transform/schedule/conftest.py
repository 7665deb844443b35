"""Tests of schedules verify the module after every step."""

import pytest


@pytest.fixture(autouse=True)
def verified_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users ask for it."""
    monkeypatch.setenv("UNITY_VERIFY", "2")
