"""Space generators: from a program to its sketches. ``PostOrderApply`` asks rules block by block, ``ScheduleFn`` is a function of a
user (a template), ``SpaceGeneratorUnion`` joins several.

A rule is any object with ``apply(sch, block) -> list of schedules``; what it returns goes on to the next rule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Protocol

from ...ir.module import IRModule
from ...ir.stmt import Block
from ...ir.walk import collect
from ...support.errors import ScheduleError
from ...transform.schedule import BlockRV, Schedule
from ..core.tune_context import MAIN, SpaceGenerator, TuneContext
from .sketch import decision_sketch, start


class ScheduleRule(Protocol):
    """Makes of a schedule, at one of its blocks, one or several: itself, where it has nothing to do."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]: ...


class PostOrderApply:
    """The sketch of the default build, and those of ``sch_rules``, applied to every block from the last to the first."""

    def __init__(self, sch_rules: Sequence[ScheduleRule] = ()) -> None:
        self.sch_rules = list(sch_rules)
        self.context: TuneContext | None = None

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task."""
        self.context = context

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The sketches of a program."""
        assert self.context is not None, "the generator was not given its task"
        return [decision_sketch(self.context)] + (self._sketches(mod, self.sch_rules) if self.sch_rules else [])

    def _sketches(self, mod: IRModule, rules: Sequence[ScheduleRule]) -> list[Schedule]:
        """Return what rules make of a program, without the program as it is."""
        assert self.context is not None
        sketches = [start(mod, seed=self.context.rand_state)]
        names = [block.name for block in collect(mod.prim_funcs()[MAIN].body, Block) if block.iter_vars]
        for name in reversed(names):
            for rule in rules:
                sketches = [made for sch in sketches for made in _applied(rule, sch, name)]
        return [sch for sch in sketches if sch.trace.simplified().insts]


def _applied(rule: ScheduleRule, sch: Schedule, name: str) -> list[Schedule]:
    """A rule on a block, if it still stands; where a step of the rule is refused, the schedule without it."""
    kept = sch.copy()
    try:
        made = rule.apply(sch, sch.get_block(name))
    except ScheduleError:
        return [kept]
    return _schedules(made, sch)


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


class ScheduleFn:
    """The space of a function ``f(sch)`` that schedules with sampling steps; it may return schedules of its own."""

    def __init__(self, sch_fn: Callable[[Schedule], Any]) -> None:
        self.sch_fn = sch_fn
        self.rng = random.Random()

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task."""
        self.rng = random.Random(context.rand_state)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """One run of the function. Raises ScheduleError E428 where it gives something else than schedules."""
        sch = start(mod, seed=self.rng.randrange(1, 2**31 - 1))
        return _schedules(self.sch_fn(sch), sch)


class SpaceGeneratorUnion:
    """The sketches of several generators."""

    def __init__(self, space_generators: Sequence[SpaceGenerator]) -> None:
        self.space_generators = list(space_generators)

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task."""
        for generator in self.space_generators:
            generator.initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The sketches of all."""
        return [sch for generator in self.space_generators for sch in generator.generate_design_space(mod)]


def create(kind: str | SpaceGenerator | FunctionType) -> SpaceGenerator:
    """A generator by its name in TVM, of a function, or as it is. Raises ScheduleError E428."""
    if isinstance(kind, str):
        if kind == "post-order-apply":
            return PostOrderApply()
        raise ScheduleError(
            "E428", f"no space generator {kind!r}", help="post-order-apply, or a function of a schedule"
        )
    return ScheduleFn(kind) if isinstance(kind, FunctionType) else kind


__all__ = ["PostOrderApply", "ScheduleFn", "ScheduleRule", "SpaceGeneratorUnion", "create"]
