"""unroll_loop: loops of kind "unrolled" with a constant extent are written out.

``pragma_auto_unroll_max_step`` (attribute or loop annotation) unrolls serial loops below it whose body, written out,
has at most that many statements. Under ``pragma_unroll_explicit`` of 0, or without the option ``explicit``, the code generator
is told to unroll (loop annotation ``unroll``) and nothing is written out, but what instructions of a device are told, which may
have to be constants, and loops that run some iterations at once.
``max_copies`` bounds one loop; larger loops stay as they are, for LLVM to judge.
"""

from __future__ import annotations

from typing import Any

from ....ir.build import add, dtype_of, floordiv, floormod, int_imm, int_value, is_int, mul, sub
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import Add, FloorDiv, FloorMod, Mul, Sub
from ....ir.stmt import AttrStmt, BufferStore, Evaluate, For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, StatementRewriter, Visit, children, collect, uses_any
from ...infra.passes import prim_func_pass
from ..blocks.lower_opaque_block import leaves_loop

PRAGMA = "pragma_auto_unroll_max_step"
EXPLICIT = "pragma_unroll_explicit"


_INSTRUCTIONS = ("T.ptx_", "T.tvm_")
"""Beginnings of the names of instructions of a device."""
_COMPUTED = {"T.ptx_mma": (7, 9, 11), "T.ptx_ldmatrix": (4, 5, 6), "T.ptx_cp_async": (1, 3, 5), "T.ptx_ex2": (0,)}
"""Arguments of instructions that are registers, addresses, conditions or values: they may be computed."""
_FOLD: dict[type, Visit] = {
    Add: lambda e: e if type(e.a) is not IntImm and type(e.b) is not IntImm else add(e.a, e.b),
    Sub: lambda e: e if type(e.b) is not IntImm else sub(e.a, e.b),
    Mul: lambda e: e if type(e.a) is not IntImm and type(e.b) is not IntImm else mul(e.a, e.b),
    FloorDiv: lambda e: e if type(e.b) is not IntImm else floordiv(e.a, e.b),
    FloorMod: lambda e: e if type(e.b) is not IntImm else floormod(e.a, e.b),
}
"""Arithmetic on the value that the loop variable has taken."""


class _Unroll(StatementRewriter):
    def __init__(self, max_copies: int, max_size: int, explicit: bool) -> None:
        super().__init__()
        self.max_copies, self.max_size, self.explicit = max_copies, max_size, explicit
        self.steps = 0

    def enter(self, node: Any) -> Any | None:
        if type(node) is AttrStmt and node.key in (PRAGMA, EXPLICIT):
            return self._within({node.key: node.value}, node.body)
        if type(node) is For and node.annotations and (PRAGMA in node.annotations or EXPLICIT in node.annotations):
            return self._within(node.annotations, node.without_notes(PRAGMA, EXPLICIT))
        return None

    def _within(self, asked: dict[str, Any], body: Stmt) -> Stmt:
        saved = self.steps, self.explicit
        self.steps = _number(asked[PRAGMA]) if PRAGMA in asked else self.steps
        self.explicit = _number(asked[EXPLICIT]) != 0 if EXPLICIT in asked else self.explicit
        result: Stmt = self.visit(body)
        self.steps, self.explicit = saved
        return result

    def leave(self, node: Any) -> Any:
        if type(node) is not For or node.step is not None:
            return node
        together = node.note("unroll", 1) if node.kind == "serial" and not self.explicit else 1
        if together > 1 and int_value(node.extent, together + 1) > together and not leaves_loop(node.body):
            return _some_at_once(replace(node, annotations={**(node.annotations or {}), "unroll": 1}), together)
        if type(node.extent) is not IntImm:
            return node
        count = node.extent.value
        asked = node.kind == "unrolled"
        if not asked and not (node.kind == "serial" and self.steps and self._size(node) <= self.steps):
            return node
        if count > self.max_copies or self._size(node) > self.max_size or leaves_loop(node.body):
            return node
        if not self.explicit and not _instructs(node):
            return replace(node, kind="serial", annotations={**(node.annotations or {}), "unroll": max(1, count)})
        return seq(*_copies(node, node.min, max(0, count)))

    def _size(self, loop: For) -> int:
        assert type(loop.extent) is IntImm
        return loop.extent.value * statement_count(loop.body)


def _copies(loop: For, first: Expr, count: int) -> list[Stmt]:
    """The first iterations from a value on."""
    ty = prim_type(dtype_of(loop.loop_var))
    values = [add(first, int_imm(i, ty)) for i in range(count)]
    return [Rewriter(_FOLD, {loop.loop_var: value}, fresh=True)(loop.body) for value in values]


def _some_at_once(loop: For, count: int) -> Stmt:
    """A loop that runs some of its iterations together, so that their reads are on the way at once, and then the rest; nobody
    unrolls either once more."""
    ty = prim_type(dtype_of(loop.loop_var))
    turn, each = Var(f"{loop.loop_var.name}_turn", ty), int_imm(count, ty)
    turns = floordiv(loop.extent, each)
    first = add(loop.min, mul(turn, each))
    together = seq(*_copies(loop, first, count)) if _instructs(loop) else _written_out_later(loop, first, each)
    done = mul(turns, each)
    rest = replace(loop, min=add(loop.min, done), extent=sub(loop.extent, done))
    main = replace(loop, loop_var=turn, min=int_imm(0, ty), extent=turns, body=together)
    return main if is_int(rest.extent, 0) else seq(main, rest)


def _written_out_later(loop: For, first: Expr, extent: IntImm) -> For:
    """A loop over iterations from a value on, which the code generator writes out."""
    var = Var(f"{loop.loop_var.name}_next", loop.loop_var.ty)
    body = Rewriter(_FOLD, {loop.loop_var: add(first, var)}, fresh=True)(loop.body)
    zero = int_imm(0, extent.ty)
    return replace(loop, loop_var=var, min=zero, extent=extent, body=body, annotations={"unroll": extent.value})


def statement_count(body: Stmt) -> int:
    """Stores and evaluations in a statement; a statement that stands in several places, or in a loop that LLVM unrolls, counts each
    time."""
    count = 0
    rest: list[tuple[Stmt, int]] = [(body, 1)]
    while rest:
        stmt, times = rest.pop()
        if isinstance(stmt, (BufferStore, Evaluate)):
            count += times
        elif type(stmt) is For:
            times *= stmt.note("unroll", 1)
        rest += [(part, times) for part in children(stmt) if isinstance(part, Stmt)]
    return count


def _instructs(loop: For) -> bool:
    """True if an instruction of the device is told the iteration of a loop."""
    calls = [call for call in collect(loop.body, Call) if call.op_name.startswith(_INSTRUCTIONS)]
    told = [a for call in calls for k, a in enumerate(call.args) if k not in _COMPUTED.get(call.op_name, ())]
    return any([uses_any(argument, (loop.loop_var,)) for argument in told])


def _number(value: object) -> int:
    if isinstance(value, IntImm):
        return value.value
    return value if isinstance(value, int) else 0


@prim_func_pass()
def unroll_loop(func: PrimFunc, *, max_copies: int = 512, max_size: int = 16384, explicit: bool = True) -> PrimFunc:
    """Write out unrolled loops of constant extent.

    ``max_copies``: most copies of a body that one loop may become; ``max_size``: most stores and evaluations in them;
    ``explicit``: copies are written out where no pragma says otherwise.
    """
    return replace(func, body=_Unroll(max_copies, max_size, explicit)(func.body))
