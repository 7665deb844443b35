"""Computation on weights alone moves into a function of its own, to be run once.

Rewrite: ``main(x, w)`` with ``num_input = 1`` and ``w1 = R.permute_dims(w); y = R.matmul(x, w1)`` ->
``main_transform_params((w,))`` returning ``(w1,)``, and ``main(x, w1): y = R.matmul(x, w1)``. Call the first
once and hand its results to the second.
With ``shared`` one function ``transform_params`` serves all functions of the module; they then take the same weights.

Left where they are: values behind ``R.builtin.stop_lift_params``, values whose type has symbols, calls with effects.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ...ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ...ir.function import Function, seq_body
from ...ir.infer import is_pure_call
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.structural import structural_equal
from ...ir.types import TensorType, TupleType
from ...ir.walk import Rewriter, free_vars, fresh_copy
from ...op.common.table import R
from ...support.errors import PassError
from ...transform.infra.passes import module_pass
from ...transform.relax.analysis.mutable_vars import changed_vars
from ...transform.relax.analysis.value_key import value_key
from ...transform.relax.rewriting.graph_rewriter import join_blocks, without


def _static(var: Var) -> bool:
    return isinstance(var.ty, (TensorType, TupleType)) and not free_vars(var.ty)


class _Lifted:
    """The part of a function that depends on weights alone: ``bindings`` to move, ``outputs`` others need."""

    def __init__(self, fn: Function, count: int) -> None:
        self.fn = fn
        self.inputs, self.weights = fn.params[:count], fn.params[count:]
        body = seq_body(fn)
        fixed = changed_vars(fn)
        known = set(self.weights)
        self.bindings: list[VarBinding] = []
        for binding in body.bindings:
            if self._movable(binding, known, fixed):
                assert isinstance(binding, VarBinding)
                self.bindings.append(binding)
                known.add(binding.var)
        moved = {b.var for b in self.bindings}
        used: dict[Var, None] = {}
        for binding in body.bindings:
            if binding.var not in moved:
                used.update(dict.fromkeys(free_vars(binding)))
        used.update(dict.fromkeys(free_vars(body.body)))
        self.outputs = [v for v in (*self.weights, *[b.var for b in self.bindings]) if v in used]

    def _movable(self, binding: Binding, known: set[Var], fixed: set[Var]) -> bool:
        if not isinstance(binding, VarBinding) or binding.var in fixed or not _static(binding.var):
            return False
        value = binding.value
        if isinstance(value, (If, Function, SeqExpr, MatchCast)) or value.op_name == R.builtin.stop_lift_params.name:
            return False
        if isinstance(value, Call) and not is_pure_call(value):
            return False
        free = free_vars(value)
        return (bool(free) or isinstance(value, (Call, Constant))) and all([v in known for v in free])

    def transform(self, name: str) -> Function:
        """The function from the tuple of weights to the tuple of outputs."""
        params = Var("params", TupleType(tuple([w.ty for w in self.weights])))
        plain: dict[Any, Any] = {b.var: Var(b.var.name, b.var.ty, b.var.span) for b in self.bindings}
        heads: list[Binding] = []
        for index, weight in enumerate(self.weights):
            plain[weight] = Var(weight.name, weight.ty, weight.span)
            heads.append(VarBinding(plain[weight], TupleGetItem(params, index)))
        moved = [Rewriter(mapping=plain)(b) for b in self.bindings]
        result = Tuple(tuple([plain[v] for v in self.outputs]))
        made = Function(
            (params,), SeqExpr((BindingBlock((*heads, *moved)),), result), result.ty, True, {"global_symbol": name}
        )
        return fresh_copy(made)

    def rest(self, params: tuple[Var, ...], mapping: dict[Any, Any]) -> Function:
        """The function without the moved bindings, its weights replaced by ``params``."""
        gone = {b.var for b in self.bindings}
        made = without(seq_body(self.fn), lambda b: b.var in gone)
        made = replace(made, blocks=join_blocks(made.blocks))
        return replace(self.fn, params=(*self.inputs, *params), body=Rewriter(mapping=mapping)(made))


def _separate(lifted: dict[str, _Lifted]) -> dict[str, Function]:
    changes: dict[str, Function] = {}
    for name, found in lifted.items():
        params = tuple([Var(v.name, v.ty, v.span) for v in found.outputs])
        changes[f"{name}_transform_params"] = found.transform(f"{name}_transform_params")
        changes[name] = found.rest(params, dict(zip(found.outputs, params)))
    return changes


def _together(lifted: dict[str, _Lifted]) -> dict[str, Function]:
    """One function computing what all need, equal values once; every function takes all of its results."""
    first = next(iter(lifted.values()))
    for name, found in lifted.items():
        same = len(found.weights) == len(first.weights) and all(
            [structural_equal(a.ty, b.ty, map_free_vars=True) for a, b in zip(found.weights, first.weights)]
        )
        if not same:
            raise PassError(
                "E558",
                f"{name} has other weights than {next(iter(lifted))}",
                help="use shared=False, or the same parameters",
            )
    params = Var("params", TupleType(tuple([w.ty for w in first.weights])))
    weights = [Var(w.name, w.ty, w.span) for w in first.weights]
    bindings: list[Binding] = [VarBinding(w, TupleGetItem(params, i)) for i, w in enumerate(weights)]
    known: dict[Hashable, Var] = {}
    stands: dict[str, dict[Any, Any]] = {}
    outputs: dict[Var, None] = {}
    for name, found in lifted.items():
        mapping: dict[Any, Any] = dict(zip(found.weights, weights))
        for binding in found.bindings:
            value = Rewriter(mapping=mapping)(binding.value)
            var = known.get(value_key(value))
            if var is None:
                var = known[value_key(value)] = Var(binding.var.name, binding.var.ty, binding.var.span)
                bindings.append(VarBinding(var, value))
            mapping[binding.var] = var
        stands[name] = mapping
        outputs.update(dict.fromkeys([mapping[v] for v in found.outputs]))
    result = Tuple(tuple(outputs))
    body = SeqExpr((BindingBlock(tuple(bindings)),), result)
    transform = Function((params,), body, result.ty, True, {"global_symbol": "transform_params"})
    changes: dict[str, Function] = {"transform_params": fresh_copy(transform)}
    for name, found in lifted.items():
        fresh = {v: Var(v.name, v.ty) for v in outputs}
        mapping = {old: fresh[stands[name][old]] for old in found.outputs}
        changes[name] = found.rest(tuple(fresh.values()), mapping)
    return changes


@module_pass()
def lift_transform_params(mod: IRModule, *, shared: bool = False) -> IRModule:
    """Move computation on weights into functions to be run once.

    Requires the attribute ``num_input``. Gives ``<name>_transform_params``, or one ``transform_params`` with ``shared``.
    ``shared``: one ``transform_params`` for all functions; they must have the same weights.
    """
    lifted: dict[str, _Lifted] = {}
    for name, fn in mod.graph_functions().items():
        count = fn.attrs.get("num_input")
        if isinstance(count, int) and count < len(fn.params):
            found = _Lifted(fn, count)
            if found.bindings or shared:
                lifted[name] = found
    if not lifted:
        return mod
    changes = _together(lifted) if shared else _separate(lifted)
    for name in changes:
        if name in mod and name not in lifted:
            raise PassError("E558", f"the module has a function {name} already", help="rename it")
    return mod.with_functions(changes)
