"""Programs of a device: decisions of their rules, candidates ranked without it, a queue that a machine with the device works off."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs_of_tests import product

import unity
from unity import meta_schedule as ms, te
from unity.cli.main import main
from unity.ir.function import PrimFunc
from unity.meta_schedule.builder import LocalBuilder
from unity.meta_schedule.cost_model.traffic import TrafficModel, traffic_of
from unity.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerFuture, RunnerInput, RunnerResult
from unity.meta_schedule.space.sketch import choices_in
from unity.script import parse
from unity.support.errors import ScheduleError

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
from device_choice import device_or_emulated


def half_product(n: int, k: int, m: int) -> PrimFunc:
    a, b = te.placeholder((n, k), "float16", "a"), te.placeholder((k, m), "float16", "b")
    r = te.reduce_axis((0, k), "r")
    wide = lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), r)  # noqa: E731
    return te.create_prim_func([a, b, te.compute((n, m), wide, "c")])


def cells(n: int, m: int) -> PrimFunc:
    a = te.placeholder((n, m), "float32", "a")
    return te.create_prim_func([a, te.compute((n, m), lambda i, j: a[i, j] * 2.0 + 1.0, "c")])


PROGRAMS = {
    "product": (product(40, 36, 50), "cuda", {"rows", "columns", "steps"}),
    "halves": (half_product(40, 64, 72), "cuda", {"tensor_cores", "tile", "stages", "rows"}),
    "warpgroups": (half_product(72, 64, 136), "cuda -arch=sm_90a", {"tensor_cores", "tile"}),
    "cells": (cells(17, 33), "cuda", {"threads"}),
}


def candidates_of(name: str, count: int) -> tuple[ms.TuneContext, list[Any]]:
    program, target, _ = PROGRAMS[name]
    strategy = ms.search_strategy.create("replay-trace")
    context = ms.TuneContext(
        program, target=target, space_generator=ms.PostOrderApply(), search_strategy=strategy, rand_state=1
    )
    context.initialize()
    strategy.pre_tuning(count, count, context.generate_design_space())
    return context, strategy.generate_measure_candidates() or []


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_every_decision_of_a_device_rule_is_right(name: str) -> None:
    context, candidates = candidates_of(name, 4)
    with context.target:
        assert {choice for _, choice in choices_in(context)} >= PROGRAMS[name][2]
    assert len(candidates) == 4 and len({one.scheduled.reason for one in candidates}) > 1
    rng, expected = np.random.default_rng(0), None
    *inputs, output = candidates[0].args_info
    arrays = [rng.integers(-4, 5, info.shape).astype(info.dtype) for info in inputs]
    for one in candidates:
        made = np.zeros(output.shape, output.dtype)
        report = unity.check_gpu(one.lowered, *arrays, made, traffic=False)
        assert report.ok, report
        expected = made if expected is None else expected
        np.testing.assert_array_equal(made, expected)


COLUMN = """
@T.prim_func
def main(X: T.Buffer((64, 64), "float32"), Y: T.Buffer((64, 64), "float32")):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(32, thread="threadIdx.y"):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    S = T.alloc_buffer((32, WIDTH), "float32", scope="shared")
                    S[ty, tx] = X[by * 32 + ty, bx * 32 + tx]
                    T.tvm_storage_sync("shared")
                    Y[bx * 32 + ty, by * 32 + tx] = S[tx, ty]
"""


@pytest.mark.parametrize("width", [32, 33])
def test_traffic_is_that_of_the_checker(width: int) -> None:
    program = parse(COLUMN.replace("WIDTH", str(width)))
    x, y = np.ones((2, 64, 64), "float32")
    report = unity.check_gpu(program, x, y)
    found = traffic_of(program, {})
    assert found.shared == sum([site.transactions for site in report.sites if site.scope == "shared"])
    assert found.segments == sum([site.transactions for site in report.sites if site.scope == "global"])
    assert (found.blocks, found.threads, found.bytes) == (4, 1024, 32 * width * 4)


def test_ranks_say_what_is_plain() -> None:
    context, candidates = candidates_of("product", 6)
    scores = TrafficModel().predict(context, candidates)
    assert len(set(scores)) > 2 and np.isfinite(scores).all()


@pytest.mark.gpu
def test_a_queue_is_written_and_worked_off(tmp_path: Path, capsys: Any) -> None:
    queue, program = tmp_path / "queue.db", product(12, 9, 17)
    if not unity.cuda(0).exist:
        with pytest.raises(ScheduleError, match="no cuda device here"):
            ms.tune_tir(program, "cuda", tmp_path, 3)
    ms.tune_tir(program, "cuda", None, 3, queue=queue, seed=0)
    assert "3 candidates wait in queue.db" in capsys.readouterr().err
    (waiting,) = ms.MeasureQueue(queue).tasks()
    assert len(waiting.traces) == 3 and waiting.target.kind == unity.Target("cuda").kind
    with device_or_emulated("sm_80"), ThreadPoolExecutor(1) as threads:
        config = EvaluatorConfig(repeat=1, min_repeat_ms=0.001)
        parts: dict[str, Any] = {"builder": LocalBuilder(executor=threads)}
        parts["runner"] = LocalRunner(timeout_sec=300, executor=threads, evaluator_config=config)
        records = ms.work_off(queue, tmp_path / "records", **parts).get_all_tuning_records()
    assert [record.verdict for record in records].count("trial") == 4
    assert len([record for record in records if record.run_secs]) == len(records)
    assert len(ms.MeasureQueue(queue)) == 0 and ms.MeasureQueue(queue).tasks() == []


class Clock(ms.Runner):
    """The first candidate that is no default takes half of the default's time, others twice as long."""

    fast = b""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture(lambda: True, partial(self.one, given)) for given in runner_inputs]

    def one(self, given: RunnerInput) -> RunnerResult:
        code = Path(given.artifact_path).read_bytes()
        if given.artifact_path == (given.reference or given).artifact_path:
            return RunnerResult([1.0], None, [1.0])
        self.fast = self.fast or code
        return RunnerResult([0.5 if code == self.fast else 2.0], None, [1.0])


class Interrupt(ms.MeasureCallback):
    at_once, heard = True, 0

    def apply(self, *_: Any) -> None:
        self.heard += 1
        if self.heard == 3:
            raise KeyboardInterrupt


def test_a_queue_goes_on_after_an_interrupt(tmp_path: Path, capsys: Any) -> None:
    """What waits stays in the file, and the last verdict is about what was measured before as well."""
    queue, runner = tmp_path / "queue.db", Clock()
    ms.tune_tir(product(12, 9, 17), "llvm", None, 9, queue=queue, seed=0)
    parts: dict[str, Any] = {"runner": runner, "num_trials_per_iter": 2}
    stopped = [*ms.MeasureCallback.create("default"), Interrupt()]
    ms.work_off(queue, tmp_path, measure_callbacks=stopped, **parts)
    assert 9 > len(ms.MeasureQueue(queue)) > 5 and len(ms.MeasureQueue(queue).tasks()) == 1
    records = ms.work_off(queue, tmp_path, **parts).get_all_tuning_records()
    assert [record.verdict for record in records].count("trial") == 10, "the default and nine, none of them twice"
    assert ms.MeasureQueue(queue).tasks() == [] and records[-1].verdict == "kept"
    assert min(records[-1].run_secs or [1.0]) == 0.5


def test_commands(tmp_path: Path, capsys: Any) -> None:
    script, queue = tmp_path / "model.py", tmp_path / "queue.db"
    script.write_text(
        '@T.prim_func\ndef main(X: T.Buffer((64, 64), "float32"), Y: T.Buffer((64, 64), "float32")):\n'
        '    for i, j in T.grid(64, 64):\n        with T.block("y"):\n            vi, vj = T.axis.remap("SS", [i, j])\n'
        "            Y[vi, vj] = X[vj, vi] + T.float32(1)\n"
    )
    command = ["tune", str(script), "--target", "cuda", "--trials", "2", "--work-dir", str(tmp_path / "records")]
    assert main([*command, "--queue", str(queue)]) == 0
    assert "wait in queue.db" in capsys.readouterr().err
    if not unity.cuda(0).exist:
        assert main(["tune", "--work-off", str(queue), "--work-dir", str(tmp_path / "records")]) == 1
        assert "no cuda device here" in capsys.readouterr().err
    assert main(["tune"]) == 2 and main(["tune", str(script), "--work-off", str(queue)]) == 2
    other = tmp_path / "other.db"
    other.write_text("no queue")
    assert main(["tune", "--work-off", str(other)]) == 1
