"""Inputs on the edge: subnormal numbers, odd addresses, sizes past 2**31 and 2**63, tensors that torch keeps negated, interrupts."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unity
from unity.script import parse
from unity.support.errors import VMError

MODES = ("native", "bytecode")


def machine(body, params, mode="native", head="", result="y"):
    text = f"@R.function\ndef main({params}):\n    {head}\n    with R.dataflow():\n        {body}\n        R.output({result})\n"
    return unity.VirtualMachine(unity.compile(parse(text + f"    return {result}\n")), exec_mode=mode)["main"]


@pytest.mark.parametrize(
    "dtype, values",
    [("float64", [5e-324, 1e-310, -1e-320]), ("float32", [1e-45, 1e-40, -1e-42]), ("float16", [6e-8, -3e-7])],
)
def test_subnormal_numbers_are_kept(dtype, values):
    x = np.array(values * 20, dtype)
    params = f'x: R.Tensor(("n",), "{dtype}")'
    np.testing.assert_array_equal(machine("y = R.add(x, x)", params)(x).numpy(), x + x)
    np.testing.assert_array_equal(machine("y = R.abs(x)", params)(x).numpy(), np.abs(x))
    np.testing.assert_array_equal(machine("y = R.expm1(x)", params)(x).numpy(), x)
    np.testing.assert_array_equal(machine("y = R.max(x)", params)(x).numpy(), x.max())


@pytest.mark.parametrize("mode", MODES)
def test_odd_addresses(mode):
    double = machine("y = R.add(x, x)", 'x: R.Tensor(("n",), "float32")', mode)
    memory, values = np.zeros(4064, np.uint8), np.arange(1000, dtype="float32")
    for offset in range(16):
        x = memory[offset : offset + 4000].view("float32")
        x[:] = values
        if offset % 4:
            with pytest.raises(VMError) as caught:
                double(x)
            assert caught.value.code == "E611"
        else:
            np.testing.assert_array_equal(double(x).numpy(), values * 2)
    whole = torch.arange(1003, dtype=torch.float32)
    for offset in range(4):
        np.testing.assert_array_equal(double(whole[offset:]).numpy(), np.arange(offset, 1003) * 2)


@pytest.mark.parametrize("mode", MODES)
def test_negated_tensors_are_no_plain_memory(mode):
    for values, shape in ((1 + 2j, "()"), ([1 + 2j], '("n",)'), ([[1 + 2j]], '("n", "m")')):
        run = machine("y = R.add(x, x)", f'x: R.Tensor({shape}, "float32")', mode)
        x = torch.tensor(values).conj().imag
        with pytest.raises(VMError) as caught:
            run(x)
        assert caught.value.code == "E603"
        np.testing.assert_array_equal(run(x.resolve_neg().contiguous()).numpy(), np.full(x.shape, -4))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "shape", [(1 << 31, 1 << 31), (1 << 32, 1 << 32), (1 << 62, 4), (3037000500, 3037000500), (-5, -5), (1 << 46, 1)]
)
def test_sizes_past_the_integers_are_errors(shape, mode):
    body = 'a = R.zeros(R.shape([n, m]), "float32")\n        b = R.reshape(R.exp(a), R.shape([n * m]))\n        y = R.sum(b)'
    run = machine(body, 's: R.Shape(["n", "m"])', mode, head="n, m = T.int64(), T.int64()")
    with pytest.raises(VMError) as caught:
        run(shape)
    assert caught.value.code == "E615"
    assert run((2, 3)).numpy() == 6 and run((0, 1 << 40)).numpy() == 0


@pytest.mark.parametrize("mode", MODES)
def test_empty_tensors_with_huge_other_extents(mode):
    run = machine(
        'y = R.zeros(R.shape([n, m]), "float32")', 's: R.Shape(["n", "m"])', mode, head="n, m = T.int64(), T.int64()"
    )
    assert run((0, 1 << 60)).shape == (0, 1 << 60)
    for shape in ((0, 1 << 62), (1 << 62, 0)):  # numpy has no such array
        with pytest.raises(VMError) as caught:
            run(shape)
        assert caught.value.code == "E615"


STRIDED = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n, m, s = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32", strides=(s, 2))
    B = T.match_buffer(b, (n, m), "float32", strides=(8, 1))
    C = T.match_buffer(c, (n, m), "float32")
    for i, j in T.grid(n, m):
        C[i, j] = A[i, j] + B[i, j]
"""


@pytest.mark.parametrize("mode", MODES)
def test_strides_of_empty_and_single_axes_mean_nothing(mode):
    run = unity.VirtualMachine(unity.compile(parse(STRIDED)), exec_mode=mode)["main"]
    base = np.arange(64, dtype="float32").reshape(8, 8)
    for rows in (0, 1, 3):
        for columns in (0, 1, 4):
            for a in (
                base[:rows, : 2 * columns : 2],
                np.asfortranarray(base[:rows, : 2 * columns : 2]),
                base[::-1][:rows, : 2 * columns : 2],
            ):
                steps = a.strides[0] // 4, a.strides[1] // 4
                b, c = base[:rows, :columns], np.zeros((rows, columns), "float32")
                if rows and columns > 1 and steps[1] != 2:
                    with pytest.raises(VMError, match="E60"):
                        run(a, b, c)
                    continue
                run(a, b, c)
                np.testing.assert_array_equal(c, a + b)
            given = [np.zeros((rows, columns), "float32") for _ in range(3)]  # numpy gives empty arrays strides of 0
            if not rows * columns:
                run(*given)


def available_bytes():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024


@pytest.mark.skipif(available_bytes() < 6 << 30, reason="needs 2.2 GB of memory")
def test_indices_past_two_to_the_31():
    count = (1 << 31) + 17
    x = np.zeros(count, "int8")  # pages that are only read stay the zero page
    x[7], x[1 << 31], x[-1] = 2, 3, 5
    params = 'x: R.Tensor(("n",), "int8")'
    assert machine("y = R.argmax(x)", params)(x).numpy() == count - 1
    taken = machine("y = R.take(x, i, axis=0)", params + ', i: R.Tensor(("k",), "int64")')
    np.testing.assert_array_equal(taken(x, np.array([7, count - 1, 1 << 31, 0])).numpy(), [2, 5, 3, 0])
    sliced = machine("y = R.strided_slice(x, [0], [2147483640], [2147483665])", params)(x).numpy()
    np.testing.assert_array_equal(sliced, x[2147483640:])
    rows = machine("y = R.max(x, axis=[1])", 'x: R.Tensor(("n", "m"), "int8")')(x[: 1 << 31].reshape(65536, 32768))
    assert rows.numpy()[0] == 2 and not rows.numpy()[1:].any()


INTERRUPTED = """
import _thread, signal, sys, threading, time
import numpy as np
import unity
from unity.ffi.targets.llvm_binding import LLVM_LOCK
from unity.script import parse

def text(number):
    lines = "".join([f"        y{i} = R.exp(R.matmul(y{i - 1}, R.add(w, R.const({number}.0, 'float32'))))\\n" for i in range(1, 5)])
    head = '@R.function\\ndef main(y0: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):\\n    with R.dataflow():\\n'
    return head + lines.replace("'", '"') + "        R.output(y4)\\n    return y4\\n"

def build(number):
    return unity.VirtualMachine(unity.compile(parse(text(number))))["main"]

start = time.perf_counter()
build(0)
whole, limit = time.perf_counter() - start, sys.getrecursionlimit()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with interrupts ignored
signal.signal(signal.SIGALRM, lambda *_: _thread.interrupt_main())
interrupted = 0
for turn in range(1, 7):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3 * whole * turn / 6)
        build(turn)
        time.sleep(60 + whole)  # for an alarm that the build was faster than
    except KeyboardInterrupt:
        interrupted += 1
x = np.zeros((2, 8), "float32")
assert LLVM_LOCK.acquire(blocking=False) and sys.getrecursionlimit() == limit and threading.active_count() == 1
good = [bool(np.isfinite(build(turn)(x, x[:1] * np.ones((8, 1), "float32") - turn).numpy()).all()) for turn in (1, 6)]
print(interrupted, good)
"""


def test_interrupts_of_a_build(tmp_path, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=900)
    assert (done.returncode, done.stdout) == (0, "6 [True, True]\n"), done.stderr
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("mode", MODES)
def test_functions_that_leave_by_other_exceptions(mode):
    text = """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    y = R.add(x, x)
    z = R.call_packed("test.leave", y, ty_args=R.Tensor(("n",), "float32"))
    return z
"""
    run = unity.VirtualMachine(unity.compile(parse(text)), exec_mode=mode)["main"]
    x = np.ones(3, "float32")

    def removes_itself(tensor):
        unity.remove_global_func("test.leave")
        return tensor

    for kind in (KeyboardInterrupt, SystemExit, MemoryError):

        def leaves(tensor, kind=kind):
            raise kind("left")

        unity.register_func("test.leave", leaves, override=True)
        with pytest.raises(kind, match="left"):
            run(x)
    unity.register_func("test.leave", lambda tensor: run(tensor), override=True)
    with pytest.raises((RecursionError, VMError)):
        run(x)
    unity.register_func("test.leave", removes_itself, override=True)
    np.testing.assert_array_equal(run(x).numpy(), x * 2)
    with pytest.raises(VMError) as caught:
        run(x)
    assert caught.value.code == "E630"
