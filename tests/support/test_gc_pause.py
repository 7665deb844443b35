"""The cycle collector while others use it: held back together, as it was before once all have left."""

import gc
import os
import threading

import pytest

from unity.support.gc_pause import young_collection

state = gc.get_threshold


@pytest.fixture(autouse=True)
def unchanged():
    """Python's own thresholds, which are left as they were."""
    own = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    before = state()
    yield
    after = state()
    gc.set_threshold(*own)
    assert after == before


def in_another_thread():
    """Let a thread hold it back; returns what makes it leave."""
    inside, leave = threading.Event(), threading.Event()

    def other():
        with young_collection():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    return lambda: (leave.set(), thread.join())


def test_old_objects_are_left_alone():
    seen = []
    gc.callbacks.append(lambda phase, info: seen.append(info["generation"]) if phase == "stop" else None)
    try:
        with young_collection():
            for _ in range(3):
                kept = [[] for _ in range(200_000)]
            assert kept and 0 in seen and 2 not in seen
    finally:
        gc.callbacks.pop()


def test_errors_and_nesting_give_it_back():
    before = state()
    with pytest.raises(KeyError), young_collection(), young_collection():
        assert state() != before
        raise KeyError
    assert state() == before


def test_the_last_of_several_threads_gives_it_back():
    before = state()
    leave = in_another_thread()
    with young_collection():
        pass
    assert state() != before
    leave()
    assert state() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_it_does_not_have():
    before = state()
    leave = in_another_thread()
    child = os.fork()
    if not child:
        os._exit(0 if state() == before else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave()
