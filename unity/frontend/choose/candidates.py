"""Candidates for a call beside library kernels: the same call computed by other programs of ours, asked for by name.

``Tiles``: a 3x3 convolution by Winograd's algorithm. Its sums are not those of the definition, so it is a candidate only for
``choose="measured+winograd"``; convolutions are then looked at as they will be computed, with channels last.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.expr import Call
from ...ir.module import IRModule
from ...ir.walk import collect
from ...transform.default_schedule.winograd import MATRICES
from ...transform.relax.algebra.canonicalize import canonicalize
from ...transform.relax.algebra.fold_constant import fold_constant
from ...transform.relax.layout.convert_layout import convert_layout
from ...transform.relax.layout.winograd import CONVOLUTION, by_tiles, refused


@dataclass(slots=True, frozen=True)
class Tiles:
    """Winograd's algorithm with results in tiles of ``tile`` x ``tile``."""

    tile: int

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"unity.winograd_{self.tile}x{self.tile}"

    def of(self, mod: IRModule) -> IRModule | str:
        """A module of one call computed so, or why it is not."""
        result = by_tiles(mod, lambda call: self.tile)
        return result if result is not mod else next(iter([refused(c) for c in collect(mod["main"], Call)]), "")


TILES = tuple([Tiles(tile) for tile in MATRICES])
LAYOUT = (convert_layout, fold_constant, canonicalize)
"""Passes after which convolutions stand as they are computed."""

__all__ = ["CONVOLUTION", "LAYOUT", "TILES", "Tiles"]
