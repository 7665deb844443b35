"""Machine code in memory: linking, missing names, damaged objects, and the cache of objects on disk."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest

from unity.ffi.cache.cache_key import Key
from unity.ffi.cache.object_cache import ObjectCache
from unity.ffi.machine_code.elf import read_object
from unity.ffi.machine_code.engine import Engine, process_symbol
from unity.ffi.machine_code.llvm import CompileOptions, assembly, compile_ir
from unity.ffi.targets.processor import host_cpu, host_features
from unity.support.errors import FFIError

ADD = "define i64 @add_k(i64 %a) {{\n  %r = add i64 %a, {}\n  ret i64 %r\n}}\n"
EXTERN = "declare i64 @outside(i64)\ndefine i64 @twice(i64 %a) {\n  %b = call i64 @outside(i64 %a)\n  %r = add i64 %b, %b\n  ret i64 %r\n}\n"
UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def code_of(function) -> str:
    with pytest.raises(FFIError) as caught:
        function()
    return caught.value.code


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A fresh cache folder."""
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    return tmp_path


def test_code_runs_and_engines_have_their_own_names():
    first, second = Engine().add_ir(ADD.format(1)), Engine().add_ir(ADD.format(2))
    assert UNARY(first.address("add_k"))(10) == 11 and UNARY(second.address("add_k"))(10) == 12
    assert first.names() == ["add_k"]


def test_symbols_come_from_the_dict_then_from_earlier_objects():
    inner = Engine().add_ir(ADD.format(5))
    engine = Engine({"outside": inner.address("add_k")}, keep=[inner]).add_ir(EXTERN)
    assert UNARY(engine.address("twice"))(1) == 12
    joined = Engine().add_ir(ADD.format(3).replace("add_k", "outside"))
    joined.link()
    joined.add_ir(EXTERN)
    assert UNARY(joined.address("twice"))(1) == 8


def test_errors_are_exceptions_with_codes():
    with pytest.raises(FFIError, match="outside") as caught:
        Engine().add_ir(EXTERN).address("twice")
    assert caught.value.code == "E710"
    assert code_of(lambda: Engine().add_ir("hello")) == "E708"
    assert code_of(lambda: Engine().add_ir("define i32 @f() {\n  %a = add i32 %b, 1\n  ret i32 %a\n}")) == "E708"
    assert code_of(lambda: Engine().add_ir("\0")) == "E708"
    assert code_of(lambda: compile_ir(ADD.format(1), CompileOptions(pipeline="O9"))) == "E708"
    assert code_of(lambda: compile_ir(ADD.format(1), CompileOptions(triple="pdp11-unknown-none"))) == "E708"
    assert code_of(lambda: Engine().add_object(b"garbage")) == "E709"
    assert code_of(lambda: Engine().add_ir(ADD.format(1)).address("other")) == "E710"
    twice = Engine().add_ir(ADD.format(1)).add_ir(ADD.format(2))
    assert code_of(twice.link) == "E709"


def test_damaged_objects_never_crash():
    data = compile_ir(EXTERN)
    for cut in range(0, len(data), 37):
        with pytest.raises(FFIError):
            Engine({"outside": process_symbol("labs")}).add_object(data[:cut]).link()
    assert read_object(data).undefined == ("outside",) and read_object(data).defined == ("twice",)


def test_pipelines_and_assembly():
    for pipeline in ("none", "light", "O1", "O3"):
        engine = Engine().add_ir(ADD.format(4), CompileOptions(pipeline=pipeline))
        assert UNARY(engine.address("add_k"))(1) == 5
    assert "add_k:" in assembly(ADD.format(1))
    assert host_cpu() and "+" in host_features()


def test_cache_is_used_and_damage_is_noticed(cache):
    data = compile_ir(ADD.format(77))
    files = list(cache.glob("objects/??/*.bin"))
    assert len(files) == 1
    stamp = files[0].stat().st_ino
    assert compile_ir(ADD.format(77)) == data and files[0].stat().st_ino == stamp
    body = bytearray(files[0].read_bytes())
    body[-1] ^= 1
    files[0].write_bytes(body)
    assert compile_ir(ADD.format(77)) == data
    assert files[0].read_bytes() != bytes(body)
    compile_ir(ADD.format(77), CompileOptions(pipeline="O3"))
    assert len(list(cache.glob("objects/??/*.bin"))) == 2
    assert not list(cache.glob("objects/??/*.part"))


def test_cache_off_and_unwritable(monkeypatch, tmp_path):
    monkeypatch.setenv("UNITY_CACHE", "off")
    assert compile_ir(ADD.format(1))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path / "file"))
    assert compile_ir(ADD.format(1))
    store = ObjectCache(tmp_path / "c")
    key = Key("test", of="a", other=b"b")
    assert store.load(key) is None
    store.store(key, b"body")
    assert store.load(key) == b"body"
    store.path(key).write_bytes(b"")
    assert store.load(key) is None and not store.path(key).exists()
    assert (
        len(
            {Key("test", a="b"), Key("testa", a="b"), Key("test", a="ab"), Key("test", b="a"), Key("test", a="b", c="")}
        )
        == 5
    )


def test_threads_compile_at_once(cache):
    results: dict[int, int] = {}

    def work(number: int) -> None:
        engine = Engine().add_ir(ADD.format(1000 + number % 3))
        results[number] = UNARY(engine.address("add_k"))(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 1000 + n % 3 + n for n in range(8)}


def test_plain_import_is_light():
    text = (
        "import sys, unity.ffi; "
        "sys.exit(sum(name in sys.modules for name in ('torch', 'llvmlite', 'llvmlite.binding', 'lark')))"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


def test_compiling_keeps_no_memory() -> None:
    """In a process of its own, so that nothing else allocates: an O2 pipeline left undisposed is 70 KiB each time."""
    script = """
import ctypes, gc, pathlib
from unity.ffi.machine_code.llvm import CompileOptions, compile_ir
def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4
def compile_many(count):
    for n in range(count):
        compile_ir("define i64 @f(i64 %a) {\\n  %r = add i64 %a, 1\\n  ret i64 %r\\n}\\n", CompileOptions(pipeline="O2"), False)
compile_many(30)
before = resident()
compile_many(100)
print((resident() - before) / 100)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert float(result.stdout) < 20, f"{result.stdout.strip()} KiB for each compilation"
