"""Models that rank candidates before they run."""

from ...support.lazy import absent_names
from .models import BoostedTrees, CostModel, LinearModel, PyCostModel, RandomModel, TrafficModel, create

__all__ = ["BoostedTrees", "CostModel", "LinearModel", "PyCostModel", "RandomModel", "TrafficModel", "create"]
__getattr__ = absent_names(__name__, {
    "XGBModel": "BoostedTrees(extractor), cost_model='xgb', has trees of LightGBM; it chooses their parameters itself",
    "MLPModel": "LinearModel or BoostedTrees, or derive from CostModel",
})  # fmt: skip
