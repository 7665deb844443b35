"""Models that rank candidates before they run."""

from .models import BoostedTrees, LinearModel, RandomModel, create
