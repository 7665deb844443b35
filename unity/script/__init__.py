"""Script: the text form of a module. Reader, printer, decorators, upgrade of old spellings.

``parse(text)`` reads; ``ir``, ``relax`` and ``tir`` are the namespaces written ``I``, ``R`` and ``T``; importing this
package fills the printer hooks of the ``ir`` room.
"""

from ..ir.node import SCRIPT_HOOKS
from ..support.arguments import make_public
from . import ir, relax, tir
from .ir import ir_module
from .printer.show import metadata, script
from .reader.module import parse
from .relax import function
from .tir import prim_func

from_source, s_tir, tirx = parse, tir, tir
SCRIPT_HOOKS["parse"] = parse

__all__ = [
    "from_source",
    "function",
    "ir",
    "ir_module",
    "metadata",
    "parse",
    "prim_func",
    "relax",
    "s_tir",
    "script",
    "tir",
    "tirx",
]

make_public(globals(), ("from_source", "metadata", "parse", "script"))
