"""Operators that make, move and choose elements: shapes, slices, layouts, gathers, scatters."""

from . import create, index, layout, manipulate, scatter, scatter_loops as scan, slicing
