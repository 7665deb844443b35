"""The search as passes: tune the tensor programs of a module as they stand, replace them by what was measured.

TVM's ``MetaScheduleTuneIRMod``, ``MetaScheduleTuneTIR`` and ``MetaScheduleApplyDatabase`` (``unity.relax.transform``). Rewrite of
the last: each tensor program with a record that was faster than the default -> that program, its constants packed as it takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ffi.targets.target import target as make_target
from ..ir.module import IRModule
from ..support.errors import ScheduleError
from ..transform.default_schedule.apply import schedule_programs
from ..transform.infra.passes import Pass, module_pass
from .database import Database
from .extracted_task import programs_in
from .relax_integration import extracted_tasks_to_tune_contexts, warn_of_absent, with_params
from .tune import database_of, show, tuned


def tune_module(
    params: Mapping[str, Any] | None = None,
    work_dir: str | Path | None = None,
    max_trials_global: int = 64,
    max_trials_per_task: int | None = None,
    op_names: Sequence[str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Pass:
    """A pass that tunes the tensor programs of a module, which stays as it is; the records go to ``work_dir``, or where that is not
    given to the database in force (``with database:``). ``sizes``: of symbols of graph functions, by name."""

    @module_pass(name="meta_schedule_tune_irmod")
    def tune(mod: IRModule) -> IRModule:
        """Tune the tensor programs; the module stays as it is."""
        database = _database(work_dir)
        found = programs_in(with_params(mod, params), make_target(), op_names, sizes)
        tasks, weights = extracted_tasks_to_tune_contexts(found.tasks)
        _, rows = tuned(tasks, weights, None, max_trials_global, max_trials_per_task, database=database)
        show(rows, found.others)
        return mod

    return tune


def tune_programs(work_dir: str | Path | None = None, max_trials_global: int = 64) -> Pass:
    """As ``tune_module``."""
    return tune_module(None, work_dir, max_trials_global)


def apply_database(work_dir: str | Path | None = None, enable_warning: bool = False) -> Pass:
    """A pass that takes the schedules of a database: that of ``work_dir``, else the one in force. Raises ScheduleError E461 where
    there is none. ``UNITY_EXPLAIN=1`` prints which record each program takes; ``enable_warning`` warns of those that have none."""

    @module_pass(name="meta_schedule_apply_database")
    def apply(mod: IRModule) -> IRModule:
        """Replace tensor programs by their records."""
        database = _database(work_dir)
        if enable_warning:
            warn_of_absent(database, programs_in(mod, make_target()).tasks)
        return schedule_programs(mod, database.lookup)

    return apply


def _database(work_dir: str | Path | None) -> Database:
    found = database_of("sqlite", work_dir) if work_dir is not None else Database.current()
    if found is None:
        raise ScheduleError(
            "E461", "there is no database of records", help="give work_dir=, or enter one: with database:"
        )
    return found


__all__ = ["apply_database", "tune_module", "tune_programs"]
