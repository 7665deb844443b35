"""Options of ``unity.compile`` that most builds do without, loaded for the first that has one: precision, kernels, search."""

from ...meta_schedule.queue_worker import work_off
from ...meta_schedule.relax_integration import tune_relax
from ..precision.precision import reduction_of
from ..precision.reduced import compile_reduced
from .choose import analytic_choices, choose_measured
from .tuned import schedule_database

__all__ = ["analytic_choices", "choose_measured", "compile_reduced", "reduction_of", "schedule_database", "tune_relax",
           "work_off"]  # fmt: skip
