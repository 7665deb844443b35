"""configure_tiles: the tile registers of AMX are configured around what uses them.

Rewrite: ``for t in T.parallel(n): s`` -> ``for t in T.parallel(n): with T.attr(0, "tile_registers", 0): s`` where ``s`` calls
instructions on tiles. Code generation loads a configuration of eight full tiles where the attribute begins (for a parallel loop's
body: once for each chunk) and releases them where it ends. The attribute stands as far outside as no other function is called,
and no parallel loop begun: these may use tiles of their own. A program that calls ``ldtilecfg`` itself stays as it is.
"""

from __future__ import annotations

from ....ir.build import const
from ....ir.expr import Call, GlobalVar, IntImm, StringImm
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import AllocBuffer, AllocConst, AttrStmt, Bind, DeclBuffer, For, SeqStmt, Stmt, seq
from ....ir.walk import StatementRewriter, collect
from ....support.errors import PassError
from ...infra.passes import prim_func_pass

TILE_REGISTERS = "tile_registers"
"""Key of the attribute around what uses tile registers."""
_LLVM = ("T.call_llvm_intrin", "T.call_llvm_pure_intrin")
_SCOPING = (AllocBuffer, AllocConst, Bind, DeclBuffer)
_LEAVING = ("T.call_extern", "T.call_pure_extern", "T.call_packed", "T.call_cpacked")


def _instructions(stmt: Stmt) -> set[str]:
    """The instructions on tiles that a statement calls."""
    calls = [c for c in collect(stmt, Call) if c.op_name in _LLVM and c.args]
    names = [c.args[0].value for c in calls if type(c.args[0]) is StringImm]
    found = {name.removeprefix("llvm.").removeprefix("x86.") for name in names}
    return {name for name in found if name.startswith(("tile", "tdp", "ldtile"))}


def _leaves(stmt: Stmt) -> bool:
    """True if a statement begins a parallel loop or calls a function."""
    loops = [loop for loop in collect(stmt, For) if loop.kind == "parallel"]
    return bool(loops) or any([type(c.op) is GlobalVar or c.op_name in _LEAVING for c in collect(stmt, Call)])


def _configured(stmt: Stmt) -> Stmt:
    found = _instructions(stmt)
    if any([name.startswith("tdp") for name in found]) and not {"tilezero", "tilestored64"} <= found:
        raise PassError(
            "E535", "sums stay in tile registers across a call or a parallel loop, which may use tiles of its own",
            help="store them before, with amx_store_…, or use an intrinsic from memory to memory",
        )  # fmt: skip
    return AttrStmt(const(0, "int32"), TILE_REGISTERS, const(0, "int32"), stmt)


class _Configure(StatementRewriter):
    def enter(self, node: object) -> Stmt | None:
        if not isinstance(node, Stmt):
            return None
        if not _instructions(node):
            return node
        if not _leaves(node):
            return _configured(node)
        return self.sequence(node) if type(node) is SeqStmt else None

    def sequence(self, whole: SeqStmt) -> Stmt:
        """Statements some of which leave the function: those that lie between them are configured together."""
        made: list[Stmt] = []
        run: list[Stmt] = []

        def close() -> None:
            made.extend([_configured(seq(*run))] if any([_instructions(part) for part in run]) else run)
            run.clear()

        for part in whole.stmts:
            fixed = type(part) is AllocBuffer and all([type(extent) is IntImm for extent in part.buffer.shape])
            if _leaves(part) or (not fixed and isinstance(part, _SCOPING)):
                close()
            if fixed or _leaves(part) or isinstance(part, _SCOPING):
                made.append(self.visit(part))
            else:
                run.append(part)
        close()
        return seq(*made, old=whole)


@prim_func_pass()
def configure_tiles(func: PrimFunc) -> PrimFunc:
    """Mark where the tile registers of AMX are configured.

    For programs without blocks. Gives the attribute ``tile_registers``, which code generation reads. Raises PassError E535 where
    sums would stay in tiles while another function runs.
    """
    found = _instructions(func.body)
    return func if not found or "ldtilecfg" in found else replace(func, body=_Configure()(func.body))
