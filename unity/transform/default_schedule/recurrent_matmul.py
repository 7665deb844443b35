"""The rule for products that a loop repeats: the steps of recurrent layers, whose weights are the same at every step.

Each such nest is scheduled by the contraction rule as a program of its own, with its weights in panels, and put back in its
place. Every second repetition goes through the tiles backwards: the panels it begins with are those the last one ended with, so
that of weights that fill a core's cache most are still there (``BACKWARDS``; a thread's own tiles are turned around, so that
threads keep to theirs).
Not here: what stands between the products; its loops are shared between threads where they are large.
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir.buffer import Buffer
from ...ir.build import const, dtype_of, floormod, ne
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad
from ...ir.stmt import BACKWARDS, AttrStmt, Block, BlockRealize, For, SeqStmt, Stmt, seq
from ...ir.types import VOID_TYPE
from ...ir.walk import Rewriter, collect, free_vars, fresh_copy
from ..infra.backend import Machine
from ..tir.analysis.loop_nests import perfect_nest
from ..tir.loops.chunk_parallel import share_loops
from .base import Rule, Scheduled, mark_scheduled
from .contraction import contraction_of
from .matmul import schedule_contraction
from .packing import Packing


class _Products(Rewriter):
    """Schedules the products inside loops; ``refused`` says why one is not."""

    def __init__(self, fn: PrimFunc, constants: Collection[int], machine: Machine) -> None:
        super().__init__()
        self.fn, self.machine = fn, machine
        reads = [load.buffer for load in collect(fn.body, BufferLoad)]
        self.constant = {
            buffer: index
            for index, param in enumerate(fn.params)
            if index in constants and (buffer := fn.buffer_map.get(param)) is not None and reads.count(buffer) == 1
        }
        self.around: list[For] = []
        self.panels: dict[int, tuple[Buffer, Packing]] = {}
        self.reasons: list[str] = []
        self.refused: str | None = None

    def enter(self, node: object) -> object | None:
        if type(node) is Block:
            body = self.visit(node.body)
            return node if body is node.body else replace(node, body=body, reads=None, writes=None)
        if type(node) is not For:
            return None
        nest = perfect_nest(node)
        if nest is not None and self.around:
            return self.product(node, nest[1].block)
        self.around.append(node)
        body = self.visit(node.body)
        self.around.pop()
        return replace(node, body=body)

    def product(self, nest: For, block: Block) -> Stmt:
        """A nest inside a loop in its schedule, or as it is."""
        contraction = contraction_of(block)
        if isinstance(contraction, str):
            return self.refuse(nest, contraction)
        place = self.constant.get(contraction.weights.buffer)
        if place is None:
            return self.refuse(nest, "weights that are not constants, or that are read elsewhere too")
        buffers = list(dict.fromkeys([contraction.weights.buffer, contraction.data.buffer, contraction.output]))
        alone = _program(nest, buffers, self.fn.params[place])
        found = schedule_contraction(alone, {0}, self.machine)
        if isinstance(found, str):
            return self.refuse(nest, found)
        if 0 in found.packed:
            self.panels[place] = (found.func.buffer_map[found.func.params[0]], found.packed[0])
        self.reasons.append(found.reason)
        made: Stmt = fresh_copy(_forth_and_back(found.func.body, self.around[-1]))
        return made

    def refuse(self, nest: For, reason: str) -> For:
        self.refused = self.refused or reason
        return nest


def _program(nest: For, buffers: list[Buffer], like: Var) -> PrimFunc:
    """A nest as a program of its own; what else it uses are numbers."""
    params = [Var(buffer.name, like.ty) for buffer in buffers]
    program = PrimFunc(tuple(params), dict(zip(params, buffers)), nest, VOID_TYPE, {})
    return replace(program, params=(*params, *free_vars(program)))


def _forth_and_back(stmt: Stmt, repeated: For) -> Stmt:
    """The tiles of a scheduled nest, backwards at every second repetition."""
    if type(stmt) is SeqStmt:
        return seq(*[_forth_and_back(part, repeated) for part in stmt.stmts])
    if type(stmt) is BlockRealize:
        return replace(stmt, block=replace(stmt.block, body=_forth_and_back(stmt.block.body, repeated)))
    if type(stmt) is not For:
        return stmt
    var = repeated.loop_var
    odd = ne(floormod(var, const(2, dtype_of(var))), const(0, dtype_of(var)))
    return AttrStmt(const(0, "int32"), BACKWARDS, odd, stmt)


def schedule_repeated(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Schedule a program whose only blocks with iterators are products inside loops."""
    blocks = [block for block in collect(fn.body, Block) if block.iter_vars]
    if not blocks or not all([block.init is not None for block in blocks]):
        return "no products alone"
    shared = share_loops.on(fn)
    products = _Products(shared, constants, machine)
    body = products(shared.body)
    if products.refused is not None or not products.panels:
        return products.refused or "no products inside a loop"
    changed = {fn.params[place]: panels for place, (panels, _) in products.panels.items()}
    made = replace(shared, body=body, buffer_map={**fn.buffer_map, **changed})
    packed = {place: layout for place, (_, layout) in products.panels.items()}
    return Scheduled(mark_scheduled(made), "; ".join(products.reasons), packed)


REPEATED = Rule("repeated", schedule_repeated)
