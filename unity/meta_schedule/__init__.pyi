"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from . import (
    builder as builder,
    cost_model as cost_model,
    database as database,
    measure_callback as measure_callback,
    relax_integration as relax_integration,
    runner as runner,
    task_scheduler as task_scheduler,
    tir_integration as tir_integration,
    tune_context as tune_context,
)
from .builder import Builder as Builder
from .core import arg_info as arg_info
from .core.arg_info import ArgInfo as ArgInfo, ScalarInfo as ScalarInfo, TensorInfo as TensorInfo
from .core.measure_candidate import MeasureCandidate as MeasureCandidate
from .core.part import derived_object as derived_object
from .core.profiler import Profiler as Profiler
from .cost_model import feature_extractor as feature_extractor
from .cost_model.feature_extractor import FeatureExtractor as FeatureExtractor
from .cost_model.models import CostModel as CostModel
from .curves import plot as plot
from .database import Database as Database
from .extracted_task import ExtractedTask as ExtractedTask
from .measure_callback import MeasureCallback as MeasureCallback
from .queue import MeasureQueue as MeasureQueue
from .queue_worker import work_off as work_off
from .relax_integration import (
    compile_relax as compile_relax,
    extract_tasks as extract_tasks,
    tune_relax as tune_relax,
)
from .runner import Runner as Runner
from .search import mutator as mutator, search_strategy as search_strategy
from .search.mutator import Mutator as Mutator
from .search.search_strategy import SearchStrategy as SearchStrategy
from .space import postproc as postproc, schedule_rule as schedule_rule, space_generator as space_generator
from .space.postproc import Postproc as Postproc
from .space.schedule_rule import ScheduleRule as ScheduleRule
from .space.space_generator import (
    PostOrderApply as PostOrderApply,
    ScheduleFn as ScheduleFn,
    SpaceGenerator as SpaceGenerator,
    SpaceGeneratorUnion as SpaceGeneratorUnion,
)
from .task_scheduler import TaskScheduler as TaskScheduler
from .tir_integration import compile_tir as compile_tir, tune_tir as tune_tir
from .tune import tune_tasks as tune_tasks
from .tune_context import TuneContext as TuneContext
