"""Memory is given back right after its last use: ``R.memory.kill_tensor`` for tensors, ``R.memory.kill_storage`` for storages,
``R.vm.kill_object`` for the reference to what a foreign function or a graph function made (a weight that a callback loaded).

Only memory that does not escape is killed; a storage dies after every tensor in it. What is killed already stays so.
"""

from __future__ import annotations

from ....ir.expr import Binding, BindingBlock, Call, SeqExpr, Var, VarBinding, op
from ....ir.function import Function
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.types import VOID_TYPE
from ....ir.walk import used_vars
from ....op.common.table import R
from ...infra.passes import module_pass
from ..analysis.liveness import KILLS, Liveness, with_branches

_KILLS = {
    R.builtin.alloc_tensor.name: R.memory.kill_tensor.name,
    R.memory.alloc_tensor.name: R.memory.kill_tensor.name,
    R.memory.alloc_storage.name: R.memory.kill_storage.name,
}


class _Killer:
    def __init__(self, fn: Function, mod: IRModule) -> None:
        self.mod = mod
        self.objects = not fn.pure or bool(fn.attrs.get("force_pure"))
        self.names = NameSupply([v.name for v in used_vars(fn)])

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        whole = all([type(b) is BindingBlock for b in seq.blocks])
        live = Liveness(seq, self.mod, self.objects and whole)
        ends: dict[int, list[tuple[str, Var]]] = {}
        killed = {b.value.args[0] for b in live.bindings if b.value.op_name in KILLS}  # type: ignore[attr-defined]
        for binding in live.bindings:
            kill = _KILLS.get(binding.value.op_name)
            if binding.var in live.references:
                kill = R.vm.kill_object.name
            if kill is not None and binding.var not in live.escapes and binding.var not in killed:
                ends.setdefault(live.last_use[binding.var], []).append((kill, binding.var))
        index = 0
        blocks: list[BindingBlock] = []
        for block in seq.blocks:
            made: list[Binding] = []
            for binding in block.bindings:
                made.append(with_branches(binding, self.sequence))
                for kill, var in sorted(ends.get(index, ()), key=lambda item: item[0], reverse=True):
                    made.append(
                        VarBinding(Var(self.names.fresh("_"), VOID_TYPE), Call(op(kill), (var,), {}, (), VOID_TYPE))
                    )
                index += 1
            blocks.append(replace(block, bindings=tuple(made)))
        return replace(seq, blocks=tuple(blocks))


@module_pass()
def kill_after_last_use(mod: IRModule) -> IRModule:
    """Free tensors and storages after their last use.

    Requires explicit memory (``lower_call_dps``). Gives ``R.memory.kill_tensor``, ``R.memory.kill_storage`` and
    ``R.vm.kill_object``.
    """
    return mod.with_graph_functions(
        lambda fn: replace(fn, body=_Killer(fn, mod).sequence(fn.body)) if type(fn.body) is SeqExpr else fn
    )
