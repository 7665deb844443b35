"""Bindings of each dataflow block in a chosen order; every binding stays after those it uses.

``order="depth_first"`` computes a value close to where it is used (less memory alive); ``"breadth_first"`` computes first what
needs least (more that could run side by side). ``direction="from_outputs"`` walks from the results, ``"from_inputs"`` from the
parameters. Bindings with equal claims keep the order in which they stand; from the outputs, the first
operand stands nearest to its use.

``assert_last``: assertions about tensors come last, where nothing behind them has an effect: ``R.assert_op(t); y = f(x); g(y)`` ->
``y = f(x); g(y); R.assert_op(t)``. For devices that compute beside the host: an assertion copies its condition and waits, and the
device would be idle until the next kernel is launched. The call raises as before.
"""

from __future__ import annotations

from ....ir.binders import bound_symbols
from ....ir.expr import Binding, BindingBlock, Call, DataflowBlock, SeqExpr, Var
from ....ir.function import Function
from ....ir.infer import find_impure_call
from ....ir.node import replace
from ....ir.types import TensorType
from ....ir.walk import Rewriter, free_vars
from ....op.common.table import R
from ....support.errors import PassError
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import without

_ORDERS, _DIRECTIONS = ("depth_first", "breadth_first"), ("from_inputs", "from_outputs")


def _sorted(bindings: tuple[Binding, ...], order: str, direction: str) -> list[Binding]:
    maker: dict[Var, int] = {}
    for index, binding in enumerate(bindings):
        for var in (binding.var, *bound_symbols(getattr(binding, "target", binding.var.ty))):
            maker.setdefault(var, index)
    needs: list[list[int]] = []
    for index, binding in enumerate(bindings):
        used = [maker[v] for v in free_vars(binding) if v in maker and maker[v] < index]
        needs.append(list(dict.fromkeys(used)))  # in the order of use, which sorting does not change
    users: list[list[int]] = [[] for _ in bindings]
    for index, sources in enumerate(needs):
        for source in sources:
            users[source].append(index)
    deep = order == "depth_first"
    if direction == "from_inputs":
        return [bindings[i] for i in _walk(needs, users, deep)]
    return [bindings[i] for i in reversed(_walk(users, needs, deep, from_end=True))]


def _walk(before: list[list[int]], after: list[list[int]], deep: bool, from_end: bool = False) -> list[int]:
    """Indices so that ``before`` of each come first; what became ready last goes first when ``deep``."""
    waiting = [len(b) for b in before]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    if deep != from_end:
        ready.reverse()
    order: list[int] = []
    while ready:
        index = ready.pop() if deep else ready.pop(0)
        order.append(index)
        freed = []
        for user in after[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                freed.append(user)
        ready += reversed(freed) if deep else freed
    return order


@function_pass()
def topological_sort(fn: Function, *, order: str = "depth_first", direction: str = "from_inputs") -> Function:
    """Order the bindings of each dataflow block.

    ``order``: depth_first or breadth_first; ``direction``: from_inputs or from_outputs.
    """
    if order not in _ORDERS or direction not in _DIRECTIONS:
        raise PassError(
            "E556",
            f"order {order!r}, direction {direction!r} are not known",
            help=f"orders: {', '.join(_ORDERS)}; directions: {', '.join(_DIRECTIONS)}",
        )

    def rule(block: DataflowBlock) -> DataflowBlock:
        made = tuple(_sorted(block.bindings, order, direction))
        return block if made == block.bindings else DataflowBlock(made, block.span)

    return Rewriter({DataflowBlock: rule})(fn)


@function_pass()
def assert_last(fn: Function) -> Function:
    """Move assertions about tensors after what has no effect, to the end of a function."""
    if type(fn.body) is not SeqExpr:
        return fn
    whole, moved = fn.body.bindings, list[Binding]()
    for binding in reversed(whole):
        value = binding.value
        if type(value) is Call and value.op_name == R.assert_op.name and isinstance(value.args[0].ty, TensorType):
            moved.insert(0, binding)
        elif find_impure_call(value) is not None:
            break
    if not moved or whole[-len(moved) :] == moved:
        return fn
    rest = without(fn.body, lambda b: any([b is other for other in moved]))
    return replace(fn, body=replace(rest, blocks=(*rest.blocks, BindingBlock(tuple(moved)))))
