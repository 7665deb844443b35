"""The interface of a compiled torch model to its callers: how arguments and results are nested, what is fixed, what the program
writes to.

As JSON it stands in a saved file. Not here: the program and its tensors (`vm/executable/executable.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Annotated, Any

from ....support.errors import ArtifactError
from ....support.schema import Misfit, Schema, need, within
from .classes import AllowedClasses
from .nesting import read_spec, read_value, write_spec, write_value
from .structures import LEAF, Template

Place = Annotated[int, within(0, 1 << 31)]


@dataclass(slots=True, frozen=True)
class Interface:
    """The leaves of the arguments go to ``main`` in order, then the state; its leading results are new values of ``updates``."""

    names: list[str]
    """Parameters of ``forward`` that a call may give by place."""
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
    """The places of the leading results: places among the leaves of the arguments, or tensors of the state by name."""
    shared: bool
    """True if torch may take the memory of every result as numpy has it."""
    complex_inputs: list[Place]
    complex_outputs: list[Place]
    """Places among the leaves of the arguments and among the computed leaves that are complex: pairs of numbers for ``main``."""
    complex_state: list[str]
    """The tensors of the state that are."""


def write_interface(interface: Interface) -> bytes:
    """An interface as JSON. Raises FrontendError E019."""
    found = {f.name: getattr(interface, f.name) for f in fields(interface)}
    found |= {name: write_spec(found[name]) for name in ("in_spec", "out_spec")}
    found |= {name: [[known, write_value(value)] for known, value in found[name]] for name in ("fixed", "outputs")}
    return json.dumps(found).encode()


def read_interface(data: bytes, vouched: AllowedClasses) -> Interface:
    """An interface from JSON. Raises ArtifactError E805, E807."""
    try:
        saved: Interface = Schema().record(Interface, json.loads(data))
        found = {f.name: getattr(saved, f.name) for f in fields(saved)}
        found |= {name: read_spec(found[name], vouched) for name in ("in_spec", "out_spec")}
        found |= {
            name: [(known, _constant(value, vouched)) for known, value in found[name]] for name in ("fixed", "outputs")
        }
        interface = Interface(**found)
        _check(interface)
        return interface
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            "E805", f"{vouched.file}: the description of the model is not valid: {error or 'nested too deeply'}"
        ) from error


def _constant(data: Any, vouched: AllowedClasses) -> Any:
    """A value that stands for a leaf."""
    value = read_value(data, vouched)
    if type(value) in (list, tuple, dict, set, frozenset, Template) or value is LEAF:
        raise Misfit("a leaf that is none")
    return value


def _check(interface: Interface) -> None:
    """Raise Misfit where parts of an interface do not fit each other."""
    positional = interface.in_spec.children()
    need(
        interface.in_spec.type is tuple and [p.type for p in positional] == [tuple, dict],
        "inputs are ((arguments), {named})",
    )
    need(interface.in_spec.num_leaves == len(interface.fixed), "a constant or none for each input")
    need(interface.out_spec.num_leaves == len(interface.outputs), "a constant or none for each output")
    need(all([type(key) is str for key in positional[1].context]), "names of arguments are strings")
    computed = [value for known, value in interface.outputs if known]
    need(len(interface.floats) == len(computed), "for each computed output, whether it is a number")
    for position, first in enumerate(computed):
        need(first is None or (type(first) is int and 0 <= first < position), "a tensor given twice stands before")
    given = [n for n, (known, _) in enumerate(interface.fixed) if not known]
    names = [target for target in interface.updates if type(target) is str]
    need(all([target in given for target in interface.updates if type(target) is int]), "updated inputs are inputs")
    need(len(names) == len(set(names)), "each tensor of the state is named once")
    need(set(interface.complex_inputs) <= set(given), "complex inputs are inputs")
    need(all([n < len(computed) for n in interface.complex_outputs]), "complex outputs are computed")
    need(len(set(interface.complex_outputs)) == len(interface.complex_outputs), "an output is complex once")
    need(set(interface.complex_state) <= set(names), "complex state is state")


def check_program(interface: Interface, takes: int, gives: int | None, state: int) -> None:
    """Raise Misfit where an interface does not fit a ``main`` of ``takes`` parameters, which gives so many results (None:
    nobody knows), and a file with so many tensors of state."""
    names = [target for target in interface.updates if type(target) is str]
    need(len(names) == state, "the state is complete")
    need(
        len([fixed for fixed, _ in interface.fixed if not fixed]) + state == takes,
        "the program takes the inputs and the state",
    )
    need(
        gives in (None, len(interface.updates) + len(interface.floats)),
        "the program gives the new values and the computed outputs",
    )
