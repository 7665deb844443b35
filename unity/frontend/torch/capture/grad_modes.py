"""Computations under ``no_grad`` put in their place in the exported program: here nothing is recorded for gradients.

``torch.export`` keeps such a part as a graph of its own, called by a function of functions; torch itself would trace the whole
anew to put it back. So is what runs with autocast off; with autocast on operators compute something else: left to torch.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

from ....support.optional import require


def without_grad_modes(program: Any) -> Any:
    """The program with the parts under ``no_grad`` and its kin in place; the same object where there are none, or where one of
    them holds more than operators."""
    torch = require("torch")
    parts = _parts(program.graph_module)
    if not parts or any([_holds_modules(part) for part in parts]):
        return program
    flat = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    _copy(program.graph_module, flat, copies, "")
    signature = copy.deepcopy(program.graph_signature)
    for old in program.graph.output_node().all_input_nodes:
        if copies[old].name != old.name:
            signature.replace_all_uses(old.name, copies[old].name)
    return with_graph(program, flat, signature, program.constants)


def copied(program: Any) -> tuple[Any, Any]:
    """Copies of a program's graph and signature: the nodes keep their names, also those that torch would not give again."""
    graph, signature = copy.deepcopy((program.graph, program.graph_signature))
    for own, node in zip(program.graph.nodes, graph.nodes, strict=True):
        node.name = own.name
    return graph, signature


def with_graph(program: Any, graph: Any, signature: Any, constants: dict[str, Any]) -> Any:
    """Another program of the same model: its graph and signature are these, its tensors shared, its calls of modules left out."""
    return require("torch").export.ExportedProgram(
        root=program.graph_module, graph=graph, graph_signature=signature, state_dict=program.state_dict,
        range_constraints=copy.deepcopy(program.range_constraints), module_call_graph=program.module_call_graph[:1],
        example_inputs=program.example_inputs, constants=constants, verifiers=program.verifiers,
    )  # fmt: skip


def _called(node: Any) -> tuple[Any, list[Any]] | None:
    """The graph that a node calls under another mode of gradients, or with autocast off, and what it passes; None for others."""
    modes = require("torch").ops.higher_order
    place = 1 if node.target is modes.wrap_with_set_grad_enabled else 4
    if place == 4 and (node.target is not modes.wrap_with_autocast or node.args[2]):
        return None
    return getattr(node.graph.owning_module, node.args[place].target), list(node.args[place + 1 :])


def _parts(owner: Any) -> list[Any]:
    """The graphs called in another mode, those inside them too."""
    called = [found[0] for node in owner.graph.nodes if (found := _called(node)) is not None]
    return [inner for part in called for inner in [part, *_parts(part)]]


def _names_part(node: Any) -> bool:
    """True if a node names a graph called in another mode, and nothing else."""
    return node.op == "get_attr" and bool(node.users) and all([_called(user) is not None for user in node.users])


def _holds_modules(part: Any) -> bool:
    """True if a graph refers to modules for anything but another mode."""
    return any([node.op == "get_attr" and not _names_part(node) for node in part.graph.nodes])


def _copy(owner: Any, flat: Any, copies: dict[Any, Any], prefix: str) -> None:
    """Copy the nodes of a graph (of a part: but for its inputs and results) behind those of ``flat``; names outside parts stay."""
    torch = require("torch")
    parts: dict[Any, Any] = {}
    for node in owner.graph.nodes:
        if _names_part(node) or (prefix and node.op in ("placeholder", "output")):
            continue
        called = _called(node)
        if called is not None:
            part, given = called
            inputs = [n for n in part.graph.nodes if n.op == "placeholder"]
            copies |= zip(inputs, torch.fx.map_arg(given, copies.__getitem__))
            _copy(part, flat, copies, f"{prefix}{node.name}_")
            parts[node] = torch.fx.map_arg(part.graph.output_node().args[0], copies.__getitem__)
        elif node.target is operator.getitem and node.args[0] in parts:
            copies[node] = parts[node.args[0]][node.args[1]]
        else:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), copies.__getitem__)
            copies[node] = flat.create_node(node.op, node.target, args, kwargs, f"{prefix}{node.name}", node.type)
            copies[node].meta = copy.copy(node.meta)
