"""Operators of torch that write to a tensor: which are the operator that gives a new one, whose result is read from then on.

Not here: writes through views (``frontend/torch/capture/written_views.py``) and to inputs and weights, which torch itself
rewrites (``trace.functional``).
"""

from __future__ import annotations

from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require

_FRESH = ("aten.conv", "aten.linear.", "aten.matmul.", "aten.batch_norm.", "aten.layer_norm.", "aten.group_norm.",
          "aten.instance_norm.", "aten.cross_entropy_loss.")  # fmt: skip
"""Composite operators that give a new tensor; others may give their operand back, as dropout and einsum do."""


def is_mutable(target: Any) -> bool:
    """True if an operator writes to an argument."""
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable


def overwrites_own_value(node: Any) -> bool:
    """True if an operator made the tensor that an in-place operator writes to, and no view of it is read until it is written to for
    the last time, as after ``relu_(conv(x))``.

    Then the operator without the underscore means the same, where later readers get its result (``overwritten``). Views, inputs
    and weights are seen elsewhere.
    """
    known = one_tensor(node)
    root = known[0]
    if root.op != "call_function" or is_mutable(root.target) or not _gives_new(root.target):
        return False
    writes = known[1:]
    if any([out_of_place(write.target) is write.target for write in writes]):
        return False
    last = max(writes)
    before = [user for value in known for user in value.users if user < last and user not in writes]
    return all([_gives_new(user.target) or out_of_place(user.target) is not user.target for user in before])


def one_tensor(node: Any) -> list[Any]:
    """The value behind in-place operators and all of them on it: one tensor in torch."""
    while is_mutable(node.target) and node.args and hasattr(node.args[0], "users"):
        node = node.args[0]
    found = [node]
    for value in found:
        found += [user for user in value.users if is_mutable(user.target) and user.args and user.args[0] is value]
    return found


def overwritten(node: Any) -> list[Any]:
    """The names under which what an in-place operator has written is read later."""
    return one_tensor(node) if is_mutable(node.target) and out_of_place(node.target) is not node.target else []


def refuse_other_kinds(program: Any) -> None:
    """Raise FrontendError E012 where an input or a tensor of the state is given another shape or data type, as by ``x.squeeze_()``
    and ``self.mean = self.mean.sum()``: its memory, into which the new value is copied at the end, would not hold it."""
    roots: dict[Any, Any] = {node: node for node in program.graph.nodes if node.op == "placeholder"}
    for node in program.graph.nodes:
        first = node.args[0] if is_mutable(node.target) and node.args else None
        returned = [r.alias_info for r in node.target._schema.returns[:1]] if hasattr(first, "users") else []
        if not any([alias is not None and alias.is_write for alias in returned]) or first not in roots:
            continue
        root = roots[node] = roots[first]
        was, becomes = [f"{str(v.meta['val'].dtype)[6:]}{list(v.meta['val'].shape)}" for v in (root, node)]
        if was != becomes:
            places = {getattr(s.arg, "name", ""): s.target or s.arg.name for s in program.graph_signature.input_specs}
            raise FrontendError("E012", f"the model changes {places[root.name]} from {was} to {becomes}",
                                help="write numbers into it as it is, or return the new tensor")  # fmt: skip


def _gives_new(target: Any) -> bool:
    """True if the result of an operator is not part of an argument, and no argument written to."""
    schema = getattr(target, "_schema", None)
    if schema is None or schema.is_mutable or any([r.alias_info is not None for r in schema.returns]):
        return False
    composite = require("torch")._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    return not composite or str(target).startswith(_FRESH)


def out_of_place(target: Any) -> Any:
    """The operator that gives a new tensor where ``target`` writes to its first operand; ``target`` itself otherwise."""
    if not is_mutable(target) or not target._schema.name.endswith("_"):
        return target
    namespace, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(require("torch").ops, namespace), name[:-1], None)
    if packet is None:
        return target
    named = [getattr(packet, o) for o in sorted(packet.overloads(), key=lambda o: o != target._overloadname)]
    return next((o for o in named if _signature(o) == _signature(target)), target)


def _signature(target: Any) -> set[tuple[str, str]]:
    """Names and types of an operator's parameters; some in-place operators order them in another way."""
    return {(a.name, str(a.type)) for a in target._schema.arguments}
