"""The sketch of the default build: the decisions of rules and passes as sampling steps, each with its own choice first.

``decision_sketch`` writes them, ``candidate_of`` says what a build makes of a schedule. Invariant: the sketch with the decisions
that it has at first is the default build. Not here: rules and passes, and what they choose.
"""

from __future__ import annotations

import random

from ...ffi.native.pool import num_threads
from ...ir.function import PrimFunc, is_scheduled
from ...ir.module import IRModule
from ...ir.stmt import Block
from ...ir.walk import collect
from ...transform.default_schedule.apply import schedule_function, schedule_nests
from ...transform.default_schedule.base import Scheduled, mark_scheduled
from ...transform.default_schedule.common.choices import SCHEDULE, Choice, choices_of
from ...transform.infra.backend import backend_of
from ...transform.infra.passes import Pipeline
from ...transform.schedule import Schedule
from ...transform.schedule.core.registry import STEP
from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import MAIN, TuneContext
from .paths import decided_in

OWN, CHANGES = 0.5, 4.0
"""Probability of the own choice where decisions are drawn, at least; decisions that are drawn otherwise on average, at most: what
is far from the default is seldom better."""
PARALLEL = "parallel"
"""The decision that loops are shared between threads."""
LOOKS = 8
"""Random decisions that are tried for decisions which appear after others only."""
LAST = ("inject_double_buffer", "split_host_device")
"""The pass before which programs are compared and described: loops stand as loops, and all decisions are taken; kernels of a device
are whole."""


def start(mod: IRModule, seed: int | None = None) -> Schedule:
    """A schedule whose refusals are not drawn."""
    return Schedule(mod, seed=seed, error_render_level="none")


def scheduled_by_rules(context: TuneContext, fn: PrimFunc) -> Scheduled:
    """The program as the rules schedule it. What they leave is scheduled nest by nest (`lowered`)."""
    rules = backend_of(context.target).rules
    found = schedule_function(MAIN, fn, set(context.constants), context.machine, rules, quiet=True)
    return found if found is not None else Scheduled(fn, "loops by passes")


def lowered(context: TuneContext, fn: PrimFunc) -> PrimFunc:
    """A program that rules scheduled with all its loops in place, before they become vectors and copies, and buffers with their
    axes."""
    passes = backend_of(context.target).pipeline.passes
    end = next((place for place, one in enumerate(passes) if one.name in LAST), len(passes))
    pipeline = Pipeline((schedule_nests, *passes[:end]))
    return pipeline(IRModule({MAIN: fn}, {}, {})).prim_funcs()[MAIN]


Choices = dict[tuple[str, str], Choice]
"""Decisions by block and name, in order."""


def choices_in(context: TuneContext) -> Choices:
    """The decisions that rules and passes take about the program of a task, those after other decisions included."""
    rng = random.Random(0)
    found = _decisions_of(context, context.func)
    for _ in range(LOOKS if found else 0):
        drawn = start(context.mod)
        _annotate(drawn, {key: rng.choice(choice.candidates) for key, choice in found.items()})
        found = {**_decisions_of(context, drawn.mod.prim_funcs()[MAIN]), **found}
    return found


def _decisions_of(context: TuneContext, fn: PrimFunc) -> Choices:
    with choices_of() as seen:
        lowered(context, scheduled_by_rules(context, fn).func)
    # blocks that rules make take no annotation here, and one thread shares nothing
    own = {block.name for block in collect(context.func.body, Block)}
    found = [c for c in seen if len(c.candidates) > 1 and c.block in own]
    shares = num_threads() > 1
    return {(c.block, c.name): c for c in found if shares or not c.name.endswith(PARALLEL)}


def _annotate(sch: Schedule, decisions: dict[tuple[str, str], object]) -> None:
    """Put decisions on the blocks they are about, beside those that the program was given."""
    by_block: dict[str, dict[str, object]] = {}
    for (block, name), value in decisions.items():
        by_block.setdefault(block, {})[name] = value
    for block, values in by_block.items():
        place = sch.get_block(block)
        given = sch.get(place).annotations.get(SCHEDULE)
        if given is not None:
            sch.unannotate(place, SCHEDULE)
        sch.annotate(place, SCHEDULE, {**(given or {}), **values})


def decision_sketch(context: TuneContext) -> Schedule:
    """The program with every decision as a sampling step, taken as the default build takes it: what the program was given first."""
    sch = start(context.mod)
    drawn: dict[tuple[str, str], object] = {}
    choices, given = choices_in(context), decided_in(context.func)
    own = max(OWN, 1 - CHANGES / max(1, len(choices)))
    for key, choice in choices.items():
        first = choice.answer(given[choice.block])
        candidates = [first, *[one for one in choice.candidates if one != first]]
        others = len(candidates) - 1
        probs = [own, *[(1 - own) / others] * others]
        drawn[key] = sch.sample_categorical(candidates, probs, decision=0)
    _annotate(sch, drawn)
    return sch


def candidate_of(context: TuneContext, sch: Schedule, is_default: bool = False) -> MeasureCandidate:
    """A schedule as a candidate: rules and passes take the decisions that it has; with steps of its own it stands as it is."""
    fn = sch.mod.prim_funcs()[MAIN]
    with context.target:
        if has_own_steps(sch):
            scheduled = Scheduled(mark_scheduled(fn), "its trace")
        else:
            scheduled = scheduled_by_rules(context, fn)
        return MeasureCandidate(sch, context.args_info, scheduled, lowered(context, scheduled.func), is_default)


def has_own_steps(sch: Schedule) -> bool:
    """True if a schedule does more than to say decisions: rules and passes leave it as it stands."""
    steps = [
        inst
        for inst in sch.trace.simplified(True).insts
        if inst.row.kind == STEP and inst.args.get("ann_key") != SCHEDULE
    ]
    return bool(steps) or is_scheduled(sch.mod.prim_funcs()[MAIN])


def default_candidate(context: TuneContext) -> MeasureCandidate:
    """The default build, made once for a task."""
    if context.default is None:
        context.default = candidate_of(context, start(context.mod), True)
    return context.default


__all__ = ["candidate_of", "choices_in", "decision_sketch", "default_candidate", "has_own_steps", "start"]
