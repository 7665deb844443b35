"""The grammar's cache on hard days: damage of every byte is noticed, and nobody's home is no folder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unity.ffi.object_cache import cache_folder
from unity.script.parser import read_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    return tmp_path


def parser():
    return read_text._parser.__wrapped__()[0]


def test_damage_is_noticed_and_repaired(folder):
    parser()
    file, digest = folder / "grammar.lark-cache", folder / "grammar.sha256"
    good = file.read_bytes()
    for damaged in (
        good[:-1],
        b"",
        good[: len(good) // 2],
        good[:5000] + bytes([good[5000] ^ 1]) + good[5001:],
        b"x" * 100,
    ):
        file.write_bytes(damaged)
        assert parser().parse("x\n") is not None
        assert file.read_bytes() != damaged and digest.read_text() == read_text._digest(file)
    digest.unlink()
    assert parser() is not None and digest.exists()
    before = file.stat().st_mtime_ns
    parser()
    assert file.stat().st_mtime_ns == before  # used, not written again


def test_folders_that_cannot_hold_it(folder, monkeypatch):
    (folder / "grammar.lark-cache").mkdir()
    assert parser() is not None
    monkeypatch.setenv("UNITY_CACHE", "/dev/null/x")
    assert parser() is not None


def test_nobodys_home_is_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("UNITY_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for home in ("relative", "~"):
        monkeypatch.setenv("HOME", home)
        assert cache_folder() is None
    environment = {name: value for name, value in os.environ.items() if name != "UNITY_CACHE"}
    environment |= {"HOME": "nowhere", "PYTHONPATH": os.getcwd()}
    program = (
        "import unity\nfrom unity.script import parse\nparse('@R.function\\ndef f(x: R.Object):\\n    return x\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
