"""Semantics of PTX instructions, a file for each idea: importing the package fills the tables."""

from . import (
    asynchronous,
    bits,
    convert,
    floating,
    flow,
    integer,
    matrix,
    memory,
    select,
    transactions,
    warp,
    warpgroup,
)
from .table import compile_program as compile_program
