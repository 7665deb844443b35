"""The bar of long builds: only when they are long, only on a terminal or when asked, and wiped at the end."""

import io
import time

import pytest

from unity.support import progress
from unity.support.errors import OptionError
from unity.support.progress import WIPE, Progress


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self):
        return True


def wait_for(text, stream):
    """However busy the machine: until the bar's thread has written."""
    end = time.monotonic() + 60
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)


def shown(stream, text=None, delay=0.01):
    """All that is written in a build that waits for a text, or takes a tenth of a second."""
    bar = Progress("compiling", stream, delay)
    bar.at("fuse_ops", 3, 20)
    with bar:
        if text is None:
            time.sleep(0.1)
        else:
            wait_for(text, stream)
    return stream.getvalue()


@pytest.fixture
def plain(monkeypatch):
    """As where rich is not installed."""
    monkeypatch.delenv("UNITY_PROGRESS", raising=False)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)


def test_a_line_without_rich(plain):
    text = shown(Terminal(), " s")
    assert text.startswith(f"{WIPE}compiling: fuse_ops (4 of 20), 0 s") and text.endswith(WIPE)


def test_a_bar_with_rich(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.delenv("UNITY_PROGRESS", raising=False)
    assert "compiling: fuse_ops" in shown(Terminal(), "compiling: fuse_ops")


def test_short_builds_say_nothing(plain):
    assert shown(Terminal(), delay=60.0) == ""


def test_nothing_is_written_to_a_file_unless_asked(plain, monkeypatch):
    assert shown(io.StringIO()) == ""
    monkeypatch.setenv("UNITY_PROGRESS", "on")
    assert "fuse_ops" in shown(io.StringIO(), "fuse_ops")


def test_off(plain, monkeypatch):
    monkeypatch.setenv("UNITY_PROGRESS", "off")
    assert shown(Terminal()) == ""


def test_another_value_is_an_error(monkeypatch):
    monkeypatch.setenv("UNITY_PROGRESS", "perhaps")
    with pytest.raises(OptionError, match="E001"):
        shown(Terminal())


def test_an_error_inside_still_wipes(plain):
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Progress("compiling", stream, 0.01) as bar:
        bar.at("simplify", 0, 1)
        wait_for("simplify", stream)
        raise ZeroDivisionError
    assert stream.getvalue().endswith(WIPE)
