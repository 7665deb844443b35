"""``TuneContext``: one task: the program, its target, how its space is made and how it is searched.

Not here: spaces and searches; they are asked through ``SpaceGenerator`` and ``SearchStrategy``.
"""

from __future__ import annotations

import copy
import os
import random
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...ffi.targets.target import Target, target as make_target
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...support.arguments import checked_class
from ...support.errors import ScheduleError
from ...transform.infra.backend import Machine, backend_of
from ...transform.schedule import Schedule
from .arg_info import ArgInfo, Sizes, TensorInfo, other_size
from .measure_candidate import MeasureCandidate
from .part import Part, check_numbers, clone_part, copied, given, initialize_part, is_for_processor, take_task

MAIN = "main"
"""Name of the program in the module of a task."""


class Measured(Protocol):
    """The result of a candidate: seconds of its runs, or why there are none."""

    @property
    def run_secs(self) -> Sequence[float] | None: ...
    @property
    def error_msg(self) -> str | None: ...


class CostModel(metaclass=Part):
    """Ranks candidates: a larger score is a better candidate."""

    what = "cost model"

    @abstractmethod
    def update(self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Learn from candidates that ran."""

    @abstractmethod
    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Sequence[float]:
        """The scores."""

    def save(self, path: str | Path) -> None:
        """Write what was learnt. Raises ScheduleError E461: this model has no file."""
        raise ScheduleError("E461", f"a {type(self).__name__} writes no file", help="save() of linear and trees does")

    def load(self, path: str | Path) -> None:
        """Read what ``save`` wrote. Raises ScheduleError E461: this model has no file."""
        raise ScheduleError("E461", f"a {type(self).__name__} reads no file", help="load() of linear and trees does")


class SpaceGenerator(metaclass=Part):
    """Gives the sketches of a program: schedules whose sampling steps span the space; the first is the default build.

    ``postprocs`` finish candidates with steps of their own (None: those of the target); ``mutator_probs`` are the mutators of an
    evolutionary search and how often each is tried (None: those of the search).
    """

    what, usual = "space generator", "post-order-apply"
    initialize_with_tune_context, clone = take_task, copied
    sch_rules: Sequence[Any] = ()
    postprocs: Sequence[Any] | None = None
    mutator_probs: Mapping[Any, float] | None = None

    @classmethod
    def create(cls, kind: Any = "", *args: Any, **options: Any) -> Any:
        """As for every part; a function of a schedule is a space as well, and a kind of targets that of its rules."""
        if callable(kind) and not hasattr(kind, "generate_design_space"):
            return Part.create(cls, "schedule-fn", kind, *args, **options)
        if is_for_processor(kind) is not None:
            return Part.create(cls, "post-order-apply", kind, kind, kind)
        return Part.create(cls, kind, *args, **options)

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The sketches."""


class SearchStrategy(metaclass=Part):
    """Gives candidates in rounds, the default build first, and hears how fast they were."""

    what, usual = "search strategy", "evolutionary"
    initialize_with_tune_context, clone = take_task, copied

    @abstractmethod
    def pre_tuning(
        self, max_trials: int, num_trials_per_iter: int, design_spaces: Sequence[Schedule], database: Any = None,
        cost_model: CostModel | None = None,
    ) -> None:  # fmt: skip
        """Begin: ``max_trials`` candidates, ``num_trials_per_iter`` in a round."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next round; None when there is none."""

    @abstractmethod
    def notify_runner_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Hear of a round."""

    def look_ahead(self) -> None:
        """Draw what the next round is chosen from; it is called while a round is built, and need not do anything."""

    def post_tuning(self) -> None:
        """End."""


@checked_class
@dataclass(init=False, eq=False)
class TuneContext:
    """A task. ``mod`` has one program, ``main``; ``constants`` are the positions of its parameters that are constants at every
    call. ``rand_state`` starts every random choice (-1: from the system). ``default``: the default build, once it is made.

    ``sizes``: those of its symbols at which it is timed, by name or variable; results are compared at ``other_sizes`` as well
    (without them odd ones). Raises ScheduleError E407 for another module.
    """

    mod: IRModule
    target: Target
    space_generator: SpaceGenerator | None
    search_strategy: SearchStrategy | None
    task_name: str
    rand_state: int
    num_threads: int
    constants: tuple[int, ...]
    sizes: Sizes
    other_sizes: Sizes
    default: MeasureCandidate | None

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        *,
        target: Target | str | None = None,
        space_generator: SpaceGenerator | str | Any = None,
        search_strategy: SearchStrategy | str | None = None,
        task_name: str = MAIN,
        rand_state: int | None = -1,
        num_threads: int | str | None = None,
        constants: Collection[int] = (),
        sizes: Sizes | None = None,
        other_sizes: Sizes | None = None,
    ) -> None:
        self.mod = IRModule({}, {}, {}) if mod is None else one_program(mod)
        self.target = Target(target) if target is not None else make_target()
        self.space_generator = SpaceGenerator.create(space_generator)
        self.search_strategy = SearchStrategy.create(search_strategy)
        self.task_name = task_name
        is_given = rand_state is not None and rand_state >= 0
        self.rand_state = rand_state if is_given else random.SystemRandom().randrange(1, 2**31 - 1)  # type: ignore[assignment]
        check_cores(num_threads=num_threads)
        self.num_threads = num_threads if isinstance(num_threads, int) else os.cpu_count() or 1
        self.constants = tuple(sorted(constants))
        self.sizes = dict(sizes or {})
        odd = {key: other_size(size) for key, size in self.sizes.items()}
        self.other_sizes = odd if other_sizes is None else other_sizes
        self.default = None
        self.initialize()

    @property
    def func(self) -> PrimFunc:
        """The program. Raises ScheduleError E407 where the task was made without one."""
        if MAIN not in self.mod.functions:
            raise ScheduleError("E407", "the task has no program", help="TuneContext(mod, ...)")
        return self.mod.prim_funcs()[MAIN]

    @property
    def args_info(self) -> list[ArgInfo]:
        """The arguments that it is timed with. Raises ScheduleError E428 where a size is not known."""
        return TensorInfo.from_prim_func(self.func, self.sizes)

    @property
    def other_args_info(self) -> list[ArgInfo]:
        """The arguments with which results are compared as well; none where they are the same."""
        found = TensorInfo.from_prim_func(self.func, self.other_sizes)
        return found if found != self.args_info else []

    @property
    def machine(self) -> Machine:
        """The machine of the target."""
        return backend_of(self.target).machine(self.target)

    def initialize(self) -> None:
        """Let the parts know the task."""
        for part in (self.space_generator, self.search_strategy):
            initialize_part(part, self)

    def clone(self) -> TuneContext:
        """The same task with parts of its own: those that were given may serve several tasks."""
        copied = copy.copy(self)
        copied.space_generator, copied.search_strategy = (
            clone_part(self.space_generator),
            clone_part(self.search_strategy),
        )
        copied.initialize()
        return copied

    def generate_design_space(self) -> list[Schedule]:
        """The sketches of the program. Raises ScheduleError E428 without a space generator."""
        if self.space_generator is None:
            raise ScheduleError(
                "E428", "the task has no space generator", help='TuneContext(..., space_generator="post-order-apply")'
            )
        method = "generate_design_space"
        with self.target:
            made = given(self.space_generator, method, self.space_generator.generate_design_space(self.mod), Sequence)
        return [given(self.space_generator, method, sch, Schedule) for sch in made]

    # ---- the strategy

    @property
    def strategy(self) -> SearchStrategy:
        """The search strategy. Raises ScheduleError E428 where there is none."""
        if self.search_strategy is None:
            raise ScheduleError(
                "E428", "the task has no search strategy", help='TuneContext(..., search_strategy="evolutionary")'
            )
        return self.search_strategy

    def pre_tuning(
        self, max_trials: int, num_trials_per_iter: int = 64, design_spaces: Sequence[Schedule] | None = None,
        database: Any = None, cost_model: CostModel | None = None,
    ) -> None:  # fmt: skip
        """Begin to search, in ``design_spaces`` or the space of the task."""
        spaces = self.generate_design_space() if design_spaces is None else design_spaces
        self.strategy.pre_tuning(max_trials, num_trials_per_iter, spaces, database, cost_model)

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next round; None when there is none."""
        return self.strategy.generate_measure_candidates()

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[Measured]
    ) -> None:
        """Tell the strategy how a round went."""
        self.strategy.notify_runner_results(measure_candidates, results)

    def post_tuning(self) -> None:
        """End the search."""
        self.strategy.post_tuning()


def check_cores(**given: int | str | None) -> None:
    """Raise ScheduleError E401 for what is not a number of processors, "logical" or "physical": all of them."""
    for name, number in given.items():
        if not isinstance(number, str):
            check_numbers(1, **{name: number})
        elif number not in ("logical", "physical"):
            raise ScheduleError("E401", f"{name} is {number!r}", help='a number, "logical" or "physical"')


def one_program(mod: IRModule | PrimFunc) -> IRModule:
    """A module of the one program that is given, under the name ``main``."""
    members = [mod] if isinstance(mod, PrimFunc) else list(mod.functions.values())
    programs = [fn for fn in members if isinstance(fn, PrimFunc)]
    if len(members) != 1 or not programs:
        text = f"a task is one tensor program, the module has {len(programs)} and {len(members) - len(programs)} other functions"
        raise ScheduleError("E407", text, help="extract_tasks gives the tensor programs of a module")
    fn = replace(programs[0], attrs={**programs[0].attrs, "global_symbol": MAIN})
    return IRModule({MAIN: fn}, {}, {})


__all__ = [
    "MAIN",
    "CostModel",
    "Measured",
    "SearchStrategy",
    "SpaceGenerator",
    "TuneContext",
    "check_cores",
    "one_program",
]
