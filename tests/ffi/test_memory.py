"""The allocator of results, arenas and temporaries: blocks come back, are never shared, stay bounded, and survive everything."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import unity
from unity.ffi.native.memory_ir import MIN_POOLED
from unity.ffi.native.native_helpers import (
    allocator_symbols,
    helper_engine,
    recycled_bytes,
    release_recycled,
)
from unity.script import parse
from unity.support.errors import VMError

TEXT = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        y = R.add(x, x)
        R.output(y)
    return y
"""


def function(name, result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)(helper_engine().address(name))


ALLOC = function("unity_memory_alloc", ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
FREE = function("unity_memory_free", None, ctypes.c_void_p)
REALLOC = function("unity_memory_realloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


@pytest.fixture(autouse=True)
def empty():
    release_recycled()
    assert recycled_bytes() == 0
    yield
    release_recycled()


@pytest.fixture(scope="module")
def double():
    return unity.VirtualMachine(unity.compile(parse(TEXT)))["main"]


@pytest.mark.parametrize("count", [20_000, 300_000, 3_000_000])
def test_a_dropped_result_is_the_memory_of_the_next(double, count):
    x = np.ones(count, "float32")
    first = double(x)
    place = first.data_ptr
    assert place % 64 == 0
    second = double(x * 2)
    assert second.data_ptr != place
    np.testing.assert_array_equal(first.numpy(), x * 2)
    view = first.numpy()[5:]
    del first
    third = double(x)
    assert third.data_ptr != place and view[0] == 2  # still seen by a view
    del view
    assert double(x).data_ptr == place
    np.testing.assert_array_equal(second.numpy(), x * 4)


def test_small_blocks_and_other_sizes_are_not_kept_for_each_other(double):
    double(np.ones(MIN_POOLED // 4 - 16, "float32"))
    assert recycled_bytes() == 0
    place = double(np.ones(200_000, "float32")).data_ptr
    assert recycled_bytes() == 800_000
    for count in (90_000, 210_000):  # less than half, more than all
        held = double(np.ones(count, "float32"))
        assert held.data_ptr != place
    assert double(np.ones(150_000, "float32")).data_ptr == place


def test_what_waits_is_bounded(double):
    limit = 256 << 20
    for count in range(100_000, 8_000_000, 150_000):
        double(np.broadcast_to(np.float32(1), (1,)).repeat(count))
        assert recycled_bytes() <= limit
    assert recycled_bytes() > limit // 4
    block = ALLOC(64, limit + 64)
    before = recycled_bytes()
    FREE(block)
    assert recycled_bytes() == before


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, 5_000_000])
@pytest.mark.parametrize("align", [16, 64, 256, 4096])
def test_alignment(size, align):
    blocks = [ALLOC(align, size) for _ in range(5)]
    for block in blocks:
        assert block % max(align, 64) == 0
        ctypes.memset(block, 7, size)
    for block in blocks:
        FREE(block)
    again = ALLOC(align, size)
    assert again % max(align, 64) == 0
    FREE(again)


def test_impossible_sizes_and_foreign_memory():
    assert ALLOC(64, 1 << 62) is None and ALLOC(64, (1 << 64) - 1) is None and ALLOC(64, 1 << 46) is None
    FREE(None)
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    for _ in range(100):
        FREE(library.malloc(100_000))  # memory of malloc goes back to free
    assert recycled_bytes() == 0


def test_resizing_keeps_the_bytes(double):
    data = bytes(range(250)) * 400
    block = ALLOC(64, len(data))
    ctypes.memmove(block, data, len(data))
    for size in (200_000, 3_000_000, 50_000, 100):
        block = REALLOC(block, size)
        kept = min(size, 50_000, len(data))
        assert ctypes.string_at(block, kept) == data[:kept]
    FREE(block)
    result = double(np.arange(100_000, dtype="float32")).numpy()
    result.resize(150_000, refcheck=False)
    np.testing.assert_array_equal(result, np.concatenate([np.arange(100_000) * 2, np.zeros(50_000)]))


def test_threads_never_share_a_block(double):
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        held = []
        for turn in range(150):
            value = number * 1000 + turn
            count = int(rng.integers(16_000, 60_000))
            held.append((double(np.full(count, value, "float32")), value))
            if len(held) > 5:
                result, expected = held.pop(int(rng.integers(len(held))))
                if not (result.numpy() == 2 * expected).all():
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arenas_and_temporaries_of_kernels_use_it():
    text = """
@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer((300000,), "float32"), B: T.Buffer((300000,), "float32")):
        C = T.alloc_buffer((300000,), "float32")
        for i, j in T.grid(300000, 2):
            with T.block("c"):
                v, r = T.axis.remap("SR", [i, j])
                with T.init():
                    C[v] = T.float32(1)
                C[v] = C[v] + A[v]
        for i in range(300000):
            with T.block("b"):
                v = T.axis.spatial(300000, i)
                B[v] = C[299999 - v] + C[v]
"""
    executable = unity.compile(parse(text))
    vm = unity.VirtualMachine(executable)
    given, result = np.arange(300_000, dtype="float32"), np.zeros(300_000, "float32")
    before = recycled_bytes()
    vm["f"](given, result)
    np.testing.assert_array_equal(result, np.full(300_000, 600_000))
    assert 1_200_000 <= recycled_bytes() - before < 1_201_000
    assert set(allocator_symbols()) == {"aligned_alloc", "free"}


def test_nothing_is_kept_on_request():
    program = f"""
import numpy as np, unity
from unity.ffi.native.native_helpers import recycled_bytes
from unity.script import parse
from unity.support.errors import VMError
run = unity.VirtualMachine(unity.compile(parse('''{TEXT}''')))["main"]
for count in (10, 100_000, 3_000_000):
    assert (run(np.ones(count, "float32")).numpy() == 2).all()
print(recycled_bytes())
"""
    environment = os.environ | {"UNITY_RECYCLE_BYTES": "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_calls_do_not_grow_the_process(double):
    def refused(value):
        with contextlib.suppress(VMError):
            double(value)

    plain, strange = np.ones(300, "float32"), np.ones((2, 2), "float32")
    tensors = [torch.ones(number % 97 + 1) for number in range(200)]
    arrays = [np.ones(number * 37 % 20_000 + 1, "float32") for number in range(200)]
    for call, count in (
        (lambda _: double(plain), 50_000),
        (lambda turn: double(tensors[turn % 200]), 30_000),
        (lambda turn: double(arrays[turn % 200]), 20_000),
        (lambda turn: torch.from_dlpack(double(tensors[turn % 200])), 10_000),
        (lambda _: refused(strange), 2_000),
    ):
        for turn in range(500):
            call(turn)
        gc.collect()
        before = resident()
        for turn in range(count):
            call(turn)
        gc.collect()
        assert resident() - before < 2 << 20
