"""``TuneContext``: one task: the program, its target, how its space is made and how it is searched.

Not here: spaces and searches; they are asked through ``SpaceGenerator`` and ``SearchStrategy``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...ffi.targets.target import Target, target as make_target
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...support.errors import ScheduleError
from ...transform.infra.backend import Machine, backend_of
from ...transform.schedule import Schedule
from .arg_info import ArgInfo, Sizes, TensorInfo, other_size
from .measure_candidate import MeasureCandidate

MAIN = "main"
"""Name of the program in the module of a task."""


class Measured(Protocol):
    """The result of a candidate: seconds of its runs, or why there are none."""

    @property
    def run_secs(self) -> Sequence[float] | None: ...
    @property
    def error_msg(self) -> str | None: ...


class CostModel(Protocol):
    """Ranks candidates: a larger score is a better candidate."""

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]
    ) -> None: ...
    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Sequence[float]: ...


class SpaceGenerator(Protocol):
    """Gives the sketches of a program: schedules whose sampling steps span the space; the first is the default build."""

    def initialize_with_tune_context(self, context: TuneContext) -> None: ...
    def generate_design_space(self, mod: IRModule) -> list[Schedule]: ...


class SearchStrategy(Protocol):
    """Gives candidates in rounds, the default build first, and hears how fast they were."""

    def initialize_with_tune_context(self, context: TuneContext) -> None: ...
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Any = None,
        cost_model: CostModel | None = None,
    ) -> None: ...
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None: ...
    def notify_runner_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None: ...
    def post_tuning(self) -> None: ...


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
        mod: IRModule | PrimFunc,
        *,
        target: Target | str | None = None,
        space_generator: SpaceGenerator | None = None,
        search_strategy: SearchStrategy | None = None,
        task_name: str = MAIN,
        rand_state: int = -1,
        num_threads: int | None = None,
        constants: Collection[int] = (),
        sizes: Sizes | None = None,
        other_sizes: Sizes | None = None,
    ) -> None:
        self.mod = one_program(mod)
        self.target = Target(target) if target is not None else make_target()
        self.space_generator, self.search_strategy = space_generator, search_strategy
        self.task_name = task_name
        self.rand_state = rand_state if rand_state >= 0 else random.SystemRandom().randrange(1, 2**31 - 1)
        self.num_threads = num_threads or os.cpu_count() or 1
        self.constants = tuple(sorted(constants))
        self.sizes = dict(sizes or {})
        odd = {key: other_size(size) for key, size in self.sizes.items()}
        self.other_sizes = odd if other_sizes is None else other_sizes
        self.default = None

    @property
    def func(self) -> PrimFunc:
        """The program."""
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
            if part is not None:
                part.initialize_with_tune_context(self)

    def generate_design_space(self) -> list[Schedule]:
        """The sketches of the program."""
        assert self.space_generator is not None, "the task has no space generator"
        with self.target:
            return self.space_generator.generate_design_space(self.mod)


def one_program(mod: IRModule | PrimFunc) -> IRModule:
    """A module of the one program that is given, under the name ``main``."""
    members = [mod] if isinstance(mod, PrimFunc) else list(mod.functions.values())
    programs = [fn for fn in members if isinstance(fn, PrimFunc)]
    if len(members) != 1 or not programs:
        text = f"a task is one tensor program, the module has {len(programs)} and {len(members) - len(programs)} other functions"
        raise ScheduleError("E407", text, help="extract_tasks gives the tensor programs of a module")
    fn = replace(programs[0], attrs={**programs[0].attrs, "global_symbol": MAIN})
    return IRModule({MAIN: fn}, {}, {})


__all__ = ["MAIN", "CostModel", "Measured", "SearchStrategy", "SpaceGenerator", "TuneContext", "one_program"]
