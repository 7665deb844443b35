"""Test session: frozen nodes and checked rewriters, fixed seeds."""

import os

os.environ.setdefault("UNITY_CHECKED", "1")

import random

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state."""
    random.seed(0)
    np.random.seed(0)
