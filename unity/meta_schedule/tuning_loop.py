"""``TaskScheduler``: the loop of a tuning: rounds of candidates, built, run beside the default, written down; then the verdicts.

The next round is chosen and built while one runs, where the machine has a processor besides those that run. Which task gets it is
the only question its kinds differ in (`task_scheduler.py`). Invariant: what a build will take was measured against the default in
turns at the end and was faster; an interrupt ends the rounds, not the verdicts.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, SupportsFloat, TypeVar

from ..ffi.native.pool import num_threads, processors
from ..support.arguments import callers_line
from ..support.errors import ScheduleError, UnityError
from ..support.gc_pause import young_collection
from .builder import Builder, BuilderInput, BuilderResult
from .core.measure_candidate import MeasureCandidate
from .core.part import Part, given
from .core.profiler import Profiler
from .core.tune_context import CostModel, TuneContext
from .database import Database
from .database.record import DEFAULT, KEPT, TuningRecord, fastest
from .database.workload import machine_features
from .measure_callback import MeasureCallback
from .report import Row, TuneProgress
from .runner import Runner, RunnerInput, RunnerResult
from .search.replay import ReplayTrace
from .task_record import FINALISTS, TaskRecord, told

_T = TypeVar("_T")
ROUNDS = 4
"""Runs of each of them."""
MIN_GAIN = 1.02
"""Time of the default by that of the winner from which the winner is kept, in the fastest run and in the lower quartile."""


@dataclass(slots=True, eq=False)
class _Round:
    """Candidates of a task, what was built of them, and the results of those that ran."""

    task_id: int
    candidates: list[MeasureCandidate]
    built: list[BuilderResult]
    results: list[RunnerResult] = field(default_factory=list)


class TaskScheduler(metaclass=Part):
    """Gives tasks rounds of trials until the trials are used up."""

    what, usual = "task scheduler", "gradient"

    def __init__(self) -> None:
        self.tasks: list[TaskRecord] = []
        self.cost_model: CostModel | None = None
        self.is_interrupted = False

    @abstractmethod
    def next_task_id(self) -> int:
        """The task that gets the next round; -1 where none can go on."""

    def tune(
        self, tasks: Sequence[TuneContext], task_weights: Sequence[float], max_trials_global: int,
        max_trials_per_task: int | None, num_trials_per_iter: int, builder: Builder, runner: Runner,
        measure_callbacks: Sequence[MeasureCallback], database: Database, cost_model: CostModel | None = None, resume: bool = False,
    ) -> list[Row]:  # fmt: skip
        """Tune tasks and return the rows of the final table. ``resume``: trials in the database count.

        ``KeyboardInterrupt`` ends the rounds; what was measured is judged and kept. Raises ScheduleError E463 where no default
        runs.
        """
        self.builder, self.runner, self.callbacks = builder, runner, list(measure_callbacks)
        self.database, self.cost_model, self.is_interrupted = database, cost_model, False
        most = max_trials_global if max_trials_per_task is None else min(max_trials_per_task, max_trials_global)
        self.tasks = [self._record(ctx, weight, most, resume) for ctx, weight in zip(tasks, task_weights, strict=True)]
        left = max_trials_global - sum([task.trials for task in self.tasks])
        with TuneProgress(self.tasks, left) as progress:
            try:
                for task in self.tasks:
                    self._begin(task, num_trials_per_iter)
                    progress.show()
                self._go_on(left, progress)
            except KeyboardInterrupt:
                progress.say("interrupted: the best so far are measured against the default; once more ends at once")
            rows = [self._finish(task) for task in self.tasks]
        if self.tasks and all([task.problem for task in self.tasks]):
            first = self.tasks[0]
            if isinstance(first.error, UnityError):
                raise first.error
            text, own = f"no task could be tuned: {first.ctx.task_name}: {first.problem}", first.error
            raise ScheduleError("E463", text, help="mend the line that it names" if own is not None else None) from own
        return rows

    def _record(self, ctx: TuneContext, weight: float, most: int, resume: bool) -> TaskRecord:
        constants: dict[str, Any] = (
            {"constants": ctx.constants} if ctx.constants else {}
        )  # which databases of TVM do not know
        workload = self.database.commit_workload(ctx.mod, **constants)
        task = TaskRecord(ctx, weight, most, workload)
        if resume:
            features = machine_features(ctx.target)
            known = [r for r in self.database.records_of(workload.shash) if r.features == features]
            task.known = [record for record in known if record.verdict not in (KEPT, DEFAULT)]
            task.trials = task.chosen = len(task.known)
            whole = sorted([r for r in known if r.is_valid() and r.scheduled], key=lambda record: record.seconds)
            for record in whole[:FINALISTS]:
                try:
                    task.finalists.append((record.seconds, record.as_measure_candidate()))
                except UnityError:  # of another version
                    continue
        return task

    @Profiler.timeit("begin")
    def _begin(self, task: TaskRecord, num_trials_per_iter: int) -> None:
        """Build and time the default, and make the space."""
        strategy = task.ctx.strategy
        try:
            (built,) = self._built([_builder_input(task, task.default)])
        except UnityError as error:  # no rule or pass makes a program of it
            built = BuilderResult(None, error.message)
        task.default_path = built.artifact_path
        if built.artifact_path is None:
            task.problem, task.is_terminated = built.error_msg or "", True
            return
        (result,) = self._running([task.reference()])
        if not result.run_secs:
            task.problem, task.is_terminated = result.error_msg or "", True
            return
        task.default_secs = fastest(result.run_secs)
        if task.trials >= task.max_trials:
            task.is_terminated = True
            return
        left = task.max_trials - task.trials
        with task.ends_alone(), young_collection():
            spaces = task.ctx.generate_design_space()
            strategy.pre_tuning(left, num_trials_per_iter, spaces, self.database, self.cost_model)
            if task.known and isinstance(strategy, ReplayTrace):
                known = [(one.trace, RunnerResult(list(one.run_secs) if one.run_secs else None)) for one in task.known]
                ran = strategy.go_on(known)
                if self.cost_model is not None and ran:
                    self.cost_model.update(task.ctx, [candidate for candidate, _ in ran], [result for _, result in ran])

    def _go_on(self, left: int, progress: TuneProgress) -> None:
        """Rounds of ``left`` candidates in all. The next is made beside one that runs, from what those before that one taught."""
        beside = processors() > (getattr(self.runner, "threads", None) or num_threads())
        ran: _Round | None = None
        with ThreadPoolExecutor(1, "unity-search") as thread:
            try:
                made = self._next(thread, left)
                while made is not None:
                    found = made.result()
                    left -= len(found.candidates)
                    if beside:
                        self._learn(ran)
                        made, ran = self._next(thread, left), found
                        self._run(found, progress)
                    else:
                        self._run(found, progress)
                        self._learn(found)
                        made = self._next(thread, left)
                self._learn(ran)
            except KeyboardInterrupt:
                self.is_interrupted = True
                raise

    def _next(self, thread: ThreadPoolExecutor, left: int) -> Future[_Round] | None:
        """The next round, while a thread makes it; None where there is none."""
        task_id = given(self, "next_task_id", self.next_task_id(), int) if left > 0 else -1
        if task_id == -1:
            return None
        if not 0 <= task_id < len(self.tasks) or self.tasks[task_id].is_terminated:
            text = f"{type(self).__name__}.next_task_id gave {task_id}, of {len(self.tasks)} tasks"
            raise ScheduleError("E428", text, help="the number of a task that has not ended, -1 where there is none")
        task = self.tasks[task_id]
        task.rounds += 1
        return thread.submit(copy_context().run, self._made, task_id, min(left, task.max_trials - task.chosen))

    def _made(self, task_id: int, most: int) -> _Round:
        """A round, chosen and built; without candidates where the task has no more."""
        task = self.tasks[task_id]
        strategy = task.ctx.strategy
        found: list[MeasureCandidate] = []
        with task.ends_alone(), young_collection(), Profiler.timeit("search"):
            method = "generate_measure_candidates"
            chosen = strategy.generate_measure_candidates() if most > 0 and task.error is None else None
            chosen = given(strategy, method, chosen or [], Sequence)
            found = [given(strategy, method, one, MeasureCandidate) for one in chosen]
            if not found:
                strategy.post_tuning()
                task.is_terminated = True
        candidates = found[: 0 if self.is_interrupted else most]
        task.chosen += len(candidates)
        with ThreadPoolExecutor(1, "unity-build") as thread:
            built = thread.submit(copy_context().run, self._build, task, candidates)
            if candidates:
                with task.ends_alone(), young_collection(), Profiler.timeit("search"):
                    strategy.look_ahead()
            return _Round(task_id, candidates, built.result())

    def _run(self, one: _Round, progress: TuneProgress) -> None:
        """Run a round; each candidate is written down as soon as it was measured."""
        task = self.tasks[one.task_id]
        for candidate, artifact, result in zip(one.candidates, one.built, self._times(task, one.candidates, one.built)):
            task.add_results([candidate], [result])
            self._notify(True, one.task_id, [candidate], [artifact], [result])
            one.results.append(result)
            progress.show()

    def _learn(self, one: _Round | None) -> None:
        """Let callbacks and the strategy hear of a round that ran."""
        if one is not None and one.candidates:
            task = self.tasks[one.task_id]
            task.history.append(task.best_secs)
            self._notify(False, one.task_id, one.candidates, one.built, one.results)
            with task.ends_alone(), Profiler.timeit("callbacks"):
                task.ctx.strategy.notify_runner_results(one.candidates, one.results)

    @Profiler.timeit("callbacks")
    def _notify(
        self, at_once: bool, task_id: int, candidates: Sequence[MeasureCandidate], built: Sequence[BuilderResult],
        results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        """Let callbacks hear of a candidate, or of a whole round."""
        for callback in self.callbacks:
            if getattr(callback, "at_once", False) == at_once:
                with self.tasks[task_id].ends_alone():
                    callback.apply(self, task_id, candidates, built, results)

    @Profiler.timeit("build")
    def _build(self, task: TaskRecord, candidates: Sequence[MeasureCandidate]) -> list[BuilderResult]:
        wanted = [candidate for candidate in candidates if not candidate.is_default]
        results = iter(self._built([_builder_input(task, candidate) for candidate in wanted]))
        return [BuilderResult(task.default_path) if candidate.is_default else next(results) for candidate in candidates]

    def _built(self, inputs: Sequence[BuilderInput]) -> Sequence[BuilderResult]:
        failed, made = _tried(self.builder.build, inputs)
        results = [BuilderResult(None, failed)] * len(inputs) if failed else _as_many(self.builder, inputs, made)
        return [given(self.builder, "build", result, BuilderResult) for result in results]

    def _running(self, inputs: Sequence[RunnerInput]) -> Iterator[RunnerResult]:
        """The results in order, each when it is known."""
        failed, futures = _tried(self.runner.run, inputs)
        for future in [None] * len(inputs) if failed else _as_many(self.runner, inputs, futures):
            own, result = (failed, None) if future is None else _tried(future.result)
            yield RunnerResult(None, own) if own else _timed(given(self.runner, "run", result, RunnerResult))

    def _times(
        self, task: TaskRecord, candidates: Sequence[MeasureCandidate], built: Sequence[BuilderResult]
    ) -> Iterator[RunnerResult]:
        """The times in order, each as soon as it is known. They are as they would be where the default takes as long as at first:
        the machine may be slower in some rounds."""
        reference = task.reference()
        inputs = [
            replace(reference, artifact_path=b.artifact_path, packed=c.scheduled.packed, reference=reference)
            for c, b in zip(candidates, built)
            if b.artifact_path is not None
        ]
        running = self._running(inputs)
        for one in built:
            with Profiler.timeit("run"):
                found = RunnerResult(None, one.error_msg) if one.artifact_path is None else next(running)
            yield _scaled(found, task.default_secs)

    @Profiler.timeit("verdicts")
    def _finish(self, task: TaskRecord) -> Row:
        """Measure the best candidates against the default in turns, write the verdict, and give the row of the table."""
        strategy = task.ctx.search_strategy
        name, weight, default = task.ctx.task_name, task.task_weight, task.default_secs
        if strategy is not None and not task.is_terminated:
            with task.ends_alone():
                strategy.post_tuning()
        if task.problem:
            return Row(name, weight, math.inf, math.inf, task.trials, f"failed: {task.problem}", task.failures)
        candidates = [candidate for _, candidate in task.finalists]
        if not candidates:
            return Row(name, weight, default, default, task.trials, "nothing was measured", task.failures)
        built = self._build(task, candidates)
        runs = [list(self._times(task, candidates, built)) for _ in range(ROUNDS)]
        best: tuple[float, MeasureCandidate, list[float], list[float]] | None = None
        for candidate, results in zip(candidates, zip(*runs)):
            own: list[float] = []
            other: list[float] = []
            for result in results:
                own += result.run_secs or []
                other += result.reference_secs or [default]  # a runner of one's own may take no turns with it
            if all([result.run_secs for result in results]) and (best is None or typical(own) < best[0]):
                best = typical(own), candidate, own, other
        if best is None:
            return Row(name, weight, default, default, task.trials, "the best no longer run", task.failures)
        seconds, winner, own, other = best
        gain = typical(other) / seconds
        is_faster = min(gain, fastest(other) / fastest(own)) >= MIN_GAIN
        said = "" if is_faster else "within noise" if gain > 1.0 else "the default is best"
        if task.error is not None:
            said = ", ".join(filter(None, [said, f"ended early: {told(task.error)}"]))
        chosen = winner if is_faster else task.default
        record = TuningRecord(
            chosen.sch.trace, task.workload, own if is_faster else other, task.ctx.target, chosen.args_info, other,
            chosen.scheduled, KEPT if is_faster else DEFAULT, chosen.scheduled.reason,
        )  # fmt: skip
        self.database.commit_tuning_record(record)
        default = typical(other)
        return Row(name, weight, default, seconds if is_faster else default, task.trials, said, task.failures)


def _tried(call: Callable[..., Any], *args: Any) -> tuple[str, Any]:
    """The result of a builder or runner; or what code of one's own raised, with its line: it costs the candidates of the call."""
    try:
        return "", call(*args)
    except Exception as error:
        if not callers_line(error):
            raise
        return told(error), None


def _timed(result: RunnerResult) -> RunnerResult:
    """The result of a runner; a failure where it has something else than seconds."""
    for secs in (*(result.run_secs or ()), *(result.reference_secs or ())):
        if not isinstance(secs, SupportsFloat) or not 0 < float(secs) < math.inf:
            return RunnerResult(None, f"the runner gave {secs!r} as a time")
    return result


def _as_many(part: Builder | Runner, inputs: Sequence[Any], results: Sequence[_T]) -> Sequence[_T]:
    """The results of a builder or runner. Raises ScheduleError E463 where it gives not one for each program."""
    if len(results) != len(inputs):
        raise ScheduleError(
            "E463", f"{type(part).__name__} gave {len(results)} results for {len(inputs)} programs",
            help="give one result for each program, in order",
        )  # fmt: skip
    return results


def typical(values: Sequence[float]) -> float:
    """The lower quartile of several runs: that of a machine which does little else."""
    return sorted(values)[len(values) // 4]


def _builder_input(task: TaskRecord, candidate: MeasureCandidate) -> BuilderInput:
    return BuilderInput(candidate.scheduled.func, task.ctx.target, candidate.scheduled.packed)


def _scaled(result: RunnerResult, seconds: float) -> RunnerResult:
    """A result with all times multiplied so that the default takes ``seconds``."""
    if not result.run_secs or not result.reference_secs:
        return result
    factor = seconds / fastest(result.reference_secs)
    own, other = [[secs * factor for secs in part] for part in (result.run_secs, result.reference_secs)]
    return RunnerResult(own, result.error_msg, other)


__all__ = ["TaskScheduler"]
