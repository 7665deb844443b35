"""fuse_tir: the programs of each primitive function become one, and its calls call_dps of that.

Rewrite: ``z = fused_add_relu(x, b)`` -> ``z = R.call_dps(fused_add_relu, (x, b), ty)`` where the new tensor program computes in one
pass over memory: intermediate values are inlined where that costs nothing, else kept in buffers of the program. Equal programs
are shared. A primitive function that holds anything else than calls of tensor programs stays as it is.
"""

from __future__ import annotations

from ....ir.expr import Call, GlobalVar, Tuple
from ....ir.function import Function, PrimFunc, seq_body
from ....ir.module import IRModule
from ....ir.walk import collect
from ....op.common.table import R
from ....te.kernel_table import KernelTable
from ...infra.passes import module_pass
from ..normalize.dead_code import reachable
from .auto_inline import auto_inline
from .fusion_graph import fits
from .merge_kernels import KernelMerger
from .run_codegen import calling_kernels
from .simplify_blocks import simplify_blocks


def fuse_function(mod: IRModule, fn: Function) -> PrimFunc:
    """One tensor program that computes what a primitive function does. Raises PassError E550."""
    merged = KernelMerger(mod, fn).merge()
    inlined = auto_inline.on(merged)
    return simplify_blocks.on(inlined)  # type: ignore[no-any-return]


def can_fuse(mod: IRModule, fn: Function) -> bool:
    """True for a primitive function that holds calls of tensor programs alone, all of one target."""
    if not fn.attrs.get("Primitive") or fn.attrs.get("Codegen"):
        return False
    targets = set()
    for binding in seq_body(fn).bindings:
        value = binding.value
        if type(value) is Call:
            callee = value.args[0] if value.op_name == R.call_dps.name else None
            func = mod.functions.get(callee.name) if type(callee) is GlobalVar else None
            if type(func) is not PrimFunc or type(value.args[1]) is not Tuple or not fits(func, value):
                return False
            targets.add(repr(func.attrs.get("target")))
    return len(targets) < 2


@module_pass()
def fuse_tir(mod: IRModule) -> IRModule:
    """Merge the tensor programs of each primitive function into one.

    Requires the functions that ``fuse_ops`` makes. Gives ``R.call_dps`` of the merged programs.
    """
    primitives = {name: fn for name, fn in mod.graph_functions().items() if can_fuse(mod, fn)}
    if not primitives:
        return mod
    kernels = KernelTable(mod.with_functions(dict.fromkeys(primitives)))
    targets = {name: kernels.add(fuse_function(mod, fn), name) for name, fn in primitives.items()}

    callers = {name: fn for name, fn in mod.graph_functions().items() if name not in primitives}
    changes = dict.fromkeys(primitives) | calling_kernels(callers, targets, primitives)
    merged = mod.with_functions(changes).with_functions(kernels.added)
    used = {g.name for fn in primitives.values() for g in collect(fn, GlobalVar)}
    alive = reachable(merged)
    return merged.with_functions({name: None for name in used if name not in alive})
