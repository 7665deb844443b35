"""``tune_tir`` and ``compile_tir``: tensor programs as they are given, each a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from ..ffi.targets.target import Target, target as make_target
from ..ir.analysis import defined_symbols
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..support.errors import ScheduleError
from ..transform.schedule import Schedule
from .core.arg_info import check_sizes
from .core.tune_context import MAIN, SearchStrategy, SpaceGenerator, check_cores, one_program
from .database import Database
from .tune import QueueOptions, nth_seed, tune_tasks
from .tune_context import TuneContext


def tune_tir(
    mod: IRModule | PrimFunc,
    target: Target | str | None = None,
    work_dir: str | Path | None = None,
    max_trials_global: int = 64,
    *,
    max_trials_per_task: int | None = None,
    space: SpaceGenerator | str | Any = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    task_name: str | None = None,
    special_space: Mapping[str, SpaceGenerator | str | Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    **options: Unpack[QueueOptions],
) -> Database:
    """Tune the tensor programs of a module and return the database; ``compile_tir`` takes the winner out of it.

    ``space``: a ``SpaceGenerator``, its name, or a function of a schedule; ``special_space``: that of a program by its name (None:
    it is not tuned).
    ``strategy``: a ``SearchStrategy`` or its name. ``sizes``: of symbols of shapes, by name, at which programs are timed; what is
    kept is for all sizes. Others: as in ``tune_tasks``, and what it raises. Raises ScheduleError E407 for a module without tensor
    programs, E401 for a name that none of them has, E428 for what is not a size, or has no symbol.
    """
    programs = {MAIN: mod} if isinstance(mod, PrimFunc) else mod.prim_funcs()
    if not programs:
        raise ScheduleError("E407", "the module has no tensor program to tune", help="relax_integration.tune_relax")
    check_cores(num_tuning_cores=options.get("num_tuning_cores"))
    check_sizes(sizes or {}, {var.name for fn in programs.values() for var in defined_symbols(fn)})
    where, special = make_target(target), dict(special_space or {})
    for name in special.keys() - programs.keys():
        raise ScheduleError("E401", f"special_space names {name!r}", help=f"the programs: {', '.join(programs)}")
    tasks = [
        TuneContext(
            one_program(fn), target=where, space_generator=special.get(name, space), search_strategy=strategy,
            task_name=task_name or name, rand_state=nth_seed(options.get("seed"), index),
            num_threads=options.get("num_tuning_cores"), sizes=sizes,
        ).clone()
        for index, (name, fn) in enumerate(programs.items())
        if special.get(name, space) is not None
    ]  # fmt: skip
    return tune_tasks(
        tasks=tasks,
        task_weights=[1.0] * len(tasks),
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        **options,
    )


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Target | str | None = None) -> Schedule | None:
    """The schedule of the best record of a program: ``sch.mod`` is to be built, ``sch.trace.show()`` prints it. None where there is
    no record.

    Raises ScheduleError E407 for a module of several functions, E462 for a record that no longer applies.
    """
    return database.query_schedule(mod, target)


__all__ = ["compile_tir", "tune_tir"]
