"""``extract_tasks``, ``tune_relax``, ``compile_relax``: the tensor programs that a graph becomes, each weighted by its calls."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from ..ffi.targets.target import Target, target as make_target
from ..ir.function import Function
from ..ir.module import IRModule
from ..support.errors import OptionError
from ..transform.relax.params.bind_params import bind_params
from ..vm.build import build
from ..vm.executable.executable import Executable
from .core.tune_context import SearchStrategy, SpaceGenerator
from .database import Database
from .database.workload import check_equality
from .extracted_task import ExtractedTask, extracted
from .report import Row
from .tune import QueueOptions, nth_seed, show, tuned
from .tune_context import TuneContext


def extract_tasks(
    mod: IRModule | Function,
    target: Target | str | None = None,
    params: Mapping[str, Any] | None = None,
    module_equality: str = "structural",
    *,
    sizes: Mapping[str, int] | None = None,
) -> list[ExtractedTask]:
    """The tasks of a module: its tensor programs after the graph passes, with the number of their calls; equal ones are one task.

    ``params``: constants of ``main`` by name; ``sizes``: those of symbols, by name. Programs with symbols whose sizes do not follow
    are left out. Raises ScheduleError E428 for what is not a size, or has no symbol, E401 as `check_equality`.
    """
    check_equality(module_equality)
    return extracted(with_params(mod, params), target, None, sizes).tasks


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: str | Path | None = None,
    space: SpaceGenerator | str | Any = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    num_threads: int | str | None = None,
    seed: int | None = -1,
) -> tuple[list[TuneContext], list[float]]:
    """Tasks to be tuned and their weights."""
    tasks = [
        TuneContext(
            task.mod, target=task.target, space_generator=space, search_strategy=strategy,
            task_name=task.task_name, rand_state=nth_seed(seed, index), constants=task.constants,
            num_threads=num_threads, sizes=task.sizes, other_sizes=task.other_sizes,
        ).clone()
        for index, task in enumerate(extracted_tasks)
    ]  # fmt: skip
    return tasks, [float(task.weight) for task in extracted_tasks]


def tune_relax(
    mod: IRModule | Function,
    params: Mapping[str, Any] | None = None,
    target: Target | str | None = None,
    work_dir: str | Path | None = None,
    max_trials_global: int = 64,
    max_trials_per_task: int | None = None,
    op_names: Sequence[str] | None = None,
    *,
    space: SpaceGenerator | str | Any = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    sizes: Mapping[str, int] | None = None,
    **options: Unpack[QueueOptions],
) -> Database:
    """Tune the tensor programs of a module and return the database, which ``compile_relax`` builds with.

    ``op_names``: only programs whose names have one of these texts. ``sizes``: of the symbols of ``main``, by name, at which
    programs are timed; what is kept is for all sizes. Others: as in ``tune_tir``. The table, with the programs that are not tuned,
    goes to standard error. Raises OptionError E004 where no program has such a text.
    """
    found = extracted(with_params(mod, params), target, op_names, sizes)
    names = [*[task.task_name for task in found.tasks], *found.others]
    for text in [] if op_names is None else op_names:
        if not any([text in name for name in names]):
            raise OptionError("E004", f"no program has {text!r} in its name", help=f"programs: {', '.join(names)}")
    tasks, weights = extracted_tasks_to_tune_contexts(
        found.tasks, work_dir, space, strategy, seed=options.get("seed", -1)
    )
    records, rows = tuned(tasks, weights, work_dir, max_trials_global, max_trials_per_task, **options)
    show(rows, found.others)
    return records


def compile_relax(
    database: Database,
    mod: IRModule | Function,
    target: Target | str | None = None,
    params: Mapping[str, Any] | None = None,
    enable_warning: bool = False,
) -> Executable:
    """Build a module with the records of a database: ``with database: unity.build(mod)``. ``enable_warning``: warn of programs
    without a record. Raises what ``unity.build`` does."""
    if enable_warning:
        warn_of_absent(database, extract_tasks(mod, target, params))
    with database:
        return build(with_params(mod, params), make_target(target))


def warn_of_absent(database: Database, tasks: Sequence[ExtractedTask]) -> None:
    """Warn of tasks that have no record in a database."""
    for task in tasks:
        if database.query_tuning_record(task.mod, task.target, constants=task.constants) is None:
            warnings.warn(f"{task.task_name} has no record in {database.name}", stacklevel=3)


def with_params(mod: IRModule | Function, params: Mapping[str, Any] | None) -> IRModule:
    """The module with constants bound to parameters of ``main``; a function is the ``main`` of its own."""
    mod = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    return bind_params.with_options(params=dict(params))(mod) if params else mod


__all__ = [
    "Row",
    "compile_relax",
    "extract_tasks",
    "extracted_tasks_to_tune_contexts",
    "tune_relax",
    "warn_of_absent",
    "with_params",
]
