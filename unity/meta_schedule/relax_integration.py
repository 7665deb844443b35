"""``extract_tasks``, ``tune_relax``, ``compile_relax``: the tensor programs that a graph becomes, each weighted by its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from ..ffi.targets.target import Target, target as make_target
from ..ir.module import IRModule
from ..support.errors import OptionError
from ..transform.relax.params.bind_params import bind_params
from ..vm.build import build
from ..vm.executable.executable import Executable
from .core.tune_context import SearchStrategy, SpaceGenerator
from .database import Database
from .extracted_task import ExtractedTask, extracted
from .report import Row
from .tune import QueueOptions, nth_seed, show, tuned
from .tune_context import TuneContext


def extract_tasks(
    mod: IRModule,
    target: Target | str | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
) -> list[ExtractedTask]:
    """The tasks of a module: its tensor programs after the graph passes, with the number of their calls; equal ones are one task.

    ``params``: constants of ``main`` by name; ``sizes``: those of symbols, by name. Programs with symbols whose sizes do not follow
    are left out. Raises ScheduleError E428 for what is not a size, or has no symbol.
    """
    return extracted(with_params(mod, params), target, None, sizes).tasks


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: str | Path | None = None,
    space: SpaceGenerator | str | Any = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    seed: int | None = -1,
) -> tuple[list[TuneContext], list[float]]:
    """Tasks to be tuned and their weights."""
    tasks = [
        TuneContext(
            task.mod, target=task.target, space_generator=space, search_strategy=strategy,
            task_name=task.task_name, rand_state=nth_seed(seed, index), constants=task.constants,
            sizes=task.sizes, other_sizes=task.other_sizes,
        ).clone()
        for index, task in enumerate(extracted_tasks)
    ]  # fmt: skip
    return tasks, [float(task.weight) for task in extracted_tasks]


def tune_relax(
    mod: IRModule,
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
    tasks, weights = extracted_tasks_to_tune_contexts(found.tasks, work_dir, space, strategy, options.get("seed", -1))
    records, rows = tuned(tasks, weights, work_dir, max_trials_global, max_trials_per_task, **options)
    show(rows, found.others)
    return records


def compile_relax(
    database: Database,
    mod: IRModule,
    target: Target | str | None = None,
    params: Mapping[str, Any] | None = None,
) -> Executable:
    """Build a module with the records of a database: ``with database: unity.build(mod)``. Raises what ``unity.build`` does."""
    with database:
        return build(with_params(mod, params), make_target(target))


def with_params(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """The module with constants bound to parameters of ``main``."""
    return bind_params.with_options(params=dict(params))(mod) if params else mod


__all__ = ["Row", "compile_relax", "extract_tasks", "extracted_tasks_to_tune_contexts", "tune_relax", "with_params"]
