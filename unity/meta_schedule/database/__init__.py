"""Databases: which schedules were measured for which programs, and how fast they were."""

from .database import Database
from .json_files import JSONDatabase
from .memory import MemoryDatabase, OrderedUnionDatabase, ScheduleFnDatabase, UnionDatabase
from .record import TuningRecord
from .sqlite import SQLiteDatabase
from .workload import Workload

create = Database.create
PyDatabase = Database

__all__ = [
    "Database",
    "JSONDatabase",
    "MemoryDatabase",
    "OrderedUnionDatabase",
    "PyDatabase",
    "SQLiteDatabase",
    "ScheduleFnDatabase",
    "TuningRecord",
    "UnionDatabase",
    "Workload",
    "create",
]  # fmt: skip
