"""``choose="measured"``: decisions about a program, each kept where the whole program becomes faster with it.

Kernels of calls (ours, or one of a library), the layout of convolutions, and which results are stored between kernels interact: a
kernel of a library computes no activation behind it, a convolution with channels first transposes what comes and goes. So a
decision is tried in the program as it stands, one after the other (coordinate descent), in turns with the best so far. Schedules
of the kernels themselves are the search of ``tune=``. Invariant: what is kept gives the default's results up to rounding.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...arith.evaluate import evaluate
from ...ffi.dtype import DataType
from ...ffi.library import LibraryKernel
from ...ffi.targets.target import target
from ...ffi.tensor import Tensor
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
from .sites import Candidate, Key, Site, Sizes, Tiles, estimate, example_sizes, sites_of, text_of, with_kernels

OURS = "unity"
TRIALS = 64
"""Most programs that are built for one."""
WORTH = 1.02
"""The gain over the best program so far from which another takes its place."""
NOT_SLOWER = 1.0
"""The same for what was decided beside the default."""
HOPELESS = 0.5
"""The gain of a kernel for all calls below which it is not tried for each."""
BUDGET = 0.02
"""Least seconds of runs of one program in a race."""
ROUNDS = 8
"""Least runs of two programs in turns."""


@dataclass(slots=True, frozen=True)
class Point:
    """Decisions about a program. ``kernels``: of calls that another one than ours computes; ``keep``: convolutions that stay with
    channels first; ``always``: the others have channels last though it seems too little to gain; ``unfused``: programs whose
    results are stored."""

    kernels: Mapping[Key, Candidate] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()
    always: bool = False
    unfused: frozenset[str] = frozenset()

    def module(self, mod: IRModule) -> IRModule:
        """The module with the kernels that are decided on."""
        return with_kernels(mod, self.kernels)

    def computed_by(self, keys: tuple[Key, ...], kernel: Candidate) -> Point:
        """With another kernel for some calls."""
        others = {k: known for k, known in self.kernels.items() if k not in keys}
        return replace(self, kernels=others if kernel is None else {**others, **dict.fromkeys(keys, kernel)})

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
class _Step:
    """Another value of one decision: what it is about, as the table shows it, the point with it, and why it is not tried."""

    about: str
    where: str
    candidate: str
    change: Callable[[Point], Point]
    problem: str = ""

    def row(self, seconds: float, reason: str, best: Point) -> Choice:
        """The row of the table; ``seconds`` of the whole program."""
        chosen = not self.problem and self.change(best) == best
        return Choice(self.about, self.where, self.candidate, seconds, reason, chosen)


class Programs:
    """Builds and runs the points of one program. ``inputs``: arguments of ``main``, copied for every program."""

    def __init__(self, mod: IRModule, how: BuildOptions, inputs: tuple[Any, ...]) -> None:
        self.mod, self.how, self.inputs = mod, how, inputs
        self.built = 0
        self.gain = float("nan")
        """That of the last step that was tried."""
        self.best = Point()
        self.default, self.expected = self._build_and_run(self.best)
        self.run = self.default

    def _build_and_run(self, point: Point) -> tuple[Callable[[], Any], list[np.ndarray]]:
        """A call of a point's program, and its results."""
        self.built += 1
        found = build(
            point.module(self.mod), self.how.target, exec_mode=self.how.exec_mode, pipeline=point.passes or self.how.pipeline,
            tir_pipeline=self.how.tir_pipeline,
        )  # fmt: skip
        main, given = found["main"], copies(self.inputs)
        results = [array.copy() for array in leaves(main(*given))]
        return lambda: main(*given), results

    def try_step(self, step: _Step) -> tuple[float, str]:
        """Make the point of a step the best if it is faster; the seconds of its program, and what came of it."""
        point = step.change(self.best)
        seconds = self.gain = float("nan")
        if step.problem or point == self.best:
            return seconds, step.problem or "as it is"
        if self.built >= TRIALS:
            return seconds, f"not tried: {TRIALS} programs were built"
        try:
            run, results = self._build_and_run(point)
        except UnityError as error:
            return seconds, f"failed: {error.message}"
        except (RuntimeError, ValueError, TypeError) as error:  # of a library's kernel
            return seconds, f"failed: {type(error).__name__}: {error}"
        if not all([allclose(a, b) for a, b in zip(self.expected, results, strict=True)]):
            return seconds, "the result of the program differs"
        seconds, gain = _compare_speed(self.run, run)
        if gain >= WORTH:  # once more: of many decisions some look better by chance
            seconds, gain = min([(seconds, gain), _compare_speed(self.run, run)], key=lambda pair: pair[1])
        self.gain = gain
        if gain >= WORTH:
            self.best, self.run = point, run
        return seconds, f"{gain:.2f} times as fast as the best before"

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
    while len(times[0]) < ROUNDS or sum(times[0]) + sum(times[1]) < 4 * BUDGET:
        for run, taken in zip((first, second), times):
            begin = time.perf_counter()
            run()
            taken.append(time.perf_counter() - begin)
    ranks = [np.quantile(taken, (0.0, 0.25, 0.5)) for taken in times]
    return float(ranks[1][0]), float(np.min(ranks[0] / ranks[1]))


def allclose(ours: np.ndarray, other: np.ndarray) -> bool:
    """True if two results differ by no more than the rounding of another order of sums."""
    a, b = ours.astype("float64"), other.astype("float64")
    scale = np.abs(a).max(initial=0.0)
    limit = 1e-2 * scale if ours.dtype.itemsize < 4 else 1e-4 * max(scale, 1.0)
    return bool(np.allclose(a, b, rtol=1e-2, atol=limit, equal_nan=True))


def _random_tensor(rng: np.random.Generator, shape: list[int], kind: DataType) -> Tensor:
    """Numbers of a normal distribution, or integers from 0 to 4."""
    if kind.is_float:
        return Tensor(rng.standard_normal(shape).astype("float32").astype(kind.numpy))
    return Tensor(rng.integers(0, 2 if kind.is_bool else 5, shape).astype(kind.numpy))


def example_arguments(mod: IRModule, examples: Any) -> tuple[Any, ...] | str:
    """Arguments for ``main``: the examples, and random tensors for the parameters behind them; or why there are none."""
    main = mod.functions.get("main")
    if not isinstance(main, Function):
        return "the module has no graph function main"
    args, sizes = list(as_inputs(examples)[: len(main.params)]), example_sizes(mod, examples)
    rng = np.random.default_rng(0)
    for param in main.params[len(args) :]:
        ty = param.ty
        extents = dims(ty) if isinstance(ty, TensorType) else None
        if not isinstance(ty, TensorType) or extents is None or ty.dtype is None:
            return f"nothing is known of the argument {param.name}: give example_inputs"
        shape = [evaluate(e, sizes) for e in extents]
        if None in shape:
            return f"the sizes of {param.name} are open: give example_inputs"
        args.append(_random_tensor(rng, [n for n in shape if n is not None], ty.dtype))
    return tuple(args)


def decide(mod: IRModule, how: BuildOptions, winograd: bool) -> tuple[Point, tuple[Choice, ...]]:
    """The decisions about a program, and a row of the table for each that was tried."""
    inputs = example_arguments(mod, how.examples)
    try:
        programs = None if isinstance(inputs, str) else Programs(mod, how, inputs)
    except UnityError as error:
        programs, inputs = None, error.message
    if programs is None:
        return Point(), (Choice("program", "", OURS, float("nan"), f"not measured: {inputs}", False),)
    with target(how.target):
        tried = [(step, *programs.try_step(step)) for step in _steps(programs, winograd)]
        last = [programs.verdict()] if programs.best != Point() else []
    return programs.best, (*[step.row(seconds, why, programs.best) for step, seconds, why in tried], *last)


def _steps(programs: Programs, winograd: bool) -> Iterator[_Step]:
    """Other values of decisions; those of fusion are found in the program that the others made. Passes that are not the default
    ones leave only the kernels open."""
    mod, how = programs.mod, programs.how
    yield from _kernel_steps(programs, sites_of(mod), example_sizes(mod, how.examples), winograd)
    if how.pipeline is None and backend_of(target(how.target)).graph_pipeline is None:
        yield from _layout_steps(mod)
        yield from _fusion_steps(programs.best.module(mod), programs.best, how)


def _kernel_steps(programs: Programs, sites: Mapping[Key, Site], sizes: Sizes, winograd: bool) -> Iterator[_Step]:
    """Other kernels: one for all the calls that it takes, then of each call, those that take longest by the estimate first. Calls
    that are too small a part of the program for any gain to show are left out."""
    anchors = {key: site.anchor(sizes) for key, site in sites.items()}
    times = {key: 0.0 if a is None else sites[key].count * estimate(a)[0] for key, a in anchors.items()}
    problems: dict[LibraryKernel | Tiles, dict[Key, str]] = defaultdict(dict)
    for key, site in sites.items():
        for kernel in site.candidates(winograd):
            problem = site.refuses(kernel, anchors[key])
            if not problem and times[key] * WORTH < (WORTH - 1) * sum(times.values()):
                problem = "not tried: the call is too small a part of the program"
            problems[kernel][key] = problem
    for kernel, found in problems.items():
        takes = tuple([key for key, problem in found.items() if not problem])
        if len(takes) > 1:
            change = partial(Point.computed_by, keys=takes, kernel=kernel)
            yield _Step("kernels", "", f"{kernel.name} for all calls", change)
            if programs.gain < HOPELESS:
                found |= dict.fromkeys(takes, "not tried: for all calls it is much slower")
    for key in sorted(sites, key=lambda key: -times[key]):
        anchor = anchors[key]
        where = text_of(anchor) if anchor is not None else " x ".join(key[1])
        yield _Step(key[0], where, OURS, partial(Point.computed_by, keys=(key,), kernel=None))
        for kernel in sites[key].candidates(winograd):
            change = partial(Point.computed_by, keys=(key,), kernel=kernel)
            yield _Step(key[0], where, kernel.name, change, problems[kernel][key])


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
