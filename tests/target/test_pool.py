"""The thread pool: every element exactly once, whatever the sizes, callers, forks and errors."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.pool import (
    PARALLEL_FOR,
    ChunkFunction,
    ParallelFor,
    ensure_pool,
    num_threads,
    pool_ir,
    pool_symbols,
)
from unity.support.errors import FFIError

KERNELS = """
declare i32 @unity_parallel_for(ptr, ptr, i64, i64)

; context: i64 array; adds 1 to each element of the range
define i32 @count(ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %ctx, i64 %i
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit
exit:
  ret i32 0
}

; each element of the outer range counts its own row of 16 with a nested region
define i32 @nested(ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, 16
  %row = getelementptr i64, ptr %ctx, i64 %offset
  %status = call i32 @unity_parallel_for(ptr @count, ptr %row, i64 16, i64 4)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit
exit:
  ret i32 %status
}

; many regions over one array
define i32 @many(ptr %ctx, i64 %total, i64 %chunk, i64 %regions) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %status = call i32 @unity_parallel_for(ptr @count, ptr %ctx, i64 %total, i64 %chunk)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %regions
  br i1 %more, label %loop, label %exit
exit:
  ret i32 %status
}
"""


class Kernels:
    """The compiled test kernels and the pool's entry."""

    def __init__(self) -> None:
        self.engine = Engine(symbols=pool_symbols()).add_ir(KERNELS)
        self.parallel_for = ParallelFor(ensure_pool(4))
        many = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self.many = many(self.engine.address("many"))

    def count(self, array: np.ndarray, chunk: int, kernel: str = "count", total: int | None = None) -> int:
        """Run a kernel over the array."""
        return self.parallel_for(
            self.engine.address(kernel), array.ctypes.data, array.size if total is None else total, chunk
        )


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels()


@pytest.mark.parametrize("chunk", [-1, 0, 1, 2, 3, 7, 64, 1000, 2**40])
def test_each_element_exactly_once(kernels: Kernels, chunk: int) -> None:
    for total in (0, 1, 2, 3, 5, 8, 63, 64, 65, 1000, 4097):
        array = np.zeros(total + 1, np.int64)
        assert kernels.count(array, chunk, total=total) == 0
        assert (array[:total] == 1).all()
        assert array[total] == 0


def test_negative_total_does_nothing(kernels: Kernels) -> None:
    array = np.zeros(4, np.int64)
    assert kernels.count(array, 1, total=-3) == 0
    assert not array.any()


@pytest.mark.parametrize("total", [4094, 4095, 4096, 8190, 8191, 2**24 + 5])
def test_more_chunks_than_a_region_has(kernels: Kernels, total: int) -> None:
    array = np.zeros(total, np.int64)
    assert kernels.count(array, 1) == 0
    assert (array == 1).all()


def test_nested_regions(kernels: Kernels) -> None:
    array = np.zeros(100 * 16, np.int64)
    for _ in range(50):
        assert kernels.count(array, 3, "nested", total=100) == 0
    assert (array == 50).all()


@pytest.mark.parametrize("threads", [1, 2, 4, 9])
def test_stress(kernels: Kernels, threads: int) -> None:
    ensure_pool(threads)
    assert num_threads() == threads
    regions = 100_000
    array = np.zeros(64, np.int64)
    assert kernels.many(array.ctypes.data, 64, 8, regions) == 0
    assert (array == regions).all()
    ensure_pool(4)


def test_changing_the_thread_count_while_idle(kernels: Kernels) -> None:
    array = np.zeros(100, np.int64)
    for turn in range(60):
        ensure_pool(1 + turn % 5)
        assert kernels.count(array, 7) == 0
    assert (array == 60).all()
    ensure_pool(4)


def test_several_python_threads(kernels: Kernels) -> None:
    arrays = [np.zeros(256, np.int64) for _ in range(4)]

    def work(array: np.ndarray) -> None:
        for _ in range(20):
            kernels.many(array.ctypes.data, 256, 16, 100)

    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for array in arrays:
        assert (array == 2000).all()


def test_error_status_is_returned_and_stops_the_rest(kernels: Kernels) -> None:
    seen: list[int] = []

    def fails_at_seven(_ctx: int, begin: int, end: int) -> int:
        seen.append(begin)
        return 42 if begin <= 7 < end else 0

    function = ChunkFunction(fails_at_seven)
    address = ctypes.cast(function, ctypes.c_void_p)
    for total in (8, 100, 1000):
        assert kernels.parallel_for(address, None, total, 1) == 42
    assert kernels.parallel_for(address, None, 1000, 1000) == 42  # one piece, run by the caller
    assert kernels.parallel_for(address, None, 7, 1) == 0  # the next region starts clean
    first = ChunkFunction(lambda _ctx, _begin, _end: 5)
    seen.clear()
    assert kernels.parallel_for(ctypes.cast(first, ctypes.c_void_p), None, 1000, 1) == 5


def test_work_is_shared(kernels: Kernels) -> None:
    """Two chunks that wait for each other end only if two threads run them at once."""
    ensure_pool(2)
    barrier = threading.Barrier(2, timeout=120)

    def meet(_ctx: int, _begin: int, _end: int) -> int:
        barrier.wait()
        return 0

    function = ChunkFunction(meet)
    assert kernels.parallel_for(ctypes.cast(function, ctypes.c_void_p), None, 2, 1) == 0
    assert not barrier.broken
    ensure_pool(4)


def test_a_thread_takes_neighbouring_chunks(kernels: Kernels) -> None:
    ensure_pool(2)
    takers = [0] * 64

    def note(_ctx: int, begin: int, _end: int) -> int:
        takers[begin] = threading.get_ident()
        time.sleep(0.0005)
        return 0

    function = ChunkFunction(note)
    assert kernels.parallel_for(ctypes.cast(function, ctypes.c_void_p), None, 64, 1) == 0
    changes = sum([takers[k] != takers[k - 1] for k in range(1, 64)])
    assert (
        changes <= 8
    )  # where the parts meet, and where a thread that was done helped the other one; 32 were it by chance
    ensure_pool(4)


def test_others_do_what_a_delayed_thread_does_not_get_to(kernels: Kernels) -> None:
    """Either the first chunk of the caller's part or that of the worker's waits until all the others are done."""
    ensure_pool(2)
    for delayed in (0, 32):
        done: list[int] = []
        rest = threading.Event()

        def run(
            _ctx: int,
            begin: int,
            _end: int,
            done: list[int] = done,
            rest: threading.Event = rest,
            delayed: int = delayed,
        ) -> int:
            if begin == delayed:
                return 0 if rest.wait(timeout=120) else 1
            done.append(begin)
            if len(done) == 63:
                rest.set()
            return 0

        function = ChunkFunction(run)
        assert kernels.parallel_for(ctypes.cast(function, ctypes.c_void_p), None, 64, 1) == 0
        assert len(set(done)) == 63
    ensure_pool(4)


def test_fork(kernels: Kernels) -> None:
    array = np.zeros(1000, np.int64)
    assert kernels.count(array, 10) == 0
    child = os.fork()
    if child == 0:  # only plain work and _exit in the child
        good = all(kernels.count(array, 10) == 0 for _ in range(200)) and bool((array == 201).all())
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert kernels.count(array, 10) == 0
    assert (array == 2).all()


def test_the_process_ends_while_workers_spin() -> None:
    program = (
        "import numpy, ctypes\n"
        "from unity.ffi.native.pool import *\n"
        "f = ChunkFunction(lambda c, b, e: 0)\n"
        "call = ParallelFor(ensure_pool(4))\n"
        "print(call(ctypes.cast(f, ctypes.c_void_p), None, 100, 1))\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_idle_workers_sleep(kernels: Kernels) -> None:
    array = np.zeros(100, np.int64)
    assert kernels.count(array, 1) == 0
    spent = []
    for _ in range(20):  # how soon they go to sleep is the machine's affair
        before = time.process_time()
        time.sleep(0.1)
        spent.append(time.process_time() - before)
        if spent[-1] < 0.02:
            break
    assert spent[-1] < 0.02, spent
    assert kernels.count(array, 1) == 0  # and wake again
    assert (array == 2).all()


def test_fork_while_other_threads_use_the_pool(kernels: Kernels) -> None:
    array = np.zeros(512, np.int64)
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set():
            kernels.many(array.ctypes.data, 512, 16, 50)

    thread = threading.Thread(target=work)
    thread.start()
    statuses = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            own = np.zeros(100, np.int64)
            good = kernels.count(own, 3) == 0 and bool((own == 1).all())
            os._exit(0 if good else 1)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finished.set()
    thread.join()
    assert statuses == [0] * 10
    assert (array == array[0]).all()


def test_bad_thread_counts() -> None:
    for count in (0, -1, 257):
        with pytest.raises(FFIError) as caught:
            ensure_pool(count)
        assert caught.value.code == "E731"


def test_the_text_has_no_open_placeholders() -> None:
    text = pool_ir()
    assert f"define i32 @{PARALLEL_FOR}" in text
    assert not re.findall("@[A-Z_]+@", text)
