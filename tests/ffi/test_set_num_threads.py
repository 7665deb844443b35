"""Threads of the pool can be set from outside."""

import pytest

import unity


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
