"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from . import builder as builder, cost_model as cost_model, database as database, runner as runner
from .builder import Builder as Builder
from .core import arg_info as arg_info
from .core.arg_info import TensorInfo as TensorInfo
from .core.measure_candidate import MeasureCandidate as MeasureCandidate
from .core.tune_context import TuneContext as TuneContext
from .database import Database as Database
from .runner import Runner as Runner
from .search import mutator as mutator, search_strategy as search_strategy
from .space import space_generator as space_generator
from .space.space_generator import (
    PostOrderApply as PostOrderApply,
    ScheduleFn as ScheduleFn,
    SpaceGeneratorUnion as SpaceGeneratorUnion,
)
