"""Operators along axes: reductions, running values, sorting and searching."""

from . import reduce, running, search, sorting, statistics
