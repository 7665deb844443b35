"""``ExtractedTask``: a tensor program of a module that is worth a search, and how often it is called.

Tasks stand as they reach the rules of default schedules, after the graph passes; equal programs are one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..ffi.targets.target import Target
from ..ir.function import PrimFunc, is_scheduled
from ..ir.module import IRModule
from ..support.errors import ScheduleError
from ..transform.default_schedule.apply import calls_of, constant_parameters
from ..transform.infra.backend import target_of
from ..transform.infra.passes import Pipeline
from ..vm.stages import check, configure, graph
from .core.arg_info import Sizes, TensorInfo, check_sizes
from .core.graph_sizes import GraphSizes
from .core.tune_context import one_program
from .database.workload import workload_hash


@dataclass(slots=True, frozen=True)
class ExtractedTask:
    """A task. ``weight``: calls in the module; ``dispatched``: the program as a list, as TVM has it; ``constants``: positions of
    parameters that are constants at every call; ``sizes``: of its symbols; ``other_sizes``: at which results are compared as
    well."""

    task_name: str
    mod: IRModule
    target: Target
    weight: int = 1
    constants: tuple[int, ...] = ()
    dispatched: list[IRModule] = field(default_factory=list)
    sizes: Sizes = field(default_factory=dict)
    other_sizes: Sizes = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Extracted:
    """The tasks of a module, and why other programs of it are none, by name."""

    tasks: list[ExtractedTask]
    others: dict[str, str]


def extracted(
    mod: IRModule,
    target: Target | str | None = None,
    names: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    passes: Pipeline | None = None,
) -> Extracted:
    """The tasks of a module as a build makes its tensor programs. ``names``: those whose names have one of these texts; ``sizes``:
    of the symbols of its functions, by name; ``passes``: the graph passes, where they are not the default ones.

    Raises ScheduleError E428 for what is not a size, or has no symbol.
    """
    config = configure(target, pipeline=passes)
    check_sizes(sizes or {}, GraphSizes.names(mod))
    with config.target:
        return programs_in(graph(check(mod, config), config), config.target, names, sizes)


def programs_in(
    mod: IRModule, target: Target, names: Sequence[str] | None = None, sizes: Mapping[str, int] | None = None
) -> Extracted:
    """The tensor programs of a module as they are, as tasks."""
    calls, known = calls_of(mod), GraphSizes(mod, sizes or {})
    tasks: dict[tuple[str, str], ExtractedTask] = {}
    others: dict[str, str] = {}
    for name, fn in mod.prim_funcs().items():
        own, other = known.of(name, fn)
        problem = _no_task(name, fn, names, own)
        if problem:
            others[name] = problem
            continue
        own_target = target_of(fn, target)
        constants = tuple(sorted(constant_parameters(calls.get(name, []))))
        key = str(own_target), workload_hash(fn, constants)
        program, weight = one_program(fn), max(1, len(calls.get(name, [])))
        same = tasks.get(key)
        if same is not None:
            tasks[key] = replace(same, weight=weight + same.weight)
        else:
            tasks[key] = ExtractedTask(name, program, own_target, weight, constants, [program], own, other)
    return Extracted(list(tasks.values()), others)


def _no_task(name: str, fn: PrimFunc, names: Sequence[str] | None, sizes: Sizes) -> str:
    """The reason why a program is not tuned; "" where it is."""
    if is_scheduled(fn):
        return "it is scheduled already"
    if names is not None and not any([part in name for part in names]):
        return "it was not asked for"
    try:
        TensorInfo.from_prim_func(fn, sizes)
    except ScheduleError as error:
        return error.message
    return ""


__all__ = ["Extracted", "ExtractedTask", "extracted", "programs_in"]
