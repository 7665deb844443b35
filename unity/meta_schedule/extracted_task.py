"""``ExtractedTask``: a tensor program of a module that is worth a search, and how often it is called.

Tasks stand as they reach the rules of default schedules, after the graph passes; equal programs are one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ffi.targets.target import Target
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..support.errors import ScheduleError
from ..transform.default_schedule.apply import calls_of, constant_parameters
from ..transform.default_schedule.base import SCHEDULED
from ..transform.infra.backend import target_of
from ..vm.stages import check, configure, graph
from .core.arg_info import TensorInfo
from .core.tune_context import one_program
from .database.workload import workload_hash


@dataclass(slots=True, frozen=True)
class ExtractedTask:
    """A task. ``weight``: calls in the module; ``dispatched``: the program as a list, as TVM has it; ``constants``: positions of
    parameters that are constants at every call."""

    task_name: str
    mod: IRModule
    target: Target
    weight: int = 1
    constants: tuple[int, ...] = ()
    dispatched: list[IRModule] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Extracted:
    """The tasks of a module, and why other programs of it are none, by name."""

    tasks: list[ExtractedTask]
    others: dict[str, str]


def extracted(mod: IRModule, target: Target | str | None = None, names: Sequence[str] | None = None) -> Extracted:
    """The tasks of a module as a build makes its tensor programs; ``names``: those whose names have one of these texts."""
    config = configure(target)
    with config.target:
        return programs_in(graph(check(mod, config), config), config.target, names)


def programs_in(mod: IRModule, target: Target, names: Sequence[str] | None = None) -> Extracted:
    """The tensor programs of a module as they are, as tasks."""
    calls = calls_of(mod)
    tasks: dict[tuple[str, str], ExtractedTask] = {}
    others: dict[str, str] = {}
    for name, fn in mod.prim_funcs().items():
        problem = _no_task(name, fn, names)
        if problem:
            others[name] = problem
            continue
        place = target_of(fn, target)
        constants = tuple(sorted(constant_parameters(calls.get(name, []))))
        key = str(place), workload_hash(fn, constants)
        program, weight = one_program(fn), max(1, len(calls.get(name, [])))
        known = tasks.get(key)
        if known is not None:
            name, weight = known.task_name, weight + known.weight
        tasks[key] = ExtractedTask(name, program, place, weight, constants, [program])
    return Extracted(list(tasks.values()), others)


def _no_task(name: str, fn: PrimFunc, names: Sequence[str] | None) -> str:
    """The reason why a program is not tuned; "" where it is."""
    if fn.attrs.get(SCHEDULED):
        return "it is scheduled already"
    if names is not None and not any([part in name for part in names]):
        return "it was not asked for"
    try:
        TensorInfo.from_prim_func(fn)
    except ScheduleError as error:
        return error.message
    return ""


__all__ = ["Extracted", "ExtractedTask", "extracted", "programs_in"]
