"""A module whose calls are computed by chosen kernels.

A call of one symbolic size whose kernels differ between sizes becomes a call of a function that compares the size.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ffi.dtype import DataType
from ...ffi.library import LibraryKernel, packed_name
from ...ir.build import le
from ...ir.builder import make_call
from ...ir.expr import BindingBlock, Call, Constant, ExternFunc, If, SeqExpr, Tuple, Var, VarBinding
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.types import Expr
from ...ir.walk import fresh_copy
from ...op.common.table import R
from ...transform.relax.fusion.fuse_ops import FunctionTable
from ...transform.relax.layout.winograd import by_tiles
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls
from .alone import Candidate
from .anchors import BUCKETS, Key, Site, key_of
from .candidates import Tiles


def _computed(call: Call, kernel: Candidate) -> Call:
    """The call by a kernel of a library, else as it is."""
    if not isinstance(kernel, LibraryKernel):
        return call
    attrs = {k: v.name if isinstance(v, DataType) else v for k, v in call.attrs.items()}
    return make_call(R.call_dps.op, [ExternFunc(packed_name(kernel, attrs)), Tuple(call.args)], {}, (call.ty,))


def _switch(call: Call, kernels: tuple[Candidate, ...], symbol: Var) -> Function:
    """A function of the call's operands that are not constants: by the size of the symbol one kernel or another."""
    params = {a: Var(f"x{k}", a.ty) for k, a in enumerate(call.args) if type(a) is not Constant}
    inner = replace(call, args=tuple([params.get(a, a) for a in call.args]))

    def sequence(value: Expr) -> SeqExpr:
        var = Var("y", call.ty)
        return SeqExpr((BindingBlock((VarBinding(var, value),)),), var)

    made = sequence(_computed(inner, kernels[-1]))
    for size, kernel, larger in zip(BUCKETS[-2::-1], kernels[-2::-1], kernels[:0:-1]):
        if kernel is not larger:
            small = sequence(_computed(inner, kernel))
            made = sequence(If(le(symbol, size), small, made, call.ty))
    result: Function = fresh_copy(Function(tuple(params.values()), made, call.ty, True, {}))
    return result


def with_kernels(mod: IRModule, chosen: Mapping[Key, tuple[Candidate, ...]]) -> IRModule:
    """The module with the calls of these keys computed by these kernels, one for each size."""
    tiles = {key: kernel.tile for key, (kernel, *_) in chosen.items() if isinstance(kernel, Tiles)}
    if tiles:
        mod = by_tiles(mod, lambda call: tiles.get(key_of(call), 0))
    table = FunctionTable(mod)
    names = {key[0] for key in chosen}

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        kernels = chosen.get(key_of(value))
        if kernels is None:
            return None
        symbol = Site(value, ()).symbol()
        if all([kernel is kernels[0] for kernel in kernels]) or symbol is None:
            return _computed(value, kernels[0])
        callee = table.add(_switch(value, kernels, symbol), f"choose_{value.op_name.rpartition('.')[2]}")
        return make_call(callee, [a for a in value.args if type(a) is not Constant])

    if not names:
        return mod
    return mod.with_graph_functions(lambda fn: rewrite_calls(fn, change, *names), table.added)
