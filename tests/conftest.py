"""Test session: frozen nodes and checked rewriters, fixed seeds, shared helpers on the path."""

import ctypes
import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("UNITY_CHECKED", "1")  # before any module of the package is imported
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # workers and the processes that tests start read the package compiled
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

import numpy as np
import pytest
from levels import LEVELS, Level

from unity.support.recursion import on_c_stack


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` rewrites the after parts of case files, ``--long-until`` ends a run on a slow machine in time."""
    parser.addoption("--update-golden", action="store_true", help="write results into the case files")
    parser.addoption(
        "--long-until", type=float, metavar="MINUTES", help="begin no test of long_tests.txt after MINUTES"
    )


BEGAN = "UNITY_TESTS_BEGAN"
LONG = tuple([
    line for line in (Path(__file__).parent / "long_tests.txt").read_text().splitlines() if not line.startswith("#")
])  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """A run has a cache of its own, unless ``UNITY_CACHE`` is set: nothing is taken from an earlier one. Workers, which are started
    later, share it, and count from the time at which the whole run began."""
    gc.disable()  # until the tests are collected
    if BEGAN not in os.environ:
        os.environ[BEGAN] = str(time.time())
        if "UNITY_CACHE" not in os.environ:
            folder = tempfile.TemporaryDirectory(prefix="unity-tests-", ignore_cleanup_errors=True)
            os.environ["UNITY_CACHE"] = folder.name
            config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests run last."""
    items.sort(key=lambda item: item.nodeid.startswith(LONG))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A long test that would begin too late is passed over with a sentence."""
    minutes = item.config.getoption("--long-until")
    if minutes is not None and item.nodeid.startswith(LONG) and time.time() - float(os.environ[BEGAN]) > 60 * minutes:
        pytest.skip(f"a long test, not begun within {minutes:g} minutes")


def without_torch(error: BaseException | None) -> bool:
    """True for an error that comes of torch not being installed, as on Pythons that it has no small package for."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
            return True
        error = error.__cause__ or error.__context__
    return False


NO_TORCH = "needs torch, which is not installed for this Python"


class TestFile(pytest.Module):
    """A file of tests; one that imports torch is passed over with a sentence where there is no torch."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        try:
            return list(super().collect())
        except Exception as error:
            if without_torch(error):
                pytest.skip(NO_TORCH, allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return TestFile.from_parent(parent, path=module_path)


def pytest_collection_finish() -> None:
    """Ten thousand tests and all modules stay to the end: the cycle collector need not look at them again and again, nor while they
    are being made. What tests make afterwards is looked through less often than by default: trees of nodes are no cycles."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(400_000)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file of tests leaves in tables and modules stays as well: collections of later files need not look at it."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """So is a test that comes upon torch while it runs."""
    try:
        return (yield)
    except Exception as error:
        if without_torch(error):
            pytest.skip(NO_TORCH)
        raise


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
