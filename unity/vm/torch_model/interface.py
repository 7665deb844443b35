"""What callers see of a compiled torch model: how arguments and results are nested, what is fixed, what the program writes to.

As JSON it stands in a saved file. Not here: the program and its tensors (`vm/executable.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from ...support.errors import ArtifactError, FrontendError, MissingExtraError
from ...support.extras import require
from .structures import class_named, register_class

_PLAIN = (bool, int, float, str, type(None))


@dataclass(slots=True, frozen=True)
class Interface:
    """The leaves of the arguments go to ``main`` in order, then the state; its leading results are new values of ``updates``."""

    names: list[str]
    """Parameters of ``forward``."""
    in_spec: Any
    out_spec: Any
    """torch's descriptions of the nesting of ((arguments), {named}) and of the result."""
    fixed: list[tuple[bool, Any]]
    """For every leaf of the arguments: is it no argument of ``main``, and the value it was exported with."""
    outputs: list[tuple[bool, Any]]
    """For every leaf of the result: is it computed, its value where it is not; where torch gives one tensor twice, the number of
    its first place among the computed leaves."""
    floats: list[bool]
    """For every computed leaf: is it a Python number, which ``main`` gives as a tensor of rank 0?"""
    updates: list[int | str]
    """What the leading results are stored in: a place among the leaves of the arguments, or a tensor of the state by name."""
    shared: bool
    """May torch take the memory of every result as numpy has it?"""
    complex_inputs: list[int] = field(default_factory=list)
    complex_outputs: list[int] = field(default_factory=list)
    """Places among the leaves of the arguments and among the computed leaves that are complex: pairs of numbers for ``main``."""
    complex_state: list[str] = field(default_factory=list)
    """The tensors of the state that are."""


def write_interface(interface: Interface) -> bytes:
    """An interface as JSON. Raises FrontendError E019."""
    tree = require("torch").utils._pytree
    found = {f.name: getattr(interface, f.name) for f in fields(interface)}
    values = [value for _, value in (*interface.fixed, *interface.outputs)]
    wrong = [type(value).__name__ for value in values if type(value) not in _PLAIN]
    if wrong:
        raise FrontendError("E019", f"a {wrong[0]} among the arguments or results cannot be saved")
    try:
        found |= {name: tree.treespec_dumps(found[name]) for name in ("in_spec", "out_spec")}
    except (NotImplementedError, TypeError, ValueError) as error:
        raise FrontendError("E019", f"the nesting of arguments or results cannot be saved: {error}") from error
    return json.dumps(found).encode()


def read_interface(data: bytes, name: str) -> Interface:
    """An interface from JSON. Raises ArtifactError E805."""
    tree = require("torch").utils._pytree
    try:
        found = json.loads(data)
        for key in ("in_spec", "out_spec"):
            _know_classes(json.loads(found[key])[1], tree)
            found[key] = tree.treespec_loads(found[key])
        made = Interface(**found)
        places = [*made.complex_inputs, *made.complex_outputs]
        if (
            any([type(t) not in (int, str) for t in made.updates])
            or type(made.shared) is not bool
            or any([type(place) is not int for place in places])
        ):
            raise ValueError("no interface")
        return made
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        NotImplementedError,
        MissingExtraError,
    ) as error:
        raise ArtifactError("E805", f"{name}: the description of the model is not valid: {error}") from error


def _know_classes(row: Any, tree: Any) -> None:
    """Import the classes a description names, so that torch knows them."""
    kind = row["type"]
    if kind is not None and kind not in tree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
        if ":" in kind:
            register_class(class_named(kind))
        else:
            require(kind.rpartition(".")[0])
    for child in row["children_spec"]:
        _know_classes(child, tree)


__all__ = ["Interface", "read_interface", "write_interface"]
