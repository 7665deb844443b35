"""Forty programs that no rule was written for, each tuned with some trials: time of the default build by that of the winner, and
the figures of the search itself.

``python benchmarks/bench_tune.py --state tune.json``; a run that ends early goes on from its state. ``--only conv`` takes programs
whose names have a text. Programs are graph functions of one operator; where it becomes several tensor programs their times are
added.

Aims: geometric mean 1.3, none below 1.0, ten of 1.5; 6 trials a second of programs of at most ``SMALL`` seconds; time at which
nothing is built and nothing runs, 15 % of the other; the best of the model's first 16 candidates 0.9 of the best of 256 random
ones. With 64 trials it takes a quarter of an hour on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import unity
from unity import meta_schedule as ms
from unity.meta_schedule.builder import ENVIRONMENT
from unity.meta_schedule.extracted_task import extracted
from unity.meta_schedule.relax_integration import extracted_tasks_to_tune_contexts
from unity.meta_schedule.tune import tuned
from unity.meta_schedule.workers.pool import LocalWorkers
from unity.script import parse

F32 = "float32"
SMALL = 50e-6
FIRST = 16
RANKED = ("batched product 24x17x19x23", "depthwise of multiplier 3", "windowed maximum")
"""Programs whose candidates are also drawn at random."""
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "product 77x384x1023": ("R.matmul(x, w)", {"x": (77, 1023), "w": (1023, 384)}),
    "product 1x511x2047": ("R.matmul(x, w)", {"x": (1, 2047), "w": (2047, 511)}),
    "product 3x1000x513": ("R.matmul(x, w)", {"x": (3, 513), "w": (513, 1000)}),
    "product 197x65x331": ("R.matmul(x, w)", {"x": (197, 331), "w": (331, 65)}),
    "product 33x7x4099": ("R.matmul(x, w)", {"x": (33, 4099), "w": (4099, 7)}),
    "product 1021x11x13": ("R.matmul(x, w)", {"x": (1021, 13), "w": (13, 11)}),
    "product of two inputs 129x127x255": ("R.matmul(x, y)", {"x": (129, 255), "y": (255, 127)}),
    "product transposed 61x95x301": ("R.matmul(x, R.permute_dims(y))", {"x": (61, 301), "y": (95, 301)}),
    "batched product 24x17x19x23": ("R.matmul(x, y)", {"x": (24, 17, 23), "y": (24, 23, 19)}),
    "batched product 96x5x5x64": ("R.matmul(x, y)", {"x": (96, 5, 64), "y": (96, 64, 5)}),
    "batched product 300x3x3x3": ("R.matmul(x, y)", {"x": (300, 3, 3), "y": (300, 3, 3)}),
    "contraction over two axes": ('R.einsum((x, y), subscripts="iab,abj->ij")', {"x": (37, 19, 23), "y": (19, 23, 41)}),
    "contraction of three": ('R.einsum((x, y), subscripts="bij,bkj->bik")', {"x": (7, 45, 61), "y": (7, 33, 61)}),
    "outer contraction": ('R.einsum((x, y), subscripts="ai,bj->abij")', {"x": (11, 31), "y": (13, 29)}),
    "grouped convolution": ("R.nn.conv2d(x, w, groups=4, padding=1)", {"x": (1, 32, 27, 27), "w": (48, 8, 3, 3)}),
    "grouped convolution of 2": ("R.nn.conv2d(x, w, groups=2)", {"x": (1, 22, 19, 19), "w": (26, 11, 3, 3)}),
    "dilated convolution": ("R.nn.conv2d(x, w, dilation=2, padding=2)", {"x": (1, 24, 29, 29), "w": (40, 24, 3, 3)}),
    "dilated convolution of 5": ("R.nn.conv2d(x, w, dilation=3)", {"x": (1, 9, 33, 33), "w": (17, 9, 5, 5)}),
    "strided convolution of 7": ("R.nn.conv2d(x, w, strides=3, padding=3)", {"x": (1, 3, 61, 61), "w": (19, 3, 7, 7)}),
    "convolution 1x9": ("R.nn.conv2d(x, w, padding=[0, 4])", {"x": (1, 21, 17, 45), "w": (23, 21, 1, 9)}),
    "convolution of 13 channels": ("R.nn.conv2d(x, w, padding=1)", {"x": (1, 13, 31, 31), "w": (37, 13, 3, 3)}),
    "transposed convolution": ("R.nn.conv2d_transpose(x, w, strides=2)", {"x": (1, 19, 15, 15), "w": (19, 27, 4, 4)}),
    "transposed convolution of 3": (
        "R.nn.conv2d_transpose(x, w, strides=2, padding=1)",
        {"x": (1, 32, 11, 11), "w": (32, 16, 3, 3)},
    ),
    "depthwise": ("R.nn.conv2d(x, w, groups=45, padding=1)", {"x": (1, 45, 29, 29), "w": (45, 1, 3, 3)}),
    "depthwise of multiplier 2": ("R.nn.conv2d(x, w, groups=24)", {"x": (1, 24, 25, 25), "w": (48, 1, 5, 5)}),
    "depthwise of multiplier 3": ("R.nn.conv2d(x, w, groups=11)", {"x": (1, 11, 41, 41), "w": (33, 1, 3, 3)}),
    "convolution in 1 dimension": ("R.nn.conv1d(x, w, padding=4)", {"x": (1, 33, 401), "w": (45, 33, 9)}),
    "dilated convolution in 1 dimension": ("R.nn.conv1d(x, w, dilation=4)", {"x": (2, 17, 515), "w": (31, 17, 5)}),
    "convolution in 3 dimensions": ("R.nn.conv3d(x, w, padding=1)", {"x": (1, 7, 11, 19, 19), "w": (13, 7, 3, 3, 3)}),
    "convolution 3x1x1": ("R.nn.conv3d(x, w)", {"x": (1, 21, 13, 15, 15), "w": (19, 21, 3, 1, 1)}),
    "stencil of 5 points": ("R.nn.conv2d(x, w)", {"x": (1, 1, 513, 517), "w": (1, 1, 3, 3)}),
    "windowed sum": ("R.nn.avg_pool2d(x, pool_size=7, padding=3)", {"x": (1, 31, 53, 53)}),
    "windowed maximum": ("R.nn.max_pool2d(x, pool_size=5, strides=2)", {"x": (1, 45, 61, 61)}),
    "sum over the middle axis": ("R.sum(x, axis=1)", {"x": (37, 129, 211)}),
    "sum over the first axis": ("R.sum(x, axis=0)", {"x": (1023, 517)}),
    "variance over two axes": ("R.variance(x, axis=[0, 2])", {"x": (31, 45, 257)}),
    "softmax over the first axis": ("R.nn.softmax(x, axis=0)", {"x": (211, 317)}),
    "scan": ("R.cumsum(x, axis=0)", {"x": (333, 127)}),
    "transposition": ("R.permute_dims(x, axes=[2, 0, 1])", {"x": (61, 83, 97)}),
    "gather and sum": ("R.sum(R.take(w, i, axis=0), axis=1)", {"i": (67, 13), "w": (1001, 95)}),
}
"""Text of a graph and its arguments: ``w`` is a constant, ``i`` are indices, others are inputs."""


def module(text: str, shapes: dict[str, tuple[int, ...]]) -> unity.IRModule:
    """A module of one function."""
    params = ", ".join([f'{n}: R.Tensor({s}, "{"int64" if n == "i" else F32}")' for n, s in shapes.items()])
    body = f"    y = {text}\n    return y\n"
    made = parse(f"@I.ir_module\nclass Module:\n  @R.function\n  def main({params}):\n{body}")
    assert isinstance(made, unity.IRModule)
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s).astype(F32) for n, s in shapes.items() if n == "w"}
    return ms.relax_integration.with_params(made, weights)


@dataclass(slots=True)
class Found:
    """A program tuned: seconds of the default and the winner, its trials, failures and remarks, seconds of all, those at which
    something was built or run, and those of this process on a processor."""

    name: str
    default: float
    best: float
    trials: int
    failures: int
    remark: str
    spent: float
    outside: float
    processor: float

    @property
    def gain(self) -> float:
        """Time of the default by that of the winner."""
        return self.default / self.best

    def __str__(self) -> str:
        times = f"{self.default * 1e6:10.1f} us {self.best * 1e6:10.1f} us  x {self.gain:.2f}"
        failed = f", {self.failures} failed" if self.failures else ""
        speed = f"{self.trials} trials{failed}, {self.trials / self.spent:.1f} a second"
        own = f"search {self.spent / self.outside - 1:.0%}, {self.processor / max(1, self.trials) * 1e3:.0f} ms a trial"
        return f"{self.name:44} {times}  {speed}, {own} {self.remark}"


Spans = list[tuple[float, float]]
"""Beginnings and ends of what workers did."""


class Watched(LocalWorkers):
    """Workers, and when they had something to do."""

    def __init__(self, count: int | None, seconds: float, spans: Spans) -> None:
        super().__init__(count, seconds, environment=ENVIRONMENT)
        self.spans = spans

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a worker."""
        future, start = super().submit(fn, *args, **kwargs), time.perf_counter()
        future.add_done_callback(lambda _: self.spans.append((start, time.perf_counter())))
        return future


def covered(spans: Spans) -> float:
    """Seconds at which at least one span goes on."""
    found, end = 0.0, 0.0
    for first, last in sorted(spans):
        found, end = found + max(0.0, last - max(first, end)), max(end, last)
    return found


def measured(
    name: str, trials: int, strategy: str, builder: ms.builder.LocalBuilder, runner: ms.runner.LocalRunner, spans: Spans
) -> Found:
    """A program tuned: the times of its tasks added."""
    spans.clear()
    start, own = time.perf_counter(), time.process_time()
    found = extracted(module(*PROGRAMS[name]))
    tasks, weights = extracted_tasks_to_tune_contexts(found.tasks, strategy=strategy, seed=0)
    _, rows = tuned(tasks, weights, None, trials, database="memory", builder=builder, runner=runner)
    default, best = [sum([row.weight * getattr(row, part) for row in rows]) for part in ("default", "best")]
    remark = ", ".join(filter(None, [*[row.remark for row in rows], *found.others.values()]))
    tried, failed = [sum([getattr(row, part) for row in rows]) for part in ("trials", "failures")]
    spent, own = time.perf_counter() - start, time.process_time() - own
    return Found(name, default, best, tried, failed, remark, spent, covered(spans), own)


class State:
    """What was measured, in a file from which the next run goes on; without a path in memory."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        known = json.loads(self.path.read_text("utf-8")) if self.path is not None and self.path.exists() else {}
        self.known: dict[str, Found] = {key: Found(**fields) for key, fields in known.items()}

    def get(self, key: str, make: Callable[[], Found]) -> Found:
        """The measurement under a key, made and written down where there is none."""
        if key not in self.known:
            self.known[key] = make()
            if self.path is not None:
                self.path.write_text(json.dumps({name: asdict(one) for name, one in self.known.items()}), "utf-8")
        print(self.known[key], flush=True)
        return self.known[key]


def main() -> None:
    """Tune the programs and print the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", action="append", help="programs whose names have this text")
    parser.add_argument("--state", help="file of what was measured")
    parser.add_argument(
        "--random", type=int, default=256, help="random candidates that the model's are compared with; 0: none"
    )
    options = parser.parse_args()
    unity.set_num_threads(options.threads)
    spans: Spans = []
    builder = ms.builder.LocalBuilder(executor=Watched(None, 30.0, spans))
    runner = ms.runner.LocalRunner(executor=Watched(1, 10.0, spans))
    state = State(options.state)
    names = [n for n in PROGRAMS if not options.only or any([text in n for text in options.only])]

    def tune(name: str, trials: int, strategy: str = "evolutionary") -> Found:
        key = f"{name}, {trials} {strategy}, {options.threads} threads"
        return state.get(key, lambda: measured(name, trials, strategy, builder, runner, spans))

    found = [tune(name, options.trials) for name in names]
    gains = [one.gain for one in found]
    small = [one for one in found if one.default <= SMALL]
    print(f"{len(found)} programs, {options.threads} threads: geometric mean {np.exp(np.mean(np.log(gains))):.2f}, "
          f"least {min(gains):.2f}, {sum([gain >= 1.5 for gain in gains])} of 1.5 or more")  # fmt: skip
    if small:
        print(
            f"trials a second of the small ones: {sum([f.trials for f in small]) / sum([f.spent for f in small]):.1f}"
        )
    print(f"searcher by builds and runs: {sum([f.spent for f in found]) / sum([f.outside for f in found]) - 1:.0%}")
    if options.random:
        choices = []
        for name in [name for name in RANKED if name in names]:
            chosen, drawn = tune(name, FIRST), tune(name, options.random, "replay-trace")
            choices.append(chosen.gain / drawn.gain)
        if choices:
            print(f"best of the model's first {FIRST} by the best of {options.random} random ones: "
                  f"{np.exp(np.mean(np.log(choices))):.2f} ({', '.join([f'{one:.2f}' for one in choices])})")  # fmt: skip
    builder.close()
    runner.close()


if __name__ == "__main__":
    main()
