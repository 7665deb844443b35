"""Threads of the pool can be set from outside."""

import os
import subprocess
import sys

import pytest

import unity
from unity.ffi.native import pool


def test_threads_can_be_set():
    before = unity.num_threads()
    try:
        unity.set_num_threads(1)
        assert unity.num_threads() == 1
        unity.set_num_threads(2)
        assert unity.num_threads() == 2
        for wrong in (0, -1, 1000):
            with pytest.raises(unity.UnityError, match="1 to 256"):
                unity.set_num_threads(wrong)
        assert unity.num_threads() == 2
    finally:
        unity.set_num_threads(before)


@pytest.mark.parametrize("wrong", [None, True, 1.5, "2", 10**30])
def test_what_is_no_count(wrong):
    with pytest.raises(unity.UnityError) as caught:
        unity.set_num_threads(wrong)
    assert caught.value.code == "E731"


def test_the_threads_of_a_process_are_the_cores_it_may_use():
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import unity; print(unity.num_threads())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "UNITY_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "1\n"


@pytest.mark.parametrize("value, code", [("0", ""), ("-5", "E001"), ("257", "E731"), ("two", "E001")])
def test_threads_by_option(monkeypatch, value, code):
    program = "import unity\ntry: print(unity.num_threads() > 0)\nexcept unity.UnityError as error: print(error.code)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env=os.environ | {"UNITY_NUM_THREADS": value},
    )  # fmt: skip
    assert done.stdout.strip() == (code or "True")


@pytest.mark.parametrize(
    "files, limit",
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, 0),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu.max": "nonsense"}, 0),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0),
        ({}, 0),
    ],
)
def test_processors_of_a_container(monkeypatch, tmp_path, files, limit):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(pool, "CGROUP", tmp_path)
    monkeypatch.delenv("UNITY_NUM_THREADS", raising=False)
    assert pool.processor_limit() == limit
    assert pool.default_threads() == min(len(os.sched_getaffinity(0)), limit or 1000)
