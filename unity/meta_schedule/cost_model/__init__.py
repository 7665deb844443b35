"""Models that rank candidates before they run."""

from .models import BoostedTrees, CostModel, LinearModel, PyCostModel, RandomModel, TrafficModel, create
