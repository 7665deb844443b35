"""The grammar's cache: damage of every byte is noticed, and nobody's home is no folder."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from unity.ffi.cache.cache_key import Key
from unity.ffi.cache.object_cache import cache_folder, object_cache
from unity.script.parser import read_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    return tmp_path


class Trap:
    """What a pickle may do that is read: here, make a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


FORMS = json.loads(Path(__file__).with_name("syntax_forms.json").read_text(encoding="utf-8"))
TEXTS = [row["text"] + "\n" for row in FORMS[::8]]


def parser():
    return read_text.grammar_parser.__wrapped__()[0]


def entries(folder):
    return list((folder / "objects").glob("??/*"))


def test_tables_are_plain_data_that_make_an_equal_parser(folder):
    made = parser()
    (entry,) = entries(folder)
    data = entry.read_bytes()
    assert isinstance(json.loads(data[data.index(b'[{"') :]), list)
    before = entry.stat().st_ino
    read = parser()
    assert entries(folder) == [entry] and entry.stat().st_ino == before  # used, not written again
    assert repr(read.terminals) == repr(made.terminals)
    for text in TEXTS:
        assert repr(read.parse(text)) == repr(made.parse(text))


def test_damage_is_noticed_and_repaired(folder):
    parser()
    (file,) = entries(folder)
    good = file.read_bytes()
    for damaged in (good[:-1], b"", good[:5000] + bytes([good[5000] ^ 1]) + good[5001:]):
        file.write_bytes(damaged)
        assert parser().parse("x\n") is not None
        assert file.read_bytes() != damaged


def test_a_pickle_in_the_place_of_the_tables_is_not_read(folder):
    parser()
    (file,) = entries(folder)
    key, data = str.__new__(Key, file.parent.name + file.stem), pickle.dumps(Trap(folder / "sprung"))
    key.stage, key.parts = "grammar", {}
    file.write_bytes(data)
    for _ in range(2):
        with suppress(ValueError):
            parser()
        assert not (folder / "sprung").exists()
        object_cache().store(key, data)  # with a right checksum too
    pickle.loads(data)
    assert (folder / "sprung").exists()


def test_folders_that_cannot_hold_it(folder, monkeypatch):
    (folder / "objects").write_text("no folder")
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
