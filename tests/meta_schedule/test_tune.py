"""Tuning from the entry points: what is kept is right and found by builds, interrupts and dead processes lose nothing."""

from __future__ import annotations

import io
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from fuzz import TIMES
from programs_of_tests import product

import unity
from unity import meta_schedule as ms, te
from unity.meta_schedule.builder import BuilderInput, BuilderResult, LocalBuilder
from unity.meta_schedule.curves import curves_of
from unity.meta_schedule.database import SQLiteDatabase
from unity.meta_schedule.report import Row, TuneProgress, table
from unity.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerFuture, RunnerInput, RunnerResult
from unity.meta_schedule.workers.pool import LocalWorkers
from unity.script import ir_module, parse, relax as R
from unity.support.errors import ScheduleError, UnityError

QUICK = EvaluatorConfig(repeat=2, min_repeat_ms=0.2)


@ir_module
class Model:
    @R.function
    def main(x: R.Tensor((5, 9), "float32"), w: R.Tensor((9, 9), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            z = R.nn.relu(R.matmul(y, w))
            out = R.nn.softmax(z)
            R.output(out)
        return out


class Clock(ms.Runner):
    """A runner that measures nothing: the default takes a second, others what the test says of their number."""

    threads: int | None = None

    def __init__(self, seconds: Any) -> None:
        self.seconds, self.count = seconds, 0

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture(lambda: False, partial(self.one, given)) for given in runner_inputs]

    def one(self, given: RunnerInput) -> RunnerResult:
        """A candidate is measured when its result is asked for."""
        if given.artifact_path == (given.reference or given).artifact_path:
            return RunnerResult([1.0], None, [1.0])
        self.count += 1
        secs = self.seconds(self.count)
        return RunnerResult(None, "it crashed") if secs is None else RunnerResult([secs], None, [1.0])


class Paper(ms.Builder):
    """A builder that builds nothing."""

    def __init__(self) -> None:
        self.count = 0

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        made = [BuilderResult(f"/nowhere/{self.count + place}") for place in range(len(build_inputs))]
        self.count += len(made)
        return made


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, Any]]:
    workers = LocalWorkers(1, 20, environment={"UNITY_CACHE": "off"})
    yield {"builder": LocalBuilder(executor=workers), "runner": LocalRunner(executor=workers, evaluator_config=QUICK)}
    workers.shutdown()


def tiles(sch: unity.Schedule) -> None:
    """A small space."""
    i, j, _ = sch.get_loops(sch.get_block("c"))
    for loop, extent in ((i, 7), (j, 13)):
        factor = sch.sample_categorical(list(range(1, extent + 1)), [1 / extent] * extent)
        sch.split(loop, [None, factor])


QUICKLY: dict[str, Any] = {
    "num_trials_per_iter": 4,
    "strategy": "replay-trace",
    "seed": 0,
    "database": "memory",
    "space": tiles,
}


def tune(program: Any, trials: int, **more: Any) -> ms.Database:
    return ms.tune_tir(program, "llvm", None, trials, **{**QUICKLY, **more})


def test_a_product_is_tuned_and_built(parts: dict[str, Any], capsys: Any, monkeypatch: Any) -> None:
    program = product(7, 9, 13)
    database = tune(program, 6, space="post-order-apply", **parts)
    said = capsys.readouterr().err
    assert "task" in said and "gain" in said and "main" in said and "all tasks" in said
    records = database.get_all_tuning_records()
    assert [r.verdict for r in records].count("trial") == 6 and records[-1].verdict in ("kept", "default")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, 9), "float32"), rng.standard_normal((9, 13), "float32")
    for record in records:
        made = record.program(record.workload.func)
        if made.packed:
            continue  # its weights are packed by the build
        out = np.zeros((7, 13), "float32")
        unity.build(made.func)["main"](a, b, out)
        np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-5)
    sch = ms.tir_integration.compile_tir(database, program, "llvm")
    assert sch is not None
    out = np.zeros((7, 13), "float32")
    unity.build(sch.mod)["main"](a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-5)
    best = database.query_tuning_record(program, "llvm")
    assert best is not None and "T.prim_func" in best.script()
    names: dict[str, Any] = {}
    exec(best.as_python(), names)
    names["apply_trace"](unity.Schedule(product()))


def test_the_fastest_is_kept_where_it_is_faster(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    for seconds, verdict, said in (
        (lambda n: 0.5, "kept", "2.00 times as fast"),
        (lambda n: 2.0, "default", "the default is as fast"),
        (lambda n: 0.99, "default", "the default is as fast"),
        (lambda n: 0.5 if n < 8 else 1.5, "default", "the default is as fast"),
    ):
        database = tune(product(), 8, builder=Paper(), runner=Clock(seconds))
        assert database.get_all_tuning_records()[-1].verdict == verdict
        capsys.readouterr()
        with database:
            unity.build(product(), "llvm")
        assert said in capsys.readouterr().err


def test_failures_are_written_down(capsys: Any) -> None:
    database = tune(product(), 8, builder=Paper(), runner=Clock(lambda n: None if n in (2, 4) else 0.5))
    failed = [r for r in database.get_all_tuning_records() if r.run_secs is None]
    assert failed and all([r.reason == "it crashed" and r.trace.insts for r in failed])
    assert f"{len(failed)} failed" in capsys.readouterr().err
    with pytest.raises(ScheduleError, match="no task could be tuned"):
        tune(product().with_attr("target", "nothing"), 4)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf"), "1.0"])
def test_what_is_no_time_is_a_failure(wrong: Any, capsys: Any) -> None:
    database = tune(product(), 8, builder=Paper(), runner=Clock(lambda n: wrong if n in (2, 4) else 0.5))
    records = database.get_all_tuning_records()
    assert [r.reason for r in records if r.run_secs is None] == [f"the runner gave {wrong!r} as a time"] * 2
    assert records[-1].verdict == "kept" and "2 failed" in capsys.readouterr().err


def broken(*_: Any, **__: Any) -> Any:
    """What all parts below do."""
    raise ZeroDivisionError("mine")


def part(kind: type, method: str, does: Any = broken, **more: Any) -> Any:
    """A part of a search with a method that does as it is told."""
    return type("Mine", (kind,), {method: does, **more})()


DRAWN = itertools.count()
IDLE = {"update": lambda *_: None, "predict": lambda _, __, some: [0.0] * len(some)}
BROKEN: dict[str, dict[str, Any]] = {
    "template": {"space": lambda sch: broken()},
    "rule": {"space": ms.PostOrderApply([part(ms.ScheduleRule, "apply")])},
    "postproc": {"space": ms.ScheduleFn(tiles, postprocs=[part(ms.Postproc, "apply")])},
    "model": {"cost_model": part(ms.CostModel, "predict", update=IDLE["update"]), "strategy": "evolutionary"},
    "drawn template": {"space": lambda sch: tiles(sch) if next(DRAWN) < 9 else broken(), "strategy": "replay-func"},
    "callback": {"measure_callbacks": [*ms.MeasureCallback.create("default"), part(ms.MeasureCallback, "apply")]},
    "callback at once": {
        "measure_callbacks": [*ms.MeasureCallback.create("default"), part(ms.MeasureCallback, "apply", at_once=True)]
    },
    "learning": {"cost_model": part(ms.CostModel, "update", predict=IDLE["predict"])},
    "mutator": {
        "space": ms.ScheduleFn(tiles, mutator_probs={part(ms.Mutator, "apply"): 1.0}),
        "strategy": "evolutionary",
    },
}


@pytest.mark.parametrize("where", BROKEN)
def test_what_parts_of_ones_own_raise_ends_a_search_with_its_line(where: str, capsys: Any) -> None:
    line = f"{__file__}:{broken.__code__.co_firstlineno + 2}"
    parts: dict[str, Any] = {"builder": Paper(), "runner": Clock(lambda n: 0.5), **BROKEN[where]}
    try:
        database = tune(product(), 100, **parts)
    except ScheduleError as error:  # nothing had been measured
        assert error.code == "E463" and f"ZeroDivisionError: mine ({line})" in error.message
        assert isinstance(error.__cause__, ZeroDivisionError) and where in ("template", "rule", "postproc", "model")
    else:
        assert f"ended early: ZeroDivisionError: mine ({line})" in capsys.readouterr().err
        verdicts = [record.verdict for record in database.get_all_tuning_records()]
        assert verdicts[-1] == "kept" and 4 < len(verdicts) < 20


class Moody(Paper, Clock):
    """A builder and runner of one's own: some of its calls raise."""

    def __init__(self, where: str, bad: set[int]) -> None:
        Paper.__init__(self)
        self.where, self.bad, self.calls, self.seconds = where, bad, 0, lambda n: 0.5

    def _step(self, where: str) -> None:
        if where == self.where:
            self.calls += 1
            if self.calls in self.bad:
                broken()

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        self._step("build")
        return super().build(build_inputs)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        self._step("run")
        return super().run(runner_inputs)

    def one(self, given: RunnerInput) -> RunnerResult:
        self._step("result")
        return super().one(given)


@pytest.mark.parametrize("where, lost", [("build", 4), ("run", 4), ("result", 1)])
def test_what_a_builder_or_runner_raises_costs_the_candidates_of_the_call(where: str, lost: int, capsys: Any) -> None:
    line = f"{__file__}:{broken.__code__.co_firstlineno + 2}"
    mine = Moody(where, {3})
    database = tune(product(), 16, builder=mine, runner=mine)
    failed = [r for r in database.get_all_tuning_records() if r.run_secs is None]
    assert [r.reason for r in failed] == [f"ZeroDivisionError: mine ({line})"] * lost
    assert f"{lost} failed" in capsys.readouterr().err and database.get_all_tuning_records()[-1].verdict == "kept"
    mine = Moody(where, set(range(99)))
    with pytest.raises(ScheduleError, match=r"E463.*ZeroDivisionError: mine") as refused:
        tune(product(), 16, builder=mine, runner=mine)
    assert line in refused.value.message


def test_a_template_that_raises_costs_no_other_task(capsys: Any) -> None:
    mod = unity.IRModule({"one": product(), "two": product(8)})
    special = {"one": lambda sch: broken()}
    database = tune(mod, 12, builder=Paper(), runner=Clock(lambda n: 0.5), special_space=special)
    assert [record.verdict for record in database.get_all_tuning_records()].count("trial") == 12
    assert "failed: ZeroDivisionError: mine" in capsys.readouterr().err
    with pytest.raises(ScheduleError, match="no block 'zzz'") as refused:
        tune(product(), 4, builder=Paper(), runner=Clock(lambda n: 0.5), space=lambda sch: sch.get_block("zzz"))
    assert refused.value.code == "E407", "an error of the package is itself"


SILENT = {"pre_tuning": lambda *_: None, "notify_runner_results": lambda *_: None}


def test_parts_that_give_too_few_results(capsys: Any) -> None:
    def none(*_: Any) -> list[Any]:
        return []

    few = {"update": IDLE["update"]}
    for parts, text in (
        ({"builder": part(ms.Builder, "build", none), "runner": Clock(lambda n: 0.5)}, "gave 0 results for 1 programs"),
        ({"builder": Paper(), "runner": part(ms.Runner, "run", none)}, "gave 0 results for 1 programs"),
        ({"builder": part(ms.Builder, "build", lambda _, some: some), "runner": Clock(lambda n: 0.5)},
         "Mine.build gave a BuilderInput"),
        ({"builder": Paper(), "runner": part(ms.Runner, "run", lambda _, some: [RunnerFuture(bool, dict)])},
         "Mine.run gave an empty dict"),
        ({"space": part(ms.SpaceGenerator, "generate_design_space", lambda *_: None)}, "generate_design_space gave None"),
        ({"space": part(ms.SpaceGenerator, "generate_design_space", lambda *_: [3])}, r"generate_design_space gave 3 \(int\)"),
        ({"strategy": part(ms.SearchStrategy, "generate_measure_candidates", lambda _: [3], **SILENT)}, "candidates gave 3"),
        ({"task_scheduler": part(ms.TaskScheduler, "next_task_id", lambda _: 9)}, "next_task_id gave 9, of 1 tasks"),
        ({"task_scheduler": part(ms.TaskScheduler, "next_task_id", lambda _: None)}, "next_task_id gave None"),
        ({"task_scheduler": part(ms.TaskScheduler, "next_task_id", lambda _: 0), "space": lambda sch: None},
         "next_task_id gave 0, of 1 tasks"),
        ({"builder": Paper(), "runner": Clock(lambda n: 0.5), "strategy": "evolutionary",
          "cost_model": part(ms.CostModel, "predict", none, **few)}, "gave 0 scores for"),
    ):  # fmt: skip
        with pytest.raises(ScheduleError, match=text):
            tune(product(), 8, **parts)
    space = ms.ScheduleFn(tiles, mutator_probs={part(ms.Mutator, "apply", lambda *_: 3): 1.0})
    tune(product(), 40, builder=Paper(), runner=Clock(lambda n: 0.5), space=space, strategy="evolutionary")
    assert "ended early: Mine.apply gave 3 (int)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, number",
    [("max_trials_global", -1), ("max_trials_per_task", -1), ("num_trials_per_iter", 0), ("num_tuning_cores", 0)],
)
def test_numbers_that_try_nothing(name: str, number: int) -> None:
    with pytest.raises(ScheduleError, match=f"{name} is {number}"):
        ms.tune_tir(product(), "llvm", database="memory", **{name: number})


MINE = {ms.mutator.MutateCategorical(): -0.5}
REFUSED: dict[str, tuple[Any, str]] = {
    "processors": (lambda: tune(product(), 4, num_tuning_cores="all"), "num_tuning_cores is 'all'"),
    "threads": (lambda: ms.TuneContext(product(), num_threads="all"), "num_threads is 'all'"),
    "seed": (lambda: tune(product(), 4, seed="a"), "tune_tir: the argument seed is 'a'"),
    "option": (lambda: tune(product(), 4, num_trials=8), "tune_tir has no argument 'num_trials'"),
    "space of no program": (lambda: tune(product(), 4, special_space={"b": None}), "special_space names 'b'"),
    "weights": (lambda: ms.tune_tasks(tasks=[], task_weights=[1.0]), "0 tasks have 1 weights"),
    "time to run": (lambda: LocalRunner(timeout_sec=-1), "timeout_sec is -1"),
    "no number": (lambda: LocalRunner(timeout_sec=float("nan")), "timeout_sec is nan"),
    "time as text": (lambda: LocalRunner(timeout_sec="1"), "LocalRunner: the argument timeout_sec is '1'"),  # type: ignore[arg-type]
    "threads that run": (lambda: LocalRunner(threads=0), "threads is 0"),
    "workers": (lambda: LocalBuilder(max_workers=-2), "max_workers is -2"),
    "no workers": (lambda: LocalBuilder(max_workers=0), "max_workers is 0"),
    "executor": (lambda: LocalBuilder(executor=3), "the argument executor is 3"),  # type: ignore[arg-type]
    "samples": (lambda: EvaluatorConfig(repeat=0), "repeat is 0"),
    "flush": (lambda: EvaluatorConfig(enable_cpu_cache_flush=True), "enable_cpu_cache_flush is True"),
    "population": (lambda: ms.search_strategy.EvolutionarySearch(population_size=0), "population_size is 0"),
    "share": (lambda: ms.search_strategy.EvolutionarySearch(eps_greedy=3.0), "eps_greedy is 3"),
    "gradient": (lambda: ms.task_scheduler.GradientBased(window_size=0), "window_size is 0"),
    "mutator": (lambda: tune(product(), 4, space=ms.ScheduleFn(tiles, mutator_probs=MINE), strategy="evolutionary"),
                "MutateCategorical is -0.5"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_part_cannot_be_made_with(what: str) -> None:
    call, text = REFUSED[what]
    with pytest.raises(UnityError, match=text) as refused:
        call()
    assert refused.value.code in ("E401", "E717")


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="No such file") as plotted:
        ms.plot(ms.database.MemoryDatabase(), tmp_path / "none" / "plot.svg")
    with pytest.raises(ScheduleError, match="Is a directory") as saved:
        ms.CostModel.create("linear").save(tmp_path)
    assert plotted.value.code == saved.value.code == "E461"


def test_an_executor_that_was_shut_down() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(ScheduleError, match="the executor ThreadPoolExecutor takes no call"):
        tune(product(), 4, builder=LocalBuilder(executor=executor))


def test_the_same_seed_tries_the_same(capsys: Any) -> None:
    runs = [tune(product(), 8, builder=Paper(), runner=Clock(lambda n: 1 / n)) for _ in range(2)]
    first, second = [[r.trace.script() for r in run.get_all_tuning_records()] for run in runs]
    assert first == second and len(set(first)) > 4


def test_an_interrupt_keeps_what_was_measured(capsys: Any) -> None:
    def seconds(count: int) -> float:
        if count == 6:
            raise KeyboardInterrupt
        return 0.5

    database = tune(product(), 100, builder=Paper(), runner=Clock(seconds))
    said = capsys.readouterr().err
    assert "interrupted" in said and "2.00" in said
    assert database.get_all_tuning_records()[-1].verdict == "kept"


@pytest.mark.parametrize("processors", [1, 2])
def test_a_round_is_built_beside_another_where_there_is_a_processor(processors: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("unity.meta_schedule.tuning_loop.processors", lambda: processors)
    seen: list[str] = []
    built = threading.Event()

    class Builds(Paper):
        def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
            seen.append("build")
            if seen.count("build") == 3:  # the default, a round, the next
                built.set()
            return super().build(build_inputs)

    def seconds(count: int) -> float:
        seen.append("run")
        assert count > 1 or processors == 1 or built.wait(60), "nothing is built while a round runs"
        return 0.5

    runner = Clock(seconds)
    runner.threads = 1
    database = tune(product(), 8, builder=Builds(), runner=runner)
    assert len([r for r in database.get_all_tuning_records() if r.verdict == "trial"]) == 8
    if processors == 1:
        assert seen[:7] == ["build", "build", "run", "run", "run", "build", "run"]


def test_trials_are_resumed(tmp_path: Path, capsys: Any) -> None:
    options: dict[str, Any] = {"database": "sqlite", "builder": Paper(), "runner": Clock(lambda n: 0.5 / n)}
    options |= {"num_trials_per_iter": 4, "strategy": "replay-trace", "seed": 0, "space": tiles}

    def trials(count: int, resume: bool) -> int:
        database = ms.tune_tir(product(), "llvm", tmp_path, count, resume=resume, **options)
        records = [r for r in database.get_all_tuning_records() if r.verdict == "trial"]
        programs = {r.schedule().mod.script() for r in records}
        assert len(programs) == (
            len(records) if resume else min(len(records), 12)
        )  # none comes again where trials are resumed
        return len(records)

    assert trials(8, False) == 8
    assert trials(12, True) == 12
    assert trials(12, True) == 12
    assert trials(4, False) == 16


# ---- symbolic sizes


def test_a_program_of_open_size_is_tuned_at_one_and_serves_all(parts: dict[str, Any], capsys: Any) -> None:
    program = product(te.var("n"), 9, 13)
    database = tune(program, 6, space="post-order-apply", sizes={"n": 32}, **parts)
    records = database.get_all_tuning_records()
    assert [r.args_info[0].shape for r in records] == [(32, 9)] * len(records)
    assert len([r for r in records if r.run_secs]) > 3
    for record in records:
        made = record.program(product(te.var("rows"), 9, 13))  # symbols by other names
        built = unity.build(made.func)["main"]
        for n in (1, 2, 7, 32, 65):
            a, b = np.ones((n, 9), "float32"), np.arange(117, dtype="float32").reshape(9, 13)
            out = np.zeros((n, 13), "float32")
            built(a, b if not made.packed else made.packed[1].pack(b), out)
            np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    assert database.query_tuning_record(product(te.var("m"), 9, 13), "llvm") is not None
    assert database.query_tuning_record(product(32, 9, 13), "llvm") is None


@pytest.mark.parametrize("sizes", [{}, {"m": 4}, {"n": 0}, {"n": 4.0}, {"n": True}])
def test_what_is_no_size(sizes: Any, capsys: Any) -> None:
    with pytest.raises(ScheduleError, match=r"E428|n is not known"):
        tune(product(te.var("n")), 2, builder=Paper(), runner=Clock(lambda n: 1.0), sizes=sizes)


def test_results_at_other_sizes_count(parts: dict[str, Any]) -> None:
    """A program that is right at the size it is timed for, and wrong where a tile does not fill."""
    right, wrong = [text_program(extent) for extent in ("n", "n // 2 * 2")]
    infos = [ms.TensorInfo.from_prim_func(right, {"n": n}) for n in (8, 5)]
    built = parts["builder"].build([BuilderInput(program, "llvm") for program in (right, wrong)])
    for other, error in ((infos[1], "at other sizes its result"), ([], None)):
        default = RunnerInput(built[0].artifact_path, "cpu", infos[0], {}, None, other)
        inputs = [replace(default, artifact_path=one.artifact_path, reference=default) for one in built]
        first, second = [future.result() for future in parts["runner"].run(inputs)]
        assert first.run_secs and (error or "") in (second.error_msg or "") and bool(second.run_secs) == (error is None)


def text_program(extent: str) -> Any:
    return parse(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
    for i in range({extent}):
        B[i] = A[i] + T.float32(1)
""")


DYNAMIC = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("batch", 4, 9), "float32"), w: R.Tensor((9, 9), "float32")):
        batch = T.int64()
        y = R.nn.relu(R.matmul(R.reshape(x, (batch * 4, 9)), w))
        return R.sum(y, axis=0)
"""


def test_a_model_of_dynamic_batch_is_tuned(capsys: Any) -> None:
    mod = parse(DYNAMIC)
    extract = ms.relax_integration.extract_tasks
    assert extract(mod, "llvm") == []
    tasks = extract(mod, "llvm", sizes={"batch": 6})
    (dense,) = [task for task in tasks if "matmul" in task.task_name]
    for sizes, batch in ((dense.sizes, 6), (dense.other_sizes, 3)):
        first, *_, last = ms.TensorInfo.from_prim_func(dense.mod.prim_funcs()["main"], sizes)
        assert first == ms.TensorInfo("float32", (4 * batch, 9)) and last == ms.ScalarInfo("int64", batch)
        assert ms.TensorInfo.from_json(last.as_json()) == last
    options: dict[str, Any] = {"database": "memory", "num_trials_per_iter": 4, "strategy": "replay-trace", "seed": 0}
    options |= {"builder": Paper(), "runner": Clock(lambda n: 1 / (n + 1))}
    weight = {"w": np.eye(9, dtype="float32")}
    database = ms.relax_integration.tune_relax(mod, weight, "llvm", None, 12, sizes={"batch": 6}, **options)
    assert {r.verdict for r in database.get_all_tuning_records()} >= {"trial", "kept"}
    assert "not tuned" not in capsys.readouterr().err
    executable = ms.relax_integration.compile_relax(database, mod, "llvm", weight)
    for n in (1, 2, 6, 17):
        x = np.ones((n, 4, 9), "float32")
        np.testing.assert_allclose(executable["main"](x).numpy(), np.full(9, 4 * n), rtol=1e-6)
    with pytest.raises(ScheduleError, match="no shape has the symbol"):
        ms.relax_integration.tune_relax(mod, None, "llvm", None, 4, sizes={"rows": 6})


# ---- models


def test_tasks_of_a_model() -> None:
    weight = np.ones((9, 9), "float32")
    tasks = ms.relax_integration.extract_tasks(Model, "llvm", {"w": weight})
    products = [task for task in tasks if "matmul" in task.task_name]
    assert [task.weight for task in tasks] and len(products) == 1 and products[0].weight == 2
    assert products[0].constants == (1,) and list(products[0].mod.functions) == ["main"]
    assert ms.relax_integration.extract_tasks(Model, "llvm")[0].constants == ()
    assert len(ms.relax_integration.extract_tasks(Model["main"], "llvm", None, "ignore-tensor")) == len(tasks)
    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        tasks, "work", "llvm", "replay-func", "logical", 3
    )
    assert [context.rand_state for context in contexts] == [3, 4] and weights == [task.weight for task in tasks]


def test_a_model_is_tuned_and_compiled(capsys: Any, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 9), "float32"), rng.standard_normal((9, 9), "float32")
    options: dict[str, Any] = {"database": "memory", "num_trials_per_iter": 4, "strategy": "replay-trace", "seed": 0}
    database = ms.relax_integration.tune_relax(
        Model,
        {"w": w},
        "llvm",
        None,
        16,
        op_names=["matmul"],
        builder=Paper(),
        runner=Clock(lambda n: 1 / (n + 1)),
        **options,
    )
    said = capsys.readouterr().err
    assert "not tuned: it was not asked for" in said
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    with pytest.warns(UserWarning, match="softmax has no record in MemoryDatabase"):
        executable = ms.relax_integration.compile_relax(database, Model["main"], "llvm", {"w": w}, enable_warning=True)
    said = capsys.readouterr().err
    assert "times as fast as the default" in said and "no record" in said
    y = np.maximum(np.maximum(x @ w, 0) @ w, 0)
    expected = np.exp(y - y.max(-1, keepdims=True))
    np.testing.assert_allclose(
        executable["main"](x).numpy(), expected / expected.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6
    )


# ---- which task is next, what is shown


def test_the_gradient_goes_where_most_is_gained() -> None:
    class Task:
        def __init__(self, weight: float, history: list[float], ended: bool = False) -> None:
            self.task_weight, self.history, self.is_terminated = weight, history, ended
            self.rounds, self.default_secs = len(history), 1.0

    scheduler: Any = ms.task_scheduler.GradientBased(seed=0)
    scheduler.tasks = [Task(1, [1.0]), Task(1, [])]
    assert scheduler.next_task_id() == 1
    scheduler.tasks = [Task(9, [1.0]), Task(1, []), Task(3, []), Task(5, [], True)]
    assert scheduler.next_task_id() == 2, "of those without a round the one that takes most of the time"
    scheduler.tasks = [Task(1, [1.0, 1.0]), Task(9, [1.0, 1.0]), Task(99, [1.0], True), Task(50, [float("inf")])]
    assert scheduler.next_task_id() == 1
    scheduler.tasks = [Task(1, [1.0, 1.0, 1.0]), Task(1, [1.5, 1.2, 1.0])]
    assert scheduler.next_task_id() == 1
    scheduler = ms.task_scheduler.RoundRobin()
    scheduler.tasks = [Task(1, []), Task(1, [], True), Task(1, [])]
    assert [scheduler.next_task_id() for _ in range(3)] == [0, 2, 0]
    scheduler.tasks = [Task(1, [], True)]
    assert scheduler.next_task_id() == -1


def test_the_table_and_the_line() -> None:
    rows = [
        Row("a", 2, 4e-6, 2e-6, 10),
        Row("b", 1, 2e-6, 2e-6, 5, "within noise", 3),
        Row("c", 1, float("inf"), float("inf"), 0, "failed"),
    ]
    text = table(rows, {"d": "symbolic"})
    assert "2.00" in text and "66.7%" in text and "within noise, 3 failed" in text and "d: not tuned: symbolic" in text
    assert "10.0 us by default, 6.0 us now, 1.67 times as fast" in text

    class Task:
        task_weight, trials, default_secs, best_secs, is_terminated = 1.0, 0, 4e-6, 2e-6, False

    stream = io.StringIO()
    progress = TuneProgress([Task()], 10, stream)
    assert "trial 0 of 10, 2.0 us, 2.00 times as fast as the default" in progress.line()
    progress.tasks[0].trials = 5
    assert "s left" in progress.line() and stream.getvalue() == ""


def test_the_plot_has_the_best_so_far_of_each_task(tmp_path: Path) -> None:
    times = {1: 2.0, 2: 0.5, 3: None, 4: 0.8, 5: 0.25}
    database = tune(product(), 6, builder=Paper(), runner=Clock(times.get))
    (curve,) = curves_of(database)
    assert curve.name.startswith("c ") and curve.gains == [1.0, 1.0, 2.0, 2.0, 2.0, 4.0]
    assert ms.plot(database, tmp_path / "plot.svg") == 1
    drawn = ElementTree.fromstring((tmp_path / "plot.svg").read_text())
    texts = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "x 4.00" in texts and "6 trials" in texts and "1000000.0 us by default, x 4.00" in texts[0]
    assert ms.plot(ms.database.MemoryDatabase(), tmp_path / "plot.svg") == 0


TUNER = """
import sys
sys.path[:0] = {folders}
from test_tune import Clock, Paper, ms, product, tiles
def seconds(count):
    print(count, flush=True)
    return 1 / (count + 1)
ms.tune_tir(product(), "llvm", sys.argv[1], 10**6, num_trials_per_iter=16, strategy="replay-trace", seed=0, builder=Paper(),
            runner=Clock(seconds), space=tiles)
"""


def killed(folder: Path, after: int, seconds: float = 0.0) -> int:
    """Kill a tuning ``seconds`` after its candidate number ``after``; how many candidates had their times."""
    script = TUNER.format(folders=[str(place) for place in Path(__file__).parents[:2]])
    process = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(after):
        process.stdout.readline()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    left = process.stdout.read().split()
    process.wait()
    return int(left[-1]) if left else after


def test_a_tuning_that_is_killed_again_and_again_loses_the_trial_in_flight_alone(tmp_path: Path) -> None:
    rng = random.Random(0)
    for _ in range(2 * TIMES):
        before = len(SQLiteDatabase(tmp_path / "database.db"))
        timed = killed(tmp_path, rng.randrange(1, 40), rng.random() / 50)
        # the default is a trial too, without a number
        assert len(SQLiteDatabase(tmp_path / "database.db").get_all_tuning_records()) - before >= timed


def test_a_killed_tuning_goes_on_where_it_was(tmp_path: Path, capsys: Any) -> None:
    killed(tmp_path, 9)
    database = ms.database.SQLiteDatabase(tmp_path / "database.db")
    known = len(database)
    assert known >= 9
    again = ms.tune_tir(
        product(), "llvm", tmp_path, known + 2, resume=True, num_trials_per_iter=2, strategy="replay-trace", seed=1, builder=Paper(),
        runner=Clock(lambda n: 1.0), space=tiles,
    )  # fmt: skip
    records = again.get_all_tuning_records()
    assert len([r for r in records if r.verdict == "trial"]) == known + 2
    assert records[-1].workload.shash == records[0].workload.shash
