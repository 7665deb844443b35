"""Workers survive what they run: a crash, a hang, a wrong result costs one candidate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import candidates_of_tests as calls
import numpy as np
import pytest
from programs_of_tests import add_one

from unity import meta_schedule as ms
from unity.ir.function import PrimFunc
from unity.meta_schedule.builder import BuilderInput, LocalBuilder
from unity.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerInput
from unity.meta_schedule.workers.jobs import TaskData, Turns
from unity.meta_schedule.workers.pool import LocalWorkers, WorkerError
from unity.script import tir as T
from unity.transform.default_schedule.packing import Packing

QUICK = EvaluatorConfig(repeat=2, min_repeat_ms=0.2)


@T.prim_func
def add_two(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for i, j in T.grid(8, 16):
        with T.block("add"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = A[x, y] + T.float32(2)


@T.prim_func
def crashing(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for i, j in T.grid(8, 16):
        with T.block("add"):
            x, y = T.axis.remap("SS", [i, j])
            T.evaluate(T.call_extern("int32", "abort"))
            B[x, y] = A[x, y] + T.float32(2)


@T.prim_func
def endless(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    T.func_attr({"tir.is_scheduled": True})
    B[0, 0] = A[0, 0]
    for i in T.serial(1 << 40):
        B[0, i % 16] = B[0, (i * i + 1) % 16] * A[0, i % 16]


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalWorkers]:
    made = LocalWorkers(2, timeout_sec=20)
    made.submit(calls.double, 1).result()
    yield made
    made.shutdown()


def test_processes_stay_and_are_replaced(workers: LocalWorkers) -> None:
    assert [f.result() for f in [workers.submit(calls.double, n) for n in range(5)]] == [0, 2, 4, 6, 8]
    one = LocalWorkers(1, timeout_sec=20)
    first = one.submit(calls.process).result()
    assert one.submit(calls.process).result() == first != os.getpid()
    with pytest.raises(WorkerError, match="its process died"):
        one.submit(calls.crash).result()
    assert one.submit(calls.process).result() != first
    one.timeout_sec = 0.3
    start = time.perf_counter()
    with pytest.raises(WorkerError, match=r"more than 0\.3 s"):
        one.submit(calls.hang).result()
    assert time.perf_counter() - start < 5
    one.timeout_sec = 20
    for call, text in (
        (calls.fail, "ValueError: by itself"),
        (calls.eat, "more memory"),
        (calls.unsendable, "cannot be sent"),
    ):
        with pytest.raises(WorkerError, match=text):
            one.submit(call).result()
    assert one.submit(calls.double, 4).result() == 8
    one.shutdown()


def test_many_threads_ask(workers: LocalWorkers) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(workers.submit(calls.double, n).result())) for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [2 * n for n in range(16)]


PARENT = """
import sys, time
sys.path.insert(0, {folder!r})
import candidates_of_tests as calls
from unity.meta_schedule.workers.pool import LocalWorkers
workers = LocalWorkers(1)
print(workers.submit(calls.process).result(), flush=True)
workers.submit(calls.hang)
time.sleep(60)
"""


def test_workers_end_with_the_process_that_has_them() -> None:
    script = PARENT.format(folder=str(Path(__file__).parent))
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    os.kill(worker, 0)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("a worker of a dead process lives")


# ---- building and running


def build(workers: LocalWorkers | ThreadPoolExecutor, *programs: PrimFunc) -> list[ms.builder.BuilderResult]:
    BUILDERS.append(LocalBuilder(executor=workers))
    return BUILDERS[-1].build([BuilderInput(program, "llvm") for program in programs])


BUILDERS: list[LocalBuilder] = []
"""Kept: their files go with them."""


def inputs(paths: list[str | None]) -> list[RunnerInput]:
    info = ms.TensorInfo.from_prim_func(add_one)
    first = RunnerInput(paths[0] or "", "cpu", info)
    return [RunnerInput(path or "", "cpu", info, {}, first) for path in paths]


def test_a_bad_candidate_costs_itself_alone(workers: LocalWorkers) -> None:
    built = build(workers, add_one, add_two, crashing, add_one, endless)
    assert [result.error_msg for result in built] == [None] * 5
    runner = LocalRunner(timeout_sec=3, evaluator_config=QUICK, executor=LocalWorkers(1, 3))
    futures = runner.run(inputs([result.artifact_path for result in built]))
    assert futures[0].result().run_secs and not futures[-1].done(), "a result is known before the next are measured"
    found = [future.result() for future in futures]
    runner.close()
    good, wrong, crashed, again, hung = found
    assert good.run_secs and again.run_secs and again.reference_secs and len(again.reference_secs) == 2
    assert wrong.run_secs is None and "differs from the default's" in (wrong.error_msg or "")
    assert crashed.run_secs is None and "its process died" in (crashed.error_msg or "")
    assert hung.run_secs is None and "more than 3 s" in (hung.error_msg or "")


def test_any_executor_will_do() -> None:
    with ThreadPoolExecutor(1) as threads:
        built = build(threads, add_one, add_one)
        runner = LocalRunner(evaluator_config=QUICK, executor=threads)
        assert all([f.result().run_secs for f in runner.run(inputs([b.artifact_path for b in built]))])
        slow = LocalBuilder(executor=threads, timeout_sec=0.2)
        release = threading.Event()
        blocked = threads.submit(release.wait)
        assert "more than 0.2 s" in str(ms.builder.wait_for(blocked, 0.2))
        release.set()
        assert slow.build([BuilderInput(add_one, "llvm")])[0].artifact_path


def test_what_cannot_be_built_says_so(workers: LocalWorkers) -> None:
    (result,) = build(workers, add_one.with_attr("target", "nothing"))
    assert result.artifact_path is None and "E531" in (result.error_msg or "")


def test_packed_arguments_and_integers_inside_every_axis() -> None:
    data = TaskData([("float32", (4, 8)), ("int64", (3,)), ("bfloat16", (2, 2)), ("bool", (5,))])
    assert data.arrays[1].max() < 2 and data.arrays[3].dtype == bool
    layout = Packing((), 1, (0,), 4)
    plain, packed = data.arguments({}), data.arguments(data.packed([(0, layout)]))
    assert packed[0].shape == (2, 4, 4) and (packed[0].numpy() == layout.pack(data.arrays[0])).all()
    plain[2].numpy()[...] = 3
    assert data.judge(plain, {}) == "" and list(data.results or {}) == [2]
    again = data.arguments({})
    assert "parameter 2 differs" in data.judge(again, {})
    again[2].numpy()[...] = 3.0625
    assert data.judge(again, {}) == "" and Turns().repeat > 1 and np.isfinite(data.arrays[0]).all()
