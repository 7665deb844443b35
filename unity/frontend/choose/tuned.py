"""``unity.compile(..., tune=128)``: the schedules of a build by search, found again by later builds.

Records lie in ``tuning.db`` in the folder of the caches, so that what was tuned once is taken by every build that asks for it. Not
here: the search (``meta_schedule``). Invariant: without ``tune=`` a build reads no records.
"""

from __future__ import annotations

import sys

from ...ffi.cache.object_cache import cache_folder
from ...ir.module import IRModule
from ...meta_schedule.database import Database, MemoryDatabase, SQLiteDatabase
from ...meta_schedule.database.record import TRIAL
from ...meta_schedule.database.workload import Workload, machine_features
from ...meta_schedule.extracted_task import ExtractedTask, extracted
from ...meta_schedule.relax_integration import extracted_tasks_to_tune_contexts
from ...meta_schedule.report import table
from ...meta_schedule.tune import tuned
from ...support.errors import FrontendError
from ...transform.infra.passes import Pipeline
from ..entry import BuildOptions
from .sites import example_sizes

FILE = "tuning.db"
"""File of the records, in the folder of the caches."""


def schedule_database(mod: IRModule, how: BuildOptions, passes: Pipeline | None) -> Database:
    """The database that a build takes its schedules from: the given one, or that of this user after ``how.tune`` more trials for
    the programs without a verdict, at the sizes of ``how.examples``. ``passes``: the graph passes (None: the default ones). The
    table of what was tuned goes to standard error.

    Raises FrontendError E989 for another value, and for other passes than the default ones; what tuning raises.
    """
    if isinstance(how.tune, Database):
        return how.tune
    if type(how.tune) is not int or how.tune < 1:
        raise FrontendError("E989", f"tune={how.tune!r} is not a number of trials", help="tune=128, or a Database")
    if how.pipeline is not None:
        raise FrontendError("E989", "tune= searches for the schedules of the default passes, and pipeline= has others",
                            help="leave one of them out")  # fmt: skip
    folder = cache_folder()
    database: Database = MemoryDatabase() if folder is None else SQLiteDatabase(folder / FILE)
    sizes = {var.name: size for var, size in example_sizes(mod, how.examples).items() if size}
    found = extracted(mod, how.target, sizes=sizes, passes=passes)
    wanted = [task for task in found.tasks if not _is_known(task, database)]
    if wanted:
        tasks, weights = extracted_tasks_to_tune_contexts(wanted, seed=0)
        _, rows = tuned(tasks, weights, None, how.tune, database=database)
        print(table(rows, found.others), file=sys.stderr)
    return database


def _is_known(task: ExtractedTask, database: Database) -> bool:
    """True if there is a verdict about a task on this machine."""
    found = database.best(Workload(task.mod, task.constants).shash, machine_features(task.target))
    return found is not None and found.verdict != TRIAL
