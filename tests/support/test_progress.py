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


def shown(stream, seconds, delay=0.01):
    bar = Progress("compiling", stream, delay)
    bar.at("fuse_ops", 3, 20)
    with bar:
        time.sleep(seconds)
    return stream.getvalue()


@pytest.fixture
def plain(monkeypatch):
    """As where rich is not installed."""
    monkeypatch.delenv("UNITY_PROGRESS", raising=False)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)


def test_a_line_without_rich(plain):
    text = shown(Terminal(), 0.1)
    assert text.startswith(f"{WIPE}compiling: fuse_ops (4 of 20), 0 s") and text.endswith(WIPE)


def test_a_bar_with_rich(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.delenv("UNITY_PROGRESS", raising=False)
    assert "compiling: fuse_ops" in shown(Terminal(), 0.3)


def test_short_builds_say_nothing(plain):
    assert shown(Terminal(), 0.01, delay=5.0) == ""


def test_nothing_is_written_to_a_file_unless_asked(plain, monkeypatch):
    assert shown(io.StringIO(), 0.1) == ""
    monkeypatch.setenv("UNITY_PROGRESS", "on")
    assert "fuse_ops" in shown(io.StringIO(), 0.1)


def test_off(plain, monkeypatch):
    monkeypatch.setenv("UNITY_PROGRESS", "off")
    assert shown(Terminal(), 0.1) == ""


def test_another_value_is_an_error(monkeypatch):
    monkeypatch.setenv("UNITY_PROGRESS", "perhaps")
    with pytest.raises(OptionError, match="E001"):
        shown(Terminal(), 0)


def test_an_error_inside_still_wipes(plain):
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Progress("compiling", stream, 0.01) as bar:
        bar.at("simplify", 0, 1)
        time.sleep(0.1)
        raise ZeroDivisionError
    assert stream.getvalue().endswith(WIPE)
