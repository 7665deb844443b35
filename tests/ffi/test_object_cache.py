"""The object cache on hard days: many writers, a full disk, read-only and damaged folders, a bounded size."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import pytest

from unity.ffi.cache import object_cache as cache_module
from unity.ffi.cache.cache_key import Key
from unity.ffi.cache.object_cache import ObjectCache
from unity.ffi.machine_code.llvm import compile_ir
from unity.support.errors import OptionError

ADD = "define i64 @add_k(i64 %a) {{\n  %r = add i64 %a, {}\n  ret i64 %r\n}}\n"
OVERHEAD = 46 + len(Key("test", of="0").head())  # magic, checksum, and the description of the key

WRITER = """
import sys
from pathlib import Path
from unity.ffi.cache.cache_key import Key
from unity.ffi.cache.object_cache import ObjectCache
store = ObjectCache(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for turn in range(60):
    for number in range(8):
        key, body = Key("test", of=str(number)), bytes([number]) * (20_000 + number)
        found = store.load(key)
        assert found is None or found == body
        store.store(key, body)
print("done")
"""


def fill(store: ObjectCache, count: int, size: int = 1000) -> list[str]:
    keys = [Key("test", of=str(number)) for number in range(count)]
    for age, key in enumerate(keys):
        store.store(key, bytes(size))
        os.utime(store.path(key), (1_000_000 + age, 1_000_000 + age))
    return keys


def files(folder) -> list[str]:
    return sorted([path.name for path in folder.glob("??/*")])


def test_processes_write_and_read_one_folder_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE_BYTES", str(100_000))  # room for four of the eight: entries come and go
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.getcwd()}, **pipes) for _ in range(3)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        output, errors = writer.communicate(timeout=300)
        assert (writer.returncode, output) == (0, "done\n"), errors
    assert not [name for name in files(tmp_path) if not name.endswith(".bin")]


@pytest.mark.parametrize("failing", ["mkdir", "mkstemp", "write", "replace"])
def test_a_full_or_read_only_disk_is_no_error_and_leaves_nothing(tmp_path, monkeypatch, failing):
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))

    def refuse(*args, **options):
        raise OSError(errno.ENOSPC if failing == "write" else errno.EROFS, os.strerror(errno.EROFS))

    class Full:
        def __init__(self, handle, mode):
            self.file = original(handle, mode)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        write = refuse

    original = os.fdopen
    place, name, value = {
        "mkdir": (cache_module.Path, "mkdir", refuse),
        "mkstemp": (cache_module.tempfile, "mkstemp", refuse),
        "write": (cache_module.os, "fdopen", Full),
        "replace": (cache_module.os, "replace", refuse),
    }[failing]
    monkeypatch.setattr(place, name, value)
    first = compile_ir(ADD.format(501))
    assert compile_ir(ADD.format(501)) == first and files(tmp_path / "objects") == []
    monkeypatch.undo()
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    assert compile_ir(ADD.format(501)) == first and len(files(tmp_path / "objects")) == 1


def test_an_interrupt_while_writing_leaves_no_part(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache_module.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ObjectCache(tmp_path).store(Key("test", of="a"), b"body")
    assert files(tmp_path) == []


def test_damage_of_every_kind_is_noticed(tmp_path):
    store, key = ObjectCache(tmp_path), Key("test", of="a")
    store.store(key, b"body" * 100)
    good = store.path(key).read_bytes()
    damaged = [good[:length] for length in (0, 5, 10, 41, 42, len(good) - 1)]
    damaged += [good + b"\0", bytes(len(good)), good[::-1]]
    damaged += [good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :] for at in (0, 9, 10, 41, 42, len(good) - 1)]
    for data in damaged:
        store.path(key).write_bytes(data)
        assert store.load(key) is None and not store.path(key).exists()
    store.path(key).mkdir()  # a folder in the place of the file
    assert store.load(key) is None
    store.store(key, b"body")
    assert store.load(key) is None and files(tmp_path) == [store.path(key).name]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_files_that_others_wrote_or_may_write_are_not_believed(tmp_path, monkeypatch):
    store, key, other = ObjectCache(tmp_path), Key("test", of="a"), Key("test", of="b")
    for mode in (0o620, 0o602, 0o666):
        store.store(key, b"body")
        assert store.load(key) == b"body"
        store.path(key).chmod(mode)
        assert store.load(key) is None and not store.path(key).exists()
    store.store(key, b"body")
    real, owner = os.fstat, [os.geteuid() + 1]

    def stat(handle):
        fields = list(real(handle))
        fields[4] = owner[0]
        return os.stat_result(fields)

    monkeypatch.setattr(cache_module.os, "fstat", stat)
    assert store.load(key) is None
    owner[0] = 0  # root may do anything
    store.store(key, b"body")
    assert store.load(key) == b"body"
    store.path(other).parent.mkdir(exist_ok=True)
    store.path(key).rename(store.path(other))  # a good entry of ours, in the place of another one
    assert store.load(other) is None and not store.path(other).exists()


def test_the_entries_used_longest_ago_go_first(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE_BYTES", str(10 * (1000 + OVERHEAD)))
    store = ObjectCache(tmp_path)
    keys = fill(store, 10)
    assert len(files(tmp_path)) == 10
    assert store.load(keys[0]) == bytes(1000)  # the oldest, but used just now
    store.store(Key("test", of="n"), bytes(1000))
    kept = [key for key in keys if store.path(key).exists()]
    assert kept == [keys[0], *keys[5:]] and store.load(Key("test", of="n")) == bytes(1000)


def test_the_bound_holds_for_a_process_that_stores_much(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE_BYTES", "20000")
    store = ObjectCache(tmp_path)
    for number in range(100):
        store.store(Key("test", of=str(number)), bytes(1000))
        assert sum([path.stat().st_size for path in tmp_path.glob("??/*")]) <= 20000
    assert store.load(Key("test", of="99")) is not None
    store.store(Key("test", of="huge"), bytes(20000))
    assert store.load(Key("test", of="huge")) is None and store.load(Key("test", of="99")) is not None


def test_the_number_of_files_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_FILES", 12)
    store = ObjectCache(tmp_path)
    for number in range(40):
        store.store(Key("test", of=str(number)), bytes(10))
        assert len(files(tmp_path)) <= 12
    assert store.load(Key("test", of="39")) is not None


def test_what_a_killed_writer_left_is_removed(tmp_path):
    store = ObjectCache(tmp_path)
    store.path(Key("test", of="a")).parent.mkdir(parents=True)
    old, new = [store.path(Key("test", of="a")).with_suffix(suffix) for suffix in (".old.part", ".new.part")]
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store.store(Key("test", of="b"), b"body")
    assert not old.exists() and new.exists()  # the new one may belong to a writer that lives


def test_limit_by_option(tmp_path, monkeypatch):
    store = ObjectCache(tmp_path)
    monkeypatch.setenv("UNITY_CACHE_BYTES", "0")
    store.store(Key("test", of="a"), b"")
    assert files(tmp_path) == []
    monkeypatch.setenv("UNITY_CACHE_BYTES", "much")
    with pytest.raises(OptionError) as caught:
        store.store(Key("test", of="a"), b"")
    assert caught.value.code == "E001"


def test_off_touches_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("UNITY_CACHE", "off")
    assert compile_ir(ADD.format(502)) and list(tmp_path.iterdir()) == []
