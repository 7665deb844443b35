"""Operators of torch that write to a tensor, and those that give a new one in their place.

Not here: programs without writes (``frontend/torch/capture/written_views.py``, or torch itself: ``trace.functional``).
"""

from __future__ import annotations

from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require
from ..context.report import module_path, traced_line


def is_mutable(target: Any) -> bool:
    """True if an operator writes to an argument."""
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable


def refuse_other_kinds(program: Any) -> None:
    """Raise FrontendError E012 where an input or a tensor of the state is given another shape, order in memory or data type, as by
    ``x.squeeze_()`` and ``self.mean = self.mean.sum()``: its memory, into which the new value is copied at the end, would not hold
    it."""
    roots: dict[Any, Any] = {node: node for node in program.graph.nodes if node.op == "placeholder"}
    for node in program.graph.nodes:
        first = node.args[0] if is_mutable(node.target) and node.args else None
        returned = [r.alias_info for r in node.target._schema.returns[:1]] if hasattr(first, "users") else []
        if not any([alias is not None and alias.is_write for alias in returned]) or first not in roots:
            continue
        root = roots[node] = roots[first]
        was, becomes = [f"{str(v.meta['val'].dtype)[6:]}{list(v.meta['val'].shape)}" for v in (root, node)]
        if was == becomes and require("torch").Tag.inplace_view in node.target.tags:
            was, becomes = [f"{was} of strides {list(v.meta['val'].stride())}" for v in (root, node)]
        if was != becomes:
            places = {getattr(s.arg, "name", ""): s.target or s.arg.name for s in program.graph_signature.input_specs}
            raise other_kind(f"{places[root.name]} from {was} to {becomes}")


def other_kind(change: str) -> FrontendError:
    """E012 for a tensor that is given another shape or data type."""
    return FrontendError("E012", f"the model changes {change}",
                         help="write numbers into it as it is, or return the new tensor")  # fmt: skip


def refuse_uncovered(program: Any) -> None:
    """Raise FrontendError E012 for windows (``unfold``) that leave out elements of a tensor that is written to: where torch makes
    the writes out of place, it takes zeros for what is left out."""
    for write in [n for n in program.graph.nodes if n.op == "call_function" and is_mutable(n.target) and n.args]:
        node = write.args[0]
        while getattr(node, "op", "") == "call_function" and node.args:
            if str(node.target) == "aten.unfold.default" and _leaves_out(node):
                span = traced_line(write.meta.get("stack_trace") or "", module_path(write))
                raise FrontendError("E012", "a write through windows (unfold) that leave out elements of the tensor", span,
                                    help="write through slices, or to a clone of the windows")  # fmt: skip
            schema = getattr(node.target, "_schema", None)  # none of one of several views
            new = schema is not None and not any([r.alias_info is not None for r in schema.returns])
            node = None if new else node.args[0]


def _leaves_out(node: Any) -> bool:
    """True unless windows are known to show every element."""
    axis, size, step = node.args[1:]
    count = node.args[0].meta["val"].shape[axis]
    return not isinstance(count, int) or step > size or (count - size) % step != 0


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
