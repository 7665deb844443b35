"""Saved programs load and run in a process that has no llvmlite and no cache; what is compiled there says what is missing."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unity
from unity.ffi.cache.object_cache import cache_folder
from unity.ffi.machine_code import objects
from unity.ffi.machine_code.llvm import CompileOptions
from unity.ffi.machine_code.objects import bring_objects, code_name, own_object, pack_objects
from unity.ffi.native.checksum import checksum, piece_sums
from unity.ffi.targets.processor import host_features, host_processor, host_triple, other_machine, system_features
from unity.script import parse
from unity.support.errors import FFIError

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "lark"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import numpy as np
import unity
"""
"""The beginning of such a process."""

GRAPHS = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 300), "float32"), w: R.Tensor((300, 1000), "float32"), s: R.Shape(["k"])):
        y = R.nn.relu(R.matmul(x, w))
        return y, R.sum(y, axis=0), R.full((k,), R.const(3, "int32"), "int32")

    @R.function
    def choose(x: R.Tensor(("n",), "float32"), flag: R.Tensor((), "bool")):
        if flag:
            y = R.exp(x)
        else:
            y = R.negative(x)
        return y
"""
KERNEL = """
@T.prim_func
def twice(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in T.parallel(n):
        with T.block("b"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * 2.0
"""
RUN = """
folder = sys.argv[1]
given = np.load(f"{folder}/given.npz")
for mode in ("native", "bytecode"):
    vm = unity.VirtualMachine(unity.load(f"{folder}/graphs.unity"), exec_mode=mode)
    y, total, threes = vm["main"](given["x"], (7,))
    assert (y.numpy() == given["y"]).all() and (total.numpy() == given["total"]).all(), mode
    assert (threes.numpy() == [3] * 7).all()
    v = given["total"][:5] / 100
    assert np.allclose(vm["choose"](v, np.array(True)).numpy(), np.exp(v))
    assert (vm["choose"](v, np.array(False)).numpy() == -v).all()
    b = np.zeros(3, np.float32)
    unity.VirtualMachine(unity.load(f"{folder}/kernel.unity"), exec_mode=mode)["twice"](given["x"][0, :3].copy(), b)
    assert (b == given["x"][0, :3] * 2).all()
for wrong in (lambda: vm["main"](given["x"][:, :299], (7,)), lambda: vm["main"](1, 2)):
    try:
        wrong()
    except unity.UnityError as error:
        assert error.code.startswith("E60"), error
    else:
        raise SystemExit("no error")
again = unity.load(f"{folder}/graphs.unity")
by_name, out = unity.VirtualMachine(again), tuple(np.zeros_like(given[name]) for name in ("y", "total"))
y, total, threes = by_name["main"](given["x"], (7,), out=(*out, None))
assert y is out[0] and (y == given["y"]).all() and (out[1] == given["total"]).all()
kernel = by_name[next(name for name in again.program.kernels if "negative" in name)]
kernel(v, result := v.copy())
assert (result == -v).all()
try:
    kernel(1)
except unity.UnityError as error:
    assert error.code.startswith("E60"), error
else:
    raise SystemExit("no error")
again.save(f"{folder}/again.unity")
assert open(f"{folder}/again.unity", "rb").read() == open(f"{folder}/graphs.unity", "rb").read()
compiled = (
    lambda: unity.load(f"{folder}/graphs.unity", trust=False),
    lambda: unity.ffi.machine_code.llvm.compile_ir("define void @f() {\\n  ret void\\n}\\n"),
)
for needs in compiled:
    try:
        needs()
    except unity.UnityError as error:
        assert error.code in ("E002", "E804") and any(p in str(error) for p in ("llvmlite", "lark")), error
    else:
        raise SystemExit("no error")
assert not [name for name in sys.modules if name.startswith("llvmlite")]
"""


FOUND = """
mod = unity.script.parse('@R.function\\ndef main(x: R.Tensor(("n",), "float32")):\\n    return R.exp(x)\\n')
assert np.allclose(unity.compile(mod)["main"](np.ones(4, "float32")).numpy(), np.e)
"""


def in_a_process(text: str, *args: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + text, *map(str, args)], capture_output=True, text=True, timeout=120,
        env=os.environ | {"UNITY_CACHE": "off"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_programs_run(tmp_path: Path) -> None:
    """Graph functions with sizes known at run time, a constant of more than a piece of a checksum, a branch; a tensor program."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 300), dtype=np.float32), rng.standard_normal((300, 1000), dtype=np.float32)
    bound = unity.relax.transform.BindParams("main", {"w": w})(parse(GRAPHS))
    graphs = unity.compile(bound)
    graphs.save(tmp_path / "graphs.unity")
    unity.compile(parse(KERNEL)).save(tmp_path / "kernel.unity")
    y, total, _ = graphs["main"](x, (7,))
    np.savez(tmp_path / "given.npz", x=x, y=y.numpy(), total=total.numpy())
    in_a_process(RUN, tmp_path)


@pytest.mark.skipif(cache_folder() is None, reason="caching is off")
def test_what_is_found_again_needs_no_llvm() -> None:
    """A build that the cache remembers; ``llvmlite`` itself, asked for its version, is there."""
    text = f"""
import sys
sys.modules["llvmlite.binding"] = None
import numpy as np
import unity
{FOUND}"""
    exec(FOUND, {"unity": unity, "np": np})
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_system_says_what_llvm_says() -> None:
    known = {item[1:] for item in host_features().split(",")}
    assert system_features() & known <= host_processor().features
    assert platform.machine() != "x86_64" or sys.platform != "linux" or {"sse2", "cx8", "64bit"} <= system_features()
    assert not other_machine(host_triple()) and other_machine("riscv64-unknown-linux-gnu")


def test_small_memory_is_summed_alike() -> None:
    """By numpy, and by machine code with another piece behind it."""
    data = np.frombuffer(np.random.default_rng(1).bytes(2 << 20), np.uint8)
    sums = [piece_sums(data[: 1 << 20]), piece_sums(data[1 << 20 :])]
    assert (
        checksum(data)
        == hashlib.sha256((2 << 20).to_bytes(8, "little") + b"".join([s.tobytes() for s in sums])).digest()
    )


def test_damaged_code_is_an_error() -> None:
    data = pack_objects({"name": b"first", "other": b"second"})
    for cut in range(len(data)):
        with pytest.raises(FFIError, match=r"damaged|truncated"):
            bring_objects(data[:cut])
    with pytest.raises(FFIError, match=r"damaged|truncated"):
        bring_objects(pack_objects({"name": b"first"})[:-6] + b"......")


def test_what_was_brought_goes_with_its_program() -> None:
    mine, known = CompileOptions(), objects._BROUGHT
    name = code_name("text", mine)
    first, second = (bring_objects(pack_objects({name: data})) for data in (b"first", b"second"))
    assert own_object("text", mine) == b"first"
    del first
    assert own_object("text", mine) == b"first"  # the second program has what was known when it came
    del second
    gc.collect()
    assert name not in known
