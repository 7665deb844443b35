"""Saved files: round trip, loading without the compiler rooms, damage of every kind."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vm_doubles import *  # noqa: F403

import unity
from unity.script import parse
from unity.support.errors import ArtifactError, VMError
from unity.vm.executable import artifact
from unity.vm.executable.codec import SCHEMA
from unity.vm.native.run import add_driver
from unity.vm.virtual_machine import VirtualMachine


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def program():
    x, y, z = var("x", 4), var("y", 4), var("z", 4)
    weights = constant(np.arange(4, dtype=np.float32))
    with_constant = fn([x], [(y, dps("add", [x, weights], y.ty)), (z, dps("relu", [y], z.ty))], z)
    made = executable({"main": two_layers(), "shifted": with_constant})
    add_driver(made)
    return made


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("vm") / "model.unity"
    program().save(path)
    return path


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_round_trip(saved, mode):
    loaded = unity.load(saved)
    assert loaded.as_text() == program().as_text()
    vm = VirtualMachine(loaded, exec_mode=mode)
    x = f32(4)
    np.testing.assert_array_equal(vm["shifted"](x).numpy(), np.maximum(x + np.arange(4, dtype=np.float32), 0))
    y, _ = vm["main"](f32(2, 4), f32(4, 3), f32(3))
    np.testing.assert_allclose(y.numpy(), f32(2, 4) @ f32(4, 3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["m.so", "lib.m.SO", "m.dylib", "m.dll", "m.o", "m.a", "m.tar"])
def test_names_of_other_formats_are_refused(tmp_path, name):
    for write in (program().save, program().export_library):
        with pytest.raises(ArtifactError, match="a file of its own format") as refused:
            write(tmp_path / name)
        assert refused.value.code == "E809" and f'unity.load("{name.rpartition(".")[0]}.unity")' in refused.value.help
    assert not list(tmp_path.iterdir())


def test_the_names_of_tvm_write_and_read(tmp_path):
    program().export_library(tmp_path / "m.unity")
    loaded = unity.runtime.load_module(str(tmp_path / "m.unity"))
    np.testing.assert_array_equal(loaded["shifted"](np.ones(4, np.float32)).numpy(), np.arange(1, 5))


def test_constants_are_mapped_and_read_only(saved):
    data = unity.load(saved).program.constants[0].numpy()
    assert not data.flags.writeable and not data.flags.owndata and data.ctypes.data % 64 == 0


def test_load_and_run_without_compiler_rooms(saved):
    code = f"""
import sys
import numpy as np
import unity
from unity.support.errors import UnityError
executable = unity.load({str(saved)!r})
for mode in ("native", "bytecode"):
    vm = unity.VirtualMachine(executable, exec_mode=mode)
    assert np.allclose(vm["shifted"](np.ones(4, np.float32)).numpy(), 1 + np.arange(4))
    try:
        vm["shifted"](np.ones(5, np.float32))
    except UnityError as error:
        assert error.code == "E606", error
    else:
        raise SystemExit("no error")
foreign = [m for m in sys.modules if m.split(".")[0] in ("lark", "torch") or m.startswith(
    ("unity.ir", "unity.script", "unity.target", "unity.transform", "unity.op", "unity.te", "unity.arith", "unity.vm.compiler.module", "unity.vm.compiler.calls"))]
assert not foreign, foreign
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert done.returncode == 0, done.stderr


def test_every_flip_and_truncation_is_an_error(saved, tmp_path):
    data = saved.read_bytes()
    rng = np.random.default_rng(7)
    positions = [*range(0, 420, 3), *rng.integers(0, len(data), 200).tolist(), len(data) - 1]
    for position in positions:
        damaged = bytearray(data)
        damaged[position] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(ArtifactError):
            [part.read() for part in artifact.split_sections(memoryview(bytes(damaged)), "file").values()]
    for length in [0, 1, 7, 8, 47, 48, 100, *rng.integers(0, len(data), 60).tolist(), len(data) - 1]:
        with pytest.raises(ArtifactError):
            artifact.split_sections(memoryview(data[:length]), "file")
    with pytest.raises(ArtifactError):
        artifact.split_sections(memoryview(data + b"\0"), "file")
    path = tmp_path / "cut"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ArtifactError):
        unity.load(path)


def test_newer_version_foreign_file_and_missing_file(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    data[8] = 9
    path = tmp_path / "new"
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        unity.load(path)
    assert caught.value.code == "E803"
    path.write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(ArtifactError) as caught:
        unity.load(path)
    assert caught.value.code == "E802"
    with pytest.raises(ArtifactError) as caught:
        unity.load(tmp_path / "nowhere")
    assert caught.value.code == "E801"


def test_other_processor_is_refused(tmp_path):
    for change in (
        {"features": "+made-up-feature"},
        {"triple": "aarch64-unknown-linux-gnu"},
        {"triple": "x86_64-pc-windows-msvc"},
    ):
        path = tmp_path / "other"
        replace(program(), **change).save(path)
        with pytest.raises(ArtifactError) as caught:
            unity.load(path)
        assert caught.value.code == "E804"


def test_sections_with_valid_checksums_and_wrong_content(saved, tmp_path):
    sections = {name: bytes(data) for name, data in artifact.read_sections(saved).items()}
    rng = np.random.default_rng(3)
    path = tmp_path / "changed"
    refused = 0
    for name in ("meta", "bytecode"):
        for _ in range(60):
            changed = bytearray(sections[name])
            changed[int(rng.integers(0, len(changed)))] = int(rng.choice(list(b'[]{}",0123456789-xsr')))
            artifact.write_sections(path, {**sections, name: bytes(changed)})
            try:
                unity.load(path)
            except ArtifactError as error:
                refused += 1
                assert error.code in ("E804", "E805")
    assert refused > 40
    artifact.write_sections(path, {**sections, "meta": b"[" * 200000})
    with pytest.raises(ArtifactError):
        unity.load(path)
    artifact.write_sections(path, {**sections, "constants": b""})
    with pytest.raises(ArtifactError):
        unity.load(path)
    del sections["bytecode"]
    artifact.write_sections(path, sections)
    with pytest.raises(ArtifactError):
        unity.load(path)


def test_untrusted_needs_module_text(saved):
    with pytest.raises(ArtifactError) as caught:
        unity.load(saved, trust=False)
    assert caught.value.code == "E804"


def test_driver_of_another_version_is_made_again(tmp_path):
    path = tmp_path / "old"
    replace(program(), driver_tag="0.0.0/other").save(path)
    vm = VirtualMachine(unity.load(path))
    np.testing.assert_array_equal(vm["shifted"](np.zeros(4, np.float32)).numpy(), np.arange(4, dtype=np.float32))


def test_saving_while_somebody_holds_on_to_the_memory(saved, tmp_path, monkeypatch):
    """A profiler keeps frames, and with them what they see of the file."""
    kept, checksum = [], artifact.checksum
    monkeypatch.setattr(artifact, "checksum", lambda memory: kept.append(memory[:]) or checksum(memory))
    artifact.write_sections(tmp_path / "again", {"part": b"text" * 100})
    assert kept and artifact.read_sections(tmp_path / "again") == {"part": b"text" * 100}


def test_saving_twice_gives_the_same_bytes(saved, tmp_path):
    path = tmp_path / "again"
    unity.load(saved).save(path)
    assert path.read_bytes() == saved.read_bytes()


def test_loading_again_keeps_no_readers(saved):
    unity.load(saved)
    before = len(SCHEMA.readers)
    unity.load(saved)
    assert len(SCHEMA.readers) == before


def test_functions_of_an_executable(saved):
    loaded = unity.load(saved)
    np.testing.assert_array_equal(loaded["shifted"](np.zeros(4, np.float32)).numpy(), np.arange(4, dtype=np.float32))
    assert loaded["shifted"] is loaded["shifted"]
    with pytest.raises(VMError) as caught:
        loaded["nothing"]
    assert caught.value.code == "E631"
    with pytest.raises(VMError) as caught:
        VirtualMachine("shifted")
    assert caught.value.code == "E625"


def test_a_program_for_features_this_machine_lacks_is_compiled_again(tmp_path):
    text = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        y = R.add(x, x)
        R.output(y)
    return y
"""
    made = unity.compile(parse(text), target="llvm -mcpu=x86-64-v2 -num-cores=1")
    assert "+sse4.2" in made.features and "avx" not in made.features
    path = tmp_path / "other"
    replace(made, features="+made-up-feature").save(path)
    loaded = unity.load(path)
    assert loaded.options["target"] == "llvm -num-cores=1" and "made-up" not in loaded.features
    np.testing.assert_array_equal(loaded["main"](np.arange(3, dtype="float32")).numpy(), [0, 2, 4])


def test_features_that_code_for_a_named_processor_needs():
    assert {"+avx512f", "+avx512vnni"} <= set(unity.Target("llvm -mcpu=znver5").required_features.split(","))
    level = set(unity.Target("llvm -mcpu=x86-64-v3 -mattr=+amx-tile").required_features.split(","))
    assert {"+avx2", "+fma", "+amx-tile"} <= level and "+avx512f" not in level


@pytest.mark.parametrize("path", [5, None, b"x", "", ".", "a\0b", 3.5, ["a"], Path("")])
def test_what_names_no_file(path):
    executable = unity.compile(parse('@R.function\ndef main(x: R.Tensor((3,), "float32")):\n    return x\n'))
    for use in (executable.save, unity.load):
        with pytest.raises(unity.UnityError) as caught:
            use(path)
        assert caught.value.code == "E801"


def test_saving_replaces_files_alone(tmp_path):
    """A device is no file: renamed over, it would be gone."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / ("x" * 250), tmp_path):
        with pytest.raises(ArtifactError) as caught:
            program().save(path)
        assert caught.value.code == "E801"
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"] and (tmp_path / "pipe").is_fifo()


def test_threads_save_one_file_at_the_same_time(tmp_path):
    """Each writes a file of its own and puts it in place: a shared one would be cut while another thread writes to its pages."""
    built = unity.compile(parse('@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return R.add(x, x)\n'))
    path, wrong = tmp_path / "shared.unity", []

    def work():
        for _ in range(10):
            try:
                built.save(path)
                assert unity.load(path)["main"](np.ones(2, "float32")).numpy().sum() == 4
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and [p.name for p in tmp_path.iterdir()] == ["shared.unity"]
