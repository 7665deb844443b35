"""``choose="measured"`` on the whole program: decisions about its graph, each kept where the program becomes faster with it.

Kernels of calls (ours, or one of a library), the layout of convolutions, and which results are stored between kernels interact: a
kernel of a library computes no activation behind it, a convolution with channels first transposes what comes and goes. So a
decision is tried in the program as it stands, one after the other (coordinate descent), in turns with the best so far. Schedules
of the kernels themselves are the search of ``tune=``. Invariant: what is kept gives the default's results up to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...arith.evaluate import evaluate
from ...ffi.targets.target import target
from ...ir.expr import IntImm, Var
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.relation import dims
from ...ir.types import TensorType
from ...support.errors import UnityError
from ...transform.infra.backend import backend_of
from ...transform.infra.passes import Pipeline
from ...transform.relax.fusion.fuse_ops import fuse_ops, fused_programs
from ...transform.relax.layout.convert_layout import convert_layout, convolution_texts
from ...transform.relax.pipeline import GRAPH_PIPELINE, PLAN_PIPELINE, SCHEDULE_PIPELINE
from ...vm.build import build
from ...vm.choices import Choice
from ...vm.stages import check, configure
from ..entry import BuildOptions
from ..precision.accuracy import as_inputs, copies, leaves
from . import alone
from .alone import OURS, Candidate, Measured, allclose, kernel_name, random_tensor
from .anchors import Key
from .kernels import with_kernels

TRIALS = 64
"""Most programs that are built for one."""
WORTH = 1.02
"""The gain over the best program so far from which another takes its place."""
NOT_SLOWER = 1.0
"""The same for the kernels that are fastest alone, all together, and for what was decided beside the default."""
ROUNDS = 8
"""Least runs of two programs in turns."""


@dataclass(slots=True, frozen=True)
class Point:
    """Decisions about a program. ``kernels``: of calls, one for each size; ``keep``: convolutions that stay with channels first;
    ``always``: the others have channels last though it seems too little to gain; ``unfused``: programs whose results are stored."""

    kernels: Mapping[Key, tuple[Candidate, ...]] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()
    always: bool = False
    unfused: frozenset[str] = frozenset()

    def module(self, mod: IRModule) -> IRModule:
        """The module with the kernels of libraries that are decided on."""
        return with_kernels(mod, self.kernels)

    def computed_by(self, key: Key, kernel: Candidate) -> Point:
        """With another kernel for a call, at every size."""
        others = {k: kernels for k, kernels in self.kernels.items() if k != key}
        return replace(self, kernels=others if kernel is None else {**others, key: (kernel,)})

    def keeping(self, text: str) -> Point:
        """With a convolution that stays with channels first."""
        return replace(self, keep=self.keep | {text})

    def converted(self) -> Point:
        """With channels last whatever is to gain."""
        return replace(self, always=True)

    def storing(self, name: str) -> Point:
        """With the result of a program stored."""
        return replace(self, unfused=self.unfused | {name})

    @property
    def graph_passes(self) -> Pipeline:
        """The graph passes of a build."""
        options: dict[str, dict[str, Any]] = {
            convert_layout.name: {"keep": tuple(sorted(self.keep)), "always": self.always},
            fuse_ops.name: {"apart": tuple(sorted(self.unfused))},
        }
        return Pipeline([step.with_options(**options.get(step.name, {})) for step in GRAPH_PIPELINE])

    @property
    def is_default(self) -> bool:
        """True if the passes are the default ones."""
        return not (self.keep or self.always or self.unfused)

    @property
    def passes(self) -> Pipeline | None:
        """All passes of a build; None: the default ones."""
        return None if self.is_default else Pipeline((self.graph_passes, SCHEDULE_PIPELINE, PLAN_PIPELINE))


@dataclass(slots=True, frozen=True)
class Result:
    """The result of a search: the point, and rows of the table for what was tried in the program."""

    point: Point
    rows: tuple[Choice, ...]


@dataclass(slots=True, frozen=True)
class _Step:
    """Another value of one decision: what it is about, as the table shows it, and the point with it."""

    about: str
    where: str
    candidate: str
    change: Callable[[Point], Point]

    def row(self, seconds: float, reason: str, chosen: bool) -> Choice:
        """The row of the table; ``seconds`` of the whole program."""
        return Choice(self.about, self.where, self.candidate, seconds, reason, chosen)


class Programs:
    """Builds and runs the points of one program. ``inputs``: arguments of ``main``, copied for every program."""

    def __init__(self, mod: IRModule, how: BuildOptions, inputs: tuple[Any, ...]) -> None:
        self.mod, self.how, self.inputs = mod, how, inputs
        self.seen: list[Point] = []
        self.best = Point()
        self.default, self.expected = self._build_and_run(self.best)
        self.run = self.default

    def _build_and_run(self, point: Point) -> tuple[Callable[[], Any], list[np.ndarray]]:
        """A call of a point's program, and its results."""
        self.seen.append(point)
        found = build(
            point.module(self.mod), self.how.target, exec_mode=self.how.exec_mode, pipeline=point.passes,
            tir_pipeline=self.how.tir_pipeline,
        )  # fmt: skip
        main, given = found["main"], copies(self.inputs)
        results = [array.copy() for array in leaves(main(*given))]
        return lambda: main(*given), results

    def try_step(self, step: _Step, worth: float) -> Choice:
        """Make the point of a step the best if it is ``worth`` times as fast; the row of the table."""
        point, seconds, gain = step.change(self.best), float("nan"), 0.0
        if len(self.seen) >= TRIALS:
            return step.row(seconds, f"not tried: {TRIALS} programs were built", False)
        try:
            run, results = self._build_and_run(point)
        except UnityError as error:
            return step.row(seconds, f"failed: {error.message}", False)
        except (RuntimeError, ValueError, TypeError) as error:  # of a library's kernel
            return step.row(seconds, f"failed: {type(error).__name__}: {error}", False)
        if not all([allclose(a, b) for a, b in zip(self.expected, results, strict=True)]):
            return step.row(seconds, "the result of the program differs", False)
        seconds, gain = _compare_speed(self.run, run)
        if gain >= worth:  # once more: of many decisions some look better by chance
            seconds, gain = min([(seconds, gain), _compare_speed(self.run, run)], key=lambda pair: pair[1])
        if gain >= worth:
            self.best, self.run = point, run
        return step.row(seconds, f"{gain:.2f} times as fast as the best before", gain >= worth)

    def verdict(self) -> Choice:
        """The row of the best program beside the default; the default takes its place where it is not slower."""
        seconds, gain = _compare_speed(self.default, self.run)
        if gain < NOT_SLOWER:
            self.best, self.run = Point(), self.default
        reason = f"{gain:.2f} times as fast as the default"
        return Choice("program", "", "with all of these", seconds, reason, gain >= NOT_SLOWER)


def _compare_speed(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the second of two programs, and how many times as fast it is as the first: runs in turns, and the smallest of the
    ratios of fastest runs, of lower quartiles and of medians."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in (first, second):
        run()
    while len(times[0]) < ROUNDS or sum(times[0]) + sum(times[1]) < 4 * alone.BUDGET:
        for run, taken in zip((first, second), times):
            begin = time.perf_counter()
            run()
            taken.append(time.perf_counter() - begin)
    ranks = [np.quantile(taken, (0.0, 0.25, 0.5)) for taken in times]
    return float(ranks[1][0]), float(np.min(ranks[0] / ranks[1]))


def example_arguments(mod: IRModule, examples: Any) -> tuple[Any, ...] | str:
    """Arguments for ``main``: the examples, and random tensors for the parameters behind them; or why there are none."""
    main = mod.functions.get("main")
    if not isinstance(main, Function):
        return "the module has no graph function main"
    given, sizes = as_inputs(examples)[: len(main.params)], dict[Var, int]()
    for param, value in zip(main.params, given):
        extents = dims(param.ty) if isinstance(param.ty, TensorType) else None
        for extent, size in zip(extents or (), getattr(value, "shape", ())):
            if isinstance(extent, Var):
                sizes.setdefault(extent, int(size))
    args, rng = list(given), np.random.default_rng(0)
    for param in main.params[len(given) :]:
        ty = param.ty
        extents = dims(ty) if isinstance(ty, TensorType) else None
        if not isinstance(ty, TensorType) or extents is None or ty.dtype is None:
            return f"nothing is known of the argument {param.name}: give example_inputs"
        shape = [e.value if type(e) is IntImm else evaluate(e, sizes) for e in extents]
        if None in shape:
            return f"the sizes of {param.name} are open: give example_inputs"
        args.append(random_tensor(rng, tuple([n for n in shape if n is not None]), ty.dtype.name))
    return tuple(args)


def why_not_measured(how: BuildOptions) -> str:
    """The reason why programs of a build are not measured as a whole; "" where they are."""
    if how.pipeline is not None:
        return "pipeline= has passes of its own"
    if backend_of(target(how.target)).graph_pipeline is not None:
        return "the target has graph passes of its own"
    return ""


def decide(mod: IRModule, how: BuildOptions, measured: Mapping[Key, Measured]) -> Result:
    """The decisions about a program whose calls were measured alone."""
    problem = why_not_measured(how)
    inputs = problem or example_arguments(mod, how.examples)
    try:
        programs = None if isinstance(inputs, str) else Programs(mod, how, inputs)
    except UnityError as error:
        programs, inputs = None, error.message
    if programs is None:
        point = Point({key: found.kernels for key, found in measured.items() if any(found.kernels)})
        return Result(point, (Choice("program", "", OURS, float("nan"), f"not measured as a whole: {inputs}", False),))
    with target(how.target):
        rows = tuple(_search(programs, measured))
    return Result(programs.best, rows)


def _search(programs: Programs, measured: Mapping[Key, Measured]) -> Iterator[Choice]:
    """Try the decisions one after the other; a row for each."""
    fastest = {key: found.kernels for key, found in measured.items() if any(found.kernels)}
    if fastest:
        first = _Step("program", "", "the kernels that are fastest alone", lambda point: Point(fastest))
        yield programs.try_step(first, NOT_SLOWER)
    for step in _steps(programs, measured):
        if step.change(programs.best) != programs.best:
            yield programs.try_step(step, WORTH)
    if programs.best != Point():
        yield programs.verdict()


def _steps(programs: Programs, measured: Mapping[Key, Measured]) -> Iterator[_Step]:
    """Other values of decisions; those of fusion are found in the program that the others made."""
    yield from _kernel_steps(measured)
    yield from _layout_steps(programs.mod)
    yield from _fusion_steps(programs.best.module(programs.mod), programs.best, programs.how)


def _kernel_steps(measured: Mapping[Key, Measured]) -> Iterator[_Step]:
    """Other kernels of the calls, those that take longest first."""
    for key, found in sorted(measured.items(), key=lambda pair: -pair[1].seconds):
        if len(set(found.kernels)) > 1:
            continue  # one for each size
        for kernel in dict.fromkeys([found.kernels[0], *found.near]):
            yield _Step(
                key[0], found.rows[0].shape, kernel_name(kernel), partial(Point.computed_by, key=key, kernel=kernel)
            )


def _layout_steps(mod: IRModule) -> Iterator[_Step]:
    """Channels first for each convolution that the layout pass changes, channels last for all where it changes none."""
    before, after = convolution_texts(mod), convolution_texts(convert_layout(mod))
    moved = [text for text in before if text not in after]
    for text in moved:
        yield _Step("layout", text, "channels first", partial(Point.keeping, text=text))
    if before and not moved:
        yield _Step("layout", "all convolutions", "channels last", Point.converted)


def _fusion_steps(mod: IRModule, point: Point, how: BuildOptions) -> Iterator[_Step]:
    """Results that are stored instead of used on, those of programs with most calls first."""
    steps = [step.name for step in GRAPH_PIPELINE]
    lowered = Pipeline(point.graph_passes.passes[: steps.index(fuse_ops.name)])(check(mod, configure(how.target)))
    for name in fused_programs(lowered):
        yield _Step("fusion", name, "stored", partial(Point.storing, name=name))
