"""How well the cost models of a search rank candidates that they have not seen: the table of docs/search_space.md.

``python benchmarks/bench_rank.py``: twelve programs of ``bench_tune.py``, 40 candidates each at random, run on one thread. A model
knows all candidates of the other programs, and none or 16 of the program itself; it ranks those that are left. Printed are means
over the programs of the rank correlation of guess and time, and of the time of the best by that of the best among the five that the
model puts first. Three minutes on two quiet cores; ``--state`` names a file in which the times are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_tune import PROGRAMS, module

import unity
from unity import meta_schedule as ms
from unity.meta_schedule.cost_model.models import BoostedTrees, LinearModel
from unity.meta_schedule.extracted_task import extracted
from unity.meta_schedule.relax_integration import extracted_tasks_to_tune_contexts

CANDIDATES, OWN, FIRST = 40, 16, 5
HELD_OUT = (
    "product 77x384x1023", "product 197x65x331", "product of two inputs 129x127x255", "batched product 24x17x19x23",
    "contraction over two axes", "grouped convolution", "dilated convolution", "depthwise of multiplier 3",
    "convolution in 1 dimension", "windowed maximum", "sum over the middle axis", "softmax over the first axis",
)  # fmt: skip


@dataclass(slots=True)
class Ran:
    """Candidates of a program: their features and seconds."""

    task: str
    rows: list[list[float]]
    seconds: list[float]


class Collect(ms.MeasureCallback):
    """Keeps what ran."""

    def __init__(self) -> None:
        self.extractor = ms.feature_extractor.ProgramFeatures()
        self.rows: list[list[float]] = []
        self.seconds: list[float] = []

    def apply(
        self, task_scheduler: Any, task_id: int, measure_candidates: Sequence[Any], builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:  # fmt: skip
        """Take the candidates of a round."""
        context = task_scheduler.tasks[task_id].ctx
        for one, result in zip(measure_candidates, runner_results):
            if result.run_secs:
                self.rows.append([float(n) for n in self.extractor.rows(context, [one])[0]])
                self.seconds.append(min(result.run_secs))


def ran(name: str, builder: ms.builder.LocalBuilder, runner: ms.runner.LocalRunner) -> Ran:
    """Random candidates of the first task of a program, run."""
    found = extracted(module(*PROGRAMS[name]))
    tasks, _ = extracted_tasks_to_tune_contexts(found.tasks[:1], strategy="replay-trace", seed=0)
    kept = Collect()
    ms.tune_tasks(
        tasks=tasks, task_weights=[1.0], max_trials_global=CANDIDATES, database="memory", cost_model="random",
        builder=builder, runner=runner, measure_callbacks=kept,
    )  # fmt: skip
    return Ran(name, kept.rows, kept.seconds)


def learn(model: LinearModel, programs: Sequence[tuple[Ran, slice]]) -> LinearModel:
    """A model that knows some candidates of programs."""
    for one, part in programs:
        model.rows += [np.array(row) for row in one.rows[part]]
        model.times += [float(np.log(secs)) for secs in one.seconds[part]]
        model.tasks += [one.task] * len(one.seconds[part])
    if model.rows:
        model._fit()
    return model


def places(values: np.ndarray) -> np.ndarray:
    """The place of each value among all in order."""
    return np.argsort(np.argsort(values)).astype(float)


def ranked(model: LinearModel, one: Ran, start: int) -> tuple[float, float]:
    """Rank correlation, and time of the best by that of the best of the first, of the candidates from ``start`` on."""
    guesses, seconds = model.guess(np.array(one.rows[start:])), np.array(one.seconds[start:])
    correlation = float(np.corrcoef(places(guesses), places(seconds))[0, 1])
    return correlation, float(seconds.min() / seconds[np.argsort(guesses, kind="stable")[:FIRST]].min())


def main() -> None:
    """Run the candidates and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", help="file of what was run")
    state = parser.parse_args().state
    unity.set_num_threads(1)
    known = json.loads(Path(state).read_text("utf-8")) if state and Path(state).exists() else {}
    builder, runner = ms.builder.LocalBuilder(), ms.runner.LocalRunner()
    for name in [name for name in HELD_OUT if name not in known]:
        one = ran(name, builder, runner)
        known[name] = [one.rows, one.seconds]
        if state:
            Path(state).write_text(json.dumps(known), "utf-8")
    builder.close()
    runner.close()
    programs = [Ran(name, *known[name]) for name in HELD_OUT]
    print(f"{sum([len(one.seconds) for one in programs])} candidates\n| known of the program | cycles alone | `linear`, this "
          "program alone | `linear` | `trees` |\n|---|---|---|---|---|")  # fmt: skip
    for own in (0, OWN):
        columns: list[list[tuple[float, float]]] = [[], [], [], []]
        for one in programs:
            mine = [(one, slice(0, own))]
            all_of = [*[(other, slice(None)) for other in programs if other is not one], *mine]
            models = (
                LinearModel(),
                learn(LinearModel(), mine),
                learn(LinearModel(), all_of),
                learn(BoostedTrees(), all_of),
            )
            for column, model in zip(columns, models):
                column.append(ranked(model, one, own))
        means = [np.mean(column, axis=0) for column in columns]
        cells = ["" if not own and k == 1 else f"{a:.2f}, {b:.2f}" for k, (a, b) in enumerate(means)]
        print(f"| {own or 'none'} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
