"""``Imported``: a torch model as a module, with what callers see of it; from ``torch.export``, or as an earlier process left it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...ffi.torch_bridge import shared_with_torch
from ...ir.module import IRModule
from ...ir.types import TensorType
from ...ir.walk import collect
from .capture.discard_parameters import TensorTables
from .capture.trace import functional
from .context.report import ImportReport
from .exported_program import Options, float_outputs, import_program, output_constants, state_updates
from .runtime.interface import Interface
from .runtime.nesting import note_classes


@dataclass(slots=True, frozen=True)
class Imported:
    """``state``: the tensors the module writes to. ``held``: the tables through which the weights are kept alive."""

    module: IRModule
    interface: Interface
    state: dict[str, Any]
    report: ImportReport
    held: tuple[TensorTables, ...]


def imported(program: Any, options: Options, names: Sequence[str] = ()) -> Imported:
    """An ``ExportedProgram`` imported; ``names`` are the parameters of ``forward``. Raises FrontendError E010 to E016."""
    plain = functional(program)
    report = ImportReport()
    module = import_program(plain, options, report)
    interface = interface_of(plain, module, list(names))
    held = tuple([TensorTables(p.state_dict, p.constants) for p in (program, plain)])
    state = {target: held[-1].tensor(target) for target in interface.updates if isinstance(target, str)}
    return Imported(module, interface, state, report, held)


def interface_of(program: Any, module: IRModule, names: list[str]) -> Interface:
    """The interface of an exported program to its callers."""
    inputs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    places = [s.arg.name for s in inputs]
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    held, updates = TensorTables(program.state_dict, program.constants), state_updates(program)
    state = [target for kind, target in updates if kind != "USER_INPUT_MUTATION"]
    outputs = [s.arg for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    computed = [arg.name for arg in outputs if type(arg).__name__ != "ConstantArgument"]
    inputs_paired, outputs_paired = [
        [n for n, name in enumerate(leaves) if getattr(values.get(name), "is_complex", bool)()]
        for leaves in (places, computed)
    ]
    inner, outer = program.call_spec.in_spec, program.call_spec.out_spec
    note_classes(inner)
    note_classes(outer)
    return Interface(
        names,
        inner,
        outer,
        [(type(s.arg).__name__ == "ConstantArgument", getattr(s.arg, "value", None)) for s in inputs],
        output_constants(program),
        float_outputs(program),
        [places.index(t) if kind == "USER_INPUT_MUTATION" else t for kind, t in updates],
        all([shared_with_torch(ty.dtype) for ty in collect(module["main"].ret_ty, TensorType)]),
        inputs_paired,
        outputs_paired,
        [name for name in state if held.tensor(name).is_complex()],
    )
