"""Traces as TVM's tuning records hold them: ``[[[kind, inputs, attributes, outputs], ...], [[step, decision], ...]]``.

Read only. Not here: our own form (``trace.py``). Invariant: a record that is read has the meaning it has in TVM; a kind without
a primitive here is refused by name.
"""

from __future__ import annotations

from typing import Any

from ....support.errors import ScheduleError
from ..core.registry import ROWS, SAMPLE, Row

NAMES = {"get_sblock": "GetSBlock", "rfactor": "RFactor", "reindex": "ReIndex", "unsafe_set_dtype": "UnsafeSetDType"}
"""TVM's names of primitives that are not ours in capitals."""
INPUTS = {
    "split": "loop *factors",
    "loop_partition": "loop *factors",
    "reorder_block_iter_var": "block new_order",
    "cache_read": "block consumer_blocks",
    "cache_write": "block consumer_blocks",
    "annotate": "block_or_loop ann_val",
}
"""Inputs of instructions (``*``: all that follow) of which some are not blocks or loops."""


def tvm_name(primitive: str) -> str:
    """The name of a kind of instruction in TVM."""
    return NAMES.get(primitive) or "".join([word.capitalize() for word in primitive.split("_")])


def row_of(kind: Any) -> Row | None:
    """The primitive of a kind of instruction; None for those that are not read: index maps are code there."""
    named = [row for row in ROWS.values() if tvm_name(row.name) == kind and "index_map" not in row.annotations]
    return named[0] if named else None


def inputs_and_attributes(row: Row) -> tuple[list[str], list[str]]:
    """The parameters of a primitive that TVM's instruction has as inputs, and those that it has as attributes."""
    parameters = [p for p in row.signature.parameters.values() if p.name != "decision"]
    names = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in parameters]
    references = [name for name in names if "Ref" in row.annotations[name.removeprefix("*")]]
    inputs = INPUTS[row.name].split() if row.name in INPUTS else references
    return inputs, [name for name in names if not {name, f"*{name}"} & {*inputs}]


def is_tvm_trace(data: Any) -> bool:
    """True if this looks like a trace that TVM wrote."""
    return (
        isinstance(data, (list, tuple)) and len(data) == 2 and all([isinstance(part, (list, tuple)) for part in data])
    )


def to_entries(data: Any) -> list[dict[str, Any]]:
    """The steps in the form ``Trace.from_json`` reads. Raises ScheduleError E405 for what is not a record, E406 for a kind of
    instruction that is not here."""
    insts, decisions = data
    chosen: dict[int, Any] = {}
    for pair in decisions:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or type(pair[0]) is not int:
            raise ScheduleError("E405", f"a trace of TVM holds the decision {pair!r}")
        chosen[pair[0]] = pair[1]
    return [_entry(number, inst, chosen) for number, inst in enumerate(insts)]


def _entry(number: int, inst: Any, chosen: dict[int, Any]) -> dict[str, Any]:
    if (
        not isinstance(inst, (list, tuple))
        or len(inst) != 4
        or any([not isinstance(p, (list, tuple)) for p in inst[1:]])
    ):
        raise ScheduleError("E405", f"step {number + 1} of the trace is not [kind, inputs, attributes, outputs]")
    kind, inputs, attributes, outputs = inst
    row = row_of(kind)
    if row is None:
        raise ScheduleError(
            "E406", f"step {number + 1} of the trace, {kind!r}, is a primitive this version does not read"
        )
    takes, keeps = inputs_and_attributes(row)
    args: dict[str, Any] = {}
    values, rest = [_input(value) for value in inputs], list(attributes)
    for key in takes:
        if key.startswith("*"):
            args[key[1:]], values = values, []
        elif values:
            value = values.pop(0)
            args.update({key: value} if value != [] else {})
    for key in keeps[: len(rest)]:
        value = rest.pop(0)
        if key == "buffer":  # by its place among those of a kind: 0 read, 1 written
            args[key] = [("read", "write")[bool(rest and rest.pop(0))], value]
        else:
            args[key] = bool(value) if row.annotations[key] == "bool" else value
    if values or rest:
        raise ScheduleError("E405", f"step {number + 1} of the trace, {kind}, has more arguments than {row.name} takes")
    entry = {"kind": row.name, "args": args, "outputs": list(outputs)}
    return {**entry, "decision": chosen[number]} if row.kind == SAMPLE and number in chosen else entry


def _input(value: Any) -> Any:
    """An input as our form writes it: names of variables apart from quoted strings."""
    if value == "None":
        return None
    if isinstance(value, str):
        return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else {"rv": value}
    return [_input(item) for item in value] if isinstance(value, (list, tuple)) else value
