"""Traces as TVM's tuning records hold them: ``[[[kind, inputs, attributes, outputs], ...], [[step, decision], ...]]``.

Read only. Not here: our own form (``trace.py``). Invariant: a record that is read has the meaning it has in TVM; a kind without
a primitive here is refused by name.
"""

from __future__ import annotations

from typing import Any

from ....support.errors import ScheduleError
from ..core.registry import ROWS, SAMPLE

KINDS: dict[str, tuple[str, str, str]] = {
    "GetBlock": ("get_block", "", "name func_name"),
    "GetSBlock": ("get_sblock", "", "name func_name"),
    "GetLoops": ("get_loops", "block", ""),
    "GetChildBlocks": ("get_child_blocks", "block_or_loop", ""),
    "GetProducers": ("get_producers", "block", ""),
    "GetConsumers": ("get_consumers", "block", ""),
    "GetOutputBlocks": ("get_output_blocks", "scope_block", ""),
    "SampleCategorical": ("sample_categorical", "", "candidates probs"),
    "SamplePerfectTile": ("sample_perfect_tile", "loop", "n max_innermost_factor"),
    "SamplePartitionedTile": ("sample_partitioned_tile", "loop", "n partition_pos innerpart_factor"),
    "SampleComputeLocation": ("sample_compute_location", "block", ""),
    "Split": ("split", "loop *factors", "preserve_unit_iters disable_predication"),
    "LoopPartition": ("loop_partition", "loop *factors", "preserve_unit_iters"),
    "Fuse": ("fuse", "*loops", "preserve_unit_iters"),
    "Merge": ("merge", "*loops", ""),
    "Reorder": ("reorder", "*ordered_loops", ""),
    "ReorderBlockIterVar": ("reorder_block_iter_var", "block new_order", ""),
    "AddUnitLoop": ("add_unit_loop", "block_or_loop", ""),
    "Parallel": ("parallel", "loop", ""),
    "Vectorize": ("vectorize", "loop", ""),
    "Unroll": ("unroll", "loop", ""),
    "Bind": ("bind", "loop", "thread_axis"),
    "CacheRead": ("cache_read", "block consumer_blocks", "read_buffer_index storage_scope"),
    "CacheWrite": ("cache_write", "block consumer_blocks", "write_buffer_index storage_scope"),
    "ComputeAt": ("compute_at", "block loop", "preserve_unit_loops index"),
    "ReverseComputeAt": ("reverse_compute_at", "block loop", "preserve_unit_loops index"),
    "ComputeInline": ("compute_inline", "block", ""),
    "ReverseComputeInline": ("reverse_compute_inline", "block", ""),
    "DecomposeReduction": ("decompose_reduction", "block loop", ""),
    "RFactor": ("rfactor", "loop", "factor_axis"),
    "ReIndex": ("reindex", "block", "_place _kind"),
    "SetAxisSeparator": ("set_axis_separator", "block", "_place _kind axis_separators"),
    "StorageAlign": ("storage_align", "block", "buffer_index axis factor offset"),
    "SetScope": ("set_scope", "block", "buffer_index storage_scope"),
    "UnsafeSetDType": ("unsafe_set_dtype", "block", "buffer_index dtype"),
    "Blockize": ("blockize", "target", "preserve_unit_iters"),
    "Tensorize": ("tensorize", "block_or_loop", "tensor_intrin preserve_unit_iters"),
    "Annotate": ("annotate", "block_or_loop ann_val", "ann_key"),
    "Unannotate": ("unannotate", "block_or_loop", "ann_key"),
    "DecomposePadding": ("decompose_padding", "block loop", ""),
    "PadEinsum": ("pad_einsum", "block", "padding"),
    "EnterPostproc": ("enter_postproc", "", ""),
}
"""Primitive, names of its inputs (``*``: all that follow) and of its attributes, by TVM's name of the instruction. A buffer is
given by its place among those of a kind: 0 read, 1 written."""


_NAMES = {name: kind for kind, (name, _, _) in KINDS.items()}


def tvm_name(primitive: str) -> str:
    """The name of a kind of instruction in TVM."""
    return _NAMES.get(primitive) or "".join([word.capitalize() for word in primitive.split("_")])


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
    found = KINDS.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise ScheduleError(
            "E406", f"step {number + 1} of the trace, {kind!r}, is a primitive this version does not read"
        )
    name, takes, keeps = found
    args: dict[str, Any] = {}
    values = [_input(value) for value in inputs]
    for key in takes.split():
        if key.startswith("*"):
            args[key[1:]], values = values, []
        elif values:
            value = values.pop(0)
            args.update({key: value} if value != [] else {})
    row = ROWS[name]
    for key, value in zip(keeps.split(), attributes):
        args[key] = bool(value) if row.annotations.get(key) == "bool" else value
    if "_kind" in args:
        args["buffer"] = [("read", "write")[bool(args.pop("_kind"))], args.pop("_place")]
    if values or len(attributes) > len(keeps.split()):
        raise ScheduleError("E405", f"step {number + 1} of the trace, {kind}, has more arguments than {name} takes")
    entry = {"kind": name, "args": args, "outputs": list(outputs)}
    return {**entry, "decision": chosen[number]} if row.kind == SAMPLE and number in chosen else entry


def _input(value: Any) -> Any:
    """An input as our form writes it: names of variables apart from quoted strings."""
    if value == "None":
        return None
    if isinstance(value, str):
        return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else {"rv": value}
    return [_input(item) for item in value] if isinstance(value, (list, tuple)) else value
