"""``f.refresh()``: constants of a compiled program made anew of the model's present weights, as the build made them of the first.

What a build did to constants is remembered by its ``Provenance``: so no pass is run. Invariant: a program whose passes looked at
elements that have changed is refused, and so is one whose weights are no longer laid out, shared or typed as they were.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...ffi.tensor import Tensor
from ...ir.expr import Constant
from ...ir.module import IRModule
from ...ir.node import replace as replaced
from ...ir.walk import rewrite
from ...support.errors import FrontendError
from ...support.optional import require
from ...support.recursion import deep_recursion
from ...transform.tir.expressions.simplify import bind_shared
from ...vm.build import module_text
from ...vm.executable.executable import Executable
from .capture.discard_parameters import TensorTables, memory_key
from .runtime.memory import as_pairs


@dataclass(slots=True, frozen=True)
class Weight:
    """A weight as it was imported: ``name`` in the model, ``data`` for the module; not kept alive."""

    name: str
    value: weakref.ref[Any]
    data: Tensor
    version: int

    def present(self, tables: Mapping[str, Any]) -> Any:
        """The torch tensor it is now; None where it is gone."""
        found = tables.get(self.name)
        return self.value() if found is None else found


def imported_weights(tables: TensorTables, weights: Mapping[str, Tensor], read: Iterable[Tensor]) -> list[Weight]:
    """The weights of an import among the constants ``read`` of its module."""
    used = {id(tensor) for tensor in read}
    found = [(name, tables.tensor(name), data) for name, data in weights.items() if id(data) in used]
    return [
        Weight(name, weakref.ref(value), data, 0 if value.is_inference() else value._version)
        for name, value, data in found
        if value is not None
    ]


def shared_names(tables: TensorTables) -> list[list[str]]:
    """Names of one tensor each, where there are several."""
    groups: dict[Any, list[str]] = {}
    for table in (tables.state_dict, tables.constants):
        for name, value in table.items():
            if isinstance(value, require("torch").Tensor) and value.numel():
                groups.setdefault(memory_key(value), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def present_tensors(model: Any) -> dict[str, Any]:
    """The tensors of a torch module or exported program by name; none where it is gone."""
    if model is None:
        return {}
    if hasattr(model, "graph_signature"):
        return {**model.state_dict, **model.constants}
    parameters, buffers = [named(remove_duplicate=False) for named in (model.named_parameters, model.named_buffers)]
    return {**dict(parameters), **dict(buffers)}


def refreshed(
    executable: Executable,
    module: IRModule,
    weights: Sequence[Weight],
    shared: Iterable[list[str]],
    tables: Mapping[str, Any],
) -> tuple[Executable, IRModule, list[Weight]]:
    """A program, the module it was built of, and its weights, as they are now. Raises FrontendError E662."""
    provenance = executable.provenance
    if provenance is None:
        raise _refused(
            "nobody knows how its constants were made (fewer bits, discarded parameters, passes of one's own, UNITY_EXPLAIN)"
        )
    for first, *others in shared:
        for name in others:
            if first in tables and name in tables and memory_key(tables[first]) != memory_key(tables[name]):
                raise _refused(f"{first} and {name} were one tensor and are two")
    taken = [_taken(weight, weight.present(tables)) for weight in weights]
    moved = {id(old.data): new.data for old, new in zip(weights, taken) if old.data is not new.data}
    sources = [moved.get(id(source), source) for source in provenance.sources]
    constants = provenance.constants(sources)
    if constants is None:
        raise _refused(
            "it was compiled for the elements of a weight that has changed (a scale that is part of a kernel, say)"
        )
    program = replace(executable.program, constants=constants)
    result = replace(executable, program=program, provenance=replace(provenance, sources=sources))
    if moved:
        module = _with_data(module, moved)
        result.describe = partial(module_text, bind_shared(module))
    return result, module, taken


def _with_data(mod: IRModule, moved: Mapping[int, Tensor]) -> IRModule:
    """A module with other tensors in its constants, by the identity of those they replace."""
    with deep_recursion():
        changed: IRModule = rewrite(
            mod, {Constant: lambda node: replaced(node, data=moved[id(node.data)]) if id(node.data) in moved else node}
        )
    return changed


def _taken(weight: Weight, value: Any) -> Weight:
    """A weight as the importer takes it, in the type and size it had."""
    if value is None:
        raise _refused(f"the weight {weight.name} is gone with its model")
    tensor = Tensor.from_torch(as_pairs(value.detach().cpu()))
    if (tensor.dtype, tensor.shape) != (weight.data.dtype, weight.data.shape):
        raise _refused(f"the weight {weight.name} is {tensor.dtype}{list(tensor.shape)} now, it was "
                       f"{weight.data.dtype}{list(weight.data.shape)}")  # fmt: skip
    changed = value._version != weight.version or weight.value() is not value
    if changed and not (value.is_floating_point() or value.is_complex()):
        raise _refused(f"{weight.name} holds {tensor.dtype} numbers, which are checked when the model is compiled")
    data = weight.data if tensor.data_ptr == weight.data.data_ptr else tensor
    return Weight(weight.name, weakref.ref(value), data, weight.version)


def _refused(why: str) -> FrontendError:
    return FrontendError("E662", f"this model cannot take other weights: {why}", help="compile the model again")
