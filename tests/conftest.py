"""Test session: frozen nodes and checked rewriters, fixed seeds, shared helpers on the path."""

import os
import random
import sys
from pathlib import Path

os.environ.setdefault("UNITY_CHECKED", "1")  # before any module of the package is imported
sys.path.append(str(Path(__file__).parent))

import numpy as np
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` rewrites the after parts of case files."""
    parser.addoption("--update-golden", action="store_true", help="write results into the case files")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state."""
    random.seed(0)
    np.random.seed(0)
