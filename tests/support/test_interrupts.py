"""Interrupts held back over a block: nothing rises inside, everything rises after."""

import _thread
import signal
import threading
from collections.abc import Iterator

import pytest

from unity.support.interrupts import defer_interrupts


@pytest.fixture(autouse=True)
def interrupts_rise() -> Iterator[None]:
    """A shell's background jobs begin with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_rises_after_the_block():
    handler, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        _thread.interrupt_main()
        reached.append("inside")
        with defer_interrupts():
            reached.append("nested")
            _thread.interrupt_main()
        reached.append("end")
    assert reached == ["inside", "nested", "end"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_error_inside_is_not_lost():
    with pytest.raises(ValueError, match="own"), defer_interrupts():
        raise ValueError("own")
    with pytest.raises(KeyboardInterrupt) as caught, defer_interrupts():
        _thread.interrupt_main()
        raise ValueError("own")
    assert isinstance(caught.value.__context__, ValueError)


def test_other_threads_and_ignored_signals_are_left_alone():
    handlers = []

    def held():
        with defer_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=held)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        held()
        assert handlers[1:] == [signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGINT, previous)
