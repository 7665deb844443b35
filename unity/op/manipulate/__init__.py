"""Operators that make, move and choose elements: shapes, slices, layouts, gathers, scatters."""

from . import create, gather, index, layout, manipulate, scatter, slicing
