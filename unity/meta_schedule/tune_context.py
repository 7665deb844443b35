"""``TuneContext`` with the parts that have names: ``TuneContext(mod, space_generator="post-order-apply")``."""

from .core.tune_context import TuneContext
from .cost_model import models as models  # importing a part is what gives it its name
from .search import search_strategy as search_strategy
from .space import space_generator as space_generator

__all__ = ["TuneContext"]
