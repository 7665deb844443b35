"""A program as JSON and back: rows of the bytecode's own classes, whose fields are the schema (`support/schema.py`).

What ``decode`` gives was looked at by the verifier too (``verifier.py``): a hand-made or damaged text is an ArtifactError E805,
never a crash. Constants are not in here (raw sections of the file); nor are costs, which are known later than machine code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...ffi.abi import OPERATORS, TYPED, BufferParam, Dim, KernelSignature, ScalarParam
from ...ffi.tensor import Tensor
from ...support.errors import ArtifactError
from ...support.schema import Misfit, Schema
from . import bytecode as bc
from .verifier import verify_program

_ARITY = {"not": 1, "select": 3, **dict.fromkeys(TYPED, 1)}
_TAGS: dict[type, str] = {
    bc.Call: "c", bc.Ret: "r", bc.Goto: "g", bc.If: "i",
    bc.Reg: "r", bc.Imm: "i", bc.Const: "c", bc.Func: "f@", bc.Size: "s", bc.Bind: "b",
    BufferParam: "b", ScalarParam: "s",
}  # fmt: skip
Costs = dict[str, tuple[Dim, Dim]]


def _dim(value: Any) -> Dim:
    """A formula: an integer, or an operator and its operands."""
    if type(value) is int:
        if -(2**63) <= value < 2**63:
            return value
        raise Misfit("a dimension of more than 64 bits")
    kind = value[0] if type(value) is list and value else None
    if kind == "sym" and len(value) == 2 and type(value[1]) is int and value[1] >= 0:
        return ("sym", value[1])
    if type(kind) is not str or kind not in (*OPERATORS, *TYPED) or len(value) != 1 + _ARITY.get(kind, 2):
        raise Misfit(f"expected a formula, got {ascii(value)[:60]}")
    return (kind, *[_dim(v) for v in value[1:]])


SCHEMA = Schema(_TAGS, {Dim: _dim})


@dataclass(slots=True, frozen=True)
class _File:
    """A program as it is written."""

    functions: list[bc.VMFunction]
    table: list[bc.Entry]
    contexts: list[bc.Context]
    places: list[str]
    kernels: list[tuple[str, str, KernelSignature]]


def encode(program: bc.Program) -> bytes:
    """JSON text of everything but the constants' data and the costs."""
    kernels = [(name, program.symbol(name), signature) for name, signature in program.kernels.items()]
    data = _File(list(program.functions.values()), program.table, program.contexts, program.places, kernels)
    return json.dumps(SCHEMA.write(data), separators=(",", ":")).encode()


def decode(data: bytes, constants: list[Tensor], costs: Costs | None = None) -> bc.Program:
    """A program from JSON text, verified. Raises ArtifactError E805 for text that is not a program."""
    try:
        file = SCHEMA.read(_File, json.loads(data))
        program = bc.Program(
            _by_name([(fn.name, fn) for fn in file.functions], "functions"), file.table, constants, file.contexts, file.places,
            _by_name([(name, signature) for name, _, signature in file.kernels], "kernels"),
            {name: symbol for name, symbol, _ in file.kernels}, costs or {},
        )  # fmt: skip
        verify_program(program)
    except (ValueError, RecursionError) as error:
        raise ArtifactError("E805", f"the bytecode of the file is not valid: {error}") from error
    return program


def _by_name(rows: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    found = dict(rows)
    if len(found) != len(rows):
        raise Misfit(f"two {what} of one name")
    return found


def write_costs(costs: Mapping[str, tuple[Dim, Dim]]) -> Any:
    """Costs of kernels as JSON data."""
    return SCHEMA.write(dict(costs))


def signature_data(signature: KernelSignature) -> Any:
    """A kernel's signature as JSON data."""
    return SCHEMA.write(signature)


def read_signature(value: Any) -> KernelSignature:
    """A signature from its JSON data. Raises ValueError for other data."""
    return SCHEMA.read(KernelSignature, value)
