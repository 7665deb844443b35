"""Small arrays go to a device through pinned memory: the call does not wait, and what it copied may change at once."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from device_choice import device_or_emulated
from scripted_driver import ScriptedDriver

import unity
from unity.ffi.cuda.driver import use_driver
from unity.ffi.cuda.staging import PLACE_BYTES, PLACES


class LateDriver(ScriptedDriver):
    """Fetches what it is told to copy only when somebody waits for it, as a busy device would."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[int, int, int]] = []
        self.events: dict[int, int] = {}
        """For each event how many copies are before it."""
        self.done = 0

    def fetch(self, count: int) -> None:
        for target, source, nbytes in self.waiting[self.done : count]:
            super().cuMemcpyHtoDAsync_v2(target, source, nbytes, None)
        self.done = max(self.done, count)

    def cuMemcpyHtoDAsync_v2(self, target: int, source: int, count: int, stream: int | None) -> None:
        self.waiting.append((target, source, count))

    def cuMemcpyDtoHAsync_v2(self, target: int, source: int, count: int, stream: int | None) -> None:
        self.fetch(len(self.waiting))
        super().cuMemcpyDtoHAsync_v2(target, source, count, stream)

    def cuStreamSynchronize(self, stream: int | None) -> None:
        self.fetch(len(self.waiting))

    def cuEventRecord(self, event: int, stream: int | None) -> None:
        self.events[event] = len(self.waiting)

    def cuEventSynchronize(self, event: int) -> None:
        self.fetch(self.events.get(event, 0))


@pytest.mark.parametrize("count", [1, PLACES, 3 * PLACES + 1])
def test_arrays_may_change_after_the_call(count: int) -> None:
    driver = LateDriver()
    with use_driver(driver.driver):
        array, made = np.zeros(40, "float32"), []
        for k in range(count):
            array[:] = k
            made.append(unity.tensor(array, device=unity.cuda(0)))
        assert "cuStreamSynchronize" not in driver.calls, "nothing was waited for"
        assert driver.done == max(0, count - PLACES), "but places that are used again"
        assert [int(tensor.numpy()[0]) for tensor in made] == list(range(count))
        made.clear()


def test_large_arrays_are_waited_for() -> None:
    driver = LateDriver()
    with use_driver(driver.driver):
        for size, waits in ((PLACE_BYTES, False), (PLACE_BYTES + 1, True)):
            driver.calls.clear()
            array = np.full(size, 7, "int8")
            tensor = unity.tensor(array, device=unity.cuda(0))
            array[:] = 1
            assert ("cuStreamSynchronize" in driver.calls) == waits
            assert (tensor.numpy() == 7).all()
            del tensor


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, PLACE_BYTES, PLACE_BYTES + 1])
def test_a_device_gets_what_stood_there_at_the_call(count: int) -> None:
    with device_or_emulated(launched=False):
        array, made = np.zeros(count, "int8"), []
        for k in range(2 * PLACES + 1):
            array[:] = k
            made.append(unity.tensor(array, device=unity.cuda(0)))
        array[:] = 99
        assert all([(tensor.numpy() == k).all() for k, tensor in enumerate(made)])


def test_streams_that_are_captured_are_left_alone() -> None:
    """A place that a graph fetches at each launch would hold something else by then."""
    driver = LateDriver()
    driver.cuStreamIsCapturing = lambda stream, out: setattr(ctypes.c_int.from_address(out), "value", 1)
    with use_driver(driver.driver):
        tensor = unity.tensor(np.ones(4, "float32"), device=unity.cuda(0))
        assert "cuMemHostAlloc" not in driver.calls
        del tensor


def test_threads_share_the_places() -> None:
    driver = LateDriver()
    with use_driver(driver.driver):
        wrong: list[int] = []

        def work(number: int) -> None:
            for k in range(50):
                tensor = unity.tensor(np.full(30, 100 * number + k, "int64"), device=unity.cuda(0))
                if (tensor.numpy() != 100 * number + k).any():
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong
