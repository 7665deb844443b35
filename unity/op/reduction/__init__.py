"""Operators along axes: reductions, running values, sorting and searching."""

from . import reduce, scan, search, sorting, statistics
