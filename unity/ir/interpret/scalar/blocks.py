"""Guards of blocks: what a running block may read and write, by its declared regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...buffer import BufferRegion
from ...stmt import Block
from ..common.expressions import Env
from .checks import RegionGuard
from .expressions import ExprCompiler


def region_guard(expr: ExprCompiler, block: Block) -> Callable[[Env], RegionGuard] | None:
    """Maker of the guard of a block; a root block declares nothing."""
    if block.reads is None or block.writes is None or not (block.iter_vars or block.reads or block.writes):
        return None
    reads, writes = _boxes(expr, block.reads), _boxes(expr, block.writes)
    return lambda env: RegionGuard(block.name, reads(env), writes(env))


def _boxes(expr: ExprCompiler, regions: tuple[BufferRegion, ...]) -> Callable[[Env], dict[Any, list[Any]]]:
    compiled = [(r.buffer, [(expr.visit(x.min), expr.visit(x.extent)) for x in r.region]) for r in regions]

    def run(env: Env) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for buffer, ranges in compiled:
            box = []
            for low, extent in ranges:
                first = low(env)
                box.append((first, first + extent(env)))
            found.setdefault(buffer, []).append(box)
        return found

    return run
