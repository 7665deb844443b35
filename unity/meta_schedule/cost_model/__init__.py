"""Models that rank candidates before they run."""

from .models import LinearModel, RandomModel
