"""Space generators: from a program to its sketches. ``PostOrderApply`` asks rules block by block, ``ScheduleFn`` is a function of a
user (a template), ``SpaceGeneratorUnion`` joins several.

A rule is any object with ``apply(sch, block) -> list of schedules`` (`schedule_rule.py`); what it returns goes on to the next rule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.module import IRModule
from ...ir.stmt import Block
from ...ir.walk import collect
from ...support.arguments import guarded_class
from ...support.errors import ScheduleError
from ...transform.schedule import Schedule
from ..core.part import initialize_part, is_for_processor
from ..core.tune_context import MAIN, SpaceGenerator, TuneContext
from .postproc import Postproc
from .schedule_rule import ScheduleRule
from .sketch import decision_sketch, start

FROM_TARGET = "from-target"
"""The parts that a kind of targets has."""


def _is_from_target(kind: str) -> bool:
    """True for the word that leaves parts to the target, False for a kind of targets. Raises ScheduleError E401 for other text."""
    if kind != FROM_TARGET and is_for_processor(kind) is None:
        raise ScheduleError("E401", f"no kind of targets {kind!r}", help=f"{FROM_TARGET}, llvm or cuda")
    return kind == FROM_TARGET


class _Space(SpaceGenerator):
    """The parts that all spaces take: rules, steps that finish candidates, mutators."""

    def __init__(
        self, sch_rules: Sequence[Any] | str = (), postprocs: Sequence[Any] | str | None = None,
        mutator_probs: Mapping[Any, float] | str | None = None,
    ) -> None:  # fmt: skip
        if isinstance(sch_rules, str):
            sch_rules = [] if _is_from_target(sch_rules) else ScheduleRule.create(sch_rules)
        if isinstance(postprocs, str):
            postprocs = None if _is_from_target(postprocs) else Postproc.create(postprocs)
        if isinstance(mutator_probs, str):
            _is_from_target(mutator_probs)
            mutator_probs = None  # those of the search are for all targets
        self.sch_rules = [ScheduleRule.create(rule) for rule in sch_rules]
        self.postprocs = None if postprocs is None else [Postproc.create(one) for one in postprocs]
        self.mutator_probs = None if mutator_probs is None else dict(mutator_probs)

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task, and tell the parts."""
        for part in (*self.sch_rules, *(self.postprocs or ()), *(self.mutator_probs or ())):
            initialize_part(part, context)


@guarded_class
class PostOrderApply(_Space, names=("post-order-apply",)):
    """The sketch of the default build, and those of ``sch_rules``: one rule after the other on every block, from the root and the
    last to the first.

    ``sch_rules``: rules, or "llvm" for TVM's of a processor. ``f_block_filter(block)`` says which blocks rules see.
    """

    def __init__(
        self, sch_rules: Sequence[Any] | str = (), postprocs: Sequence[Any] | str | None = None,
        mutator_probs: Mapping[Any, float] | str | None = None, *, f_block_filter: Callable[[Block], bool] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter
        self.context: TuneContext | None = None

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task, and tell the parts."""
        super().initialize_with_tune_context(context)
        self.context = context

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The sketches of a program."""
        assert self.context is not None, "the generator was not given its task"
        return [decision_sketch(self.context)] + (self._sketches(mod) if self.sch_rules else [])

    def _sketches(self, mod: IRModule) -> list[Schedule]:
        """Return what rules make of a program, without the program as it is."""
        assert self.context is not None
        sketches = [start(mod, seed=self.context.rand_state)]
        for rule in self.sch_rules:
            sketches = [made for sch in sketches for made in self._apply_to_blocks(rule, sch)]
        return [sch for sch in sketches if sch.trace.simplified().insts]

    def _apply_to_blocks(self, rule: ScheduleRule, sch: Schedule) -> list[Schedule]:
        """The schedules that a rule makes of the blocks of a schedule."""
        inner = [block for block in collect(sch.mod.prim_funcs()[MAIN].body, Block) if block.iter_vars]
        blocks = [sch.get(sch.get_block("root")), *reversed(inner)]
        sketches = [sch]
        for name in [block.name for block in blocks if self.f_block_filter is None or self.f_block_filter(block)]:
            sketches = [made for one in sketches for made in _apply_rule(rule, one, name)]
        return sketches


def _apply_rule(rule: ScheduleRule, sch: Schedule, name: str) -> list[Schedule]:
    """A rule on a block, if it still stands; where a step of the rule is refused, the schedule without it."""
    kept = sch.copy()
    try:
        schedules = rule.apply(sch, sch.get_block(name))
    except ScheduleError:
        return [kept]
    return _schedules(schedules, sch)


def _schedules(made: Any, sch: Schedule) -> list[Schedule]:
    """The schedules that a user's function or rule gave back, None for the one that it was given. Raises ScheduleError E428."""
    found = [sch] if made is None else list(made) if isinstance(made, (list, tuple)) else [made]
    for one in found:
        if not isinstance(one, Schedule):
            text = f"a space is made of schedules, the function gave a {type(one).__name__}"
            raise ScheduleError(
                "E428", text, help="return the schedule, a list of schedules, or None for the one it was given"
            )
    return found


@guarded_class
class ScheduleFn(_Space, names=("schedule-fn",)):
    """The space of a function ``f(sch)`` that schedules with sampling steps; it may return schedules of its own."""

    def __init__(
        self, sch_fn: Callable[[Schedule], Any], sch_rules: Sequence[Any] | str = (),
        postprocs: Sequence[Any] | str | None = None, mutator_probs: Mapping[Any, float] | str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn
        self.rng = random.Random()

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task, and tell the parts."""
        super().initialize_with_tune_context(context)
        self.rng = random.Random(context.rand_state)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """One run of the function. Raises ScheduleError E428 where it gives something else than schedules."""
        sch = start(mod, seed=self.rng.randrange(1, 2**31 - 1))
        return _schedules(self.sch_fn(sch), sch)


@guarded_class
class SpaceGeneratorUnion(_Space, names=("union",)):
    """The sketches of several generators."""

    def __init__(
        self, space_generators: Sequence[SpaceGenerator], sch_rules: Sequence[Any] | str = (),
        postprocs: Sequence[Any] | str | None = None, mutator_probs: Mapping[Any, float] | str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = list(space_generators)

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task, and tell the parts."""
        super().initialize_with_tune_context(context)
        for generator in self.space_generators:
            initialize_part(generator, context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The sketches of all."""
        return [sch for generator in self.space_generators for sch in generator.generate_design_space(mod)]


create = SpaceGenerator.create
PySpaceGenerator = SpaceGenerator

__all__ = [
    "PostOrderApply", "PySpaceGenerator", "ScheduleFn", "SpaceGenerator", "SpaceGeneratorUnion", "create",
]  # fmt: skip
