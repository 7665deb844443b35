"""Test session: frozen nodes and checked rewriters, fixed seeds, shared helpers on the path."""

import ctypes
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("UNITY_CHECKED", "1")  # before any module of the package is imported
sys.path.append(str(Path(__file__).parent))

import numpy as np
import pytest
from levels import LEVELS, Level

from unity.support.deep import on_c_stack


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` rewrites the after parts of case files."""
    parser.addoption("--update-golden", action="store_true", help="write results into the case files")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state."""
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def own_frames() -> Iterator[None]:
    """``torch.compile`` leaves its evaluator of frames behind after an error: tests that follow would recurse on the C stack."""
    yield
    if on_c_stack():
        api = ctypes.pythonapi
        api.PyInterpreterState_Get.restype = ctypes.c_void_p
        api._PyInterpreterState_SetEvalFrameFunc.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        own = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p)
        api._PyInterpreterState_SetEvalFrameFunc(api.PyInterpreterState_Get(), own)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Level:
    """A level of x86-64 as the default target, one after the other."""
    found = Level(request.param)
    monkeypatch.setenv("UNITY_TARGET", found.target)
    return found
