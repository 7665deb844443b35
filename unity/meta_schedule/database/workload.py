"""``Workload``: the program of a record, which of its parameters are constants, and the checksum by which databases find it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ...ffi.native.pool import num_threads
from ...ffi.targets.target import Target
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.structural import structural_digest
from ...ir.verifier.verifier import verify
from ...script import parse
from ...support.errors import ScheduleError, UnityError
from ...transform.infra.backend import Machine, backend_of
from ..core.tune_context import MAIN, one_program

ASIDE = ("global_symbol", "op_pattern")
"""Attributes that say nothing about what a program computes: its name, and what fusion noted."""


@dataclass(slots=True, frozen=True, eq=False)
class Workload:
    """A program as it is before a schedule. ``shash``: equal for programs that are structurally equal, whatever their names."""

    mod: IRModule
    constants: tuple[int, ...] = ()
    shash: str = field(init=False)

    def __post_init__(self) -> None:
        mod = one_program(self.mod)
        object.__setattr__(self, "mod", mod)
        object.__setattr__(self, "shash", workload_hash(mod.prim_funcs()[MAIN], self.constants))

    @property
    def func(self) -> PrimFunc:
        """The program."""
        return self.mod.prim_funcs()[MAIN]

    def as_json(self) -> list[Any]:
        """Checksum, script, and positions of constants."""
        return [self.shash, self.mod.script(), list(self.constants)]

    @staticmethod
    def from_json(data: Any) -> Workload:
        """A workload from what ``as_json`` gave. Raises ScheduleError E461 for anything else."""
        match data:
            case [str(), str(text), [*constants]] if all([type(n) is int for n in constants]):
                return Workload(read_program(text), tuple(constants))
        raise ScheduleError("E461", "this is not a workload of a database of records")


def workload_hash(fn: PrimFunc, constants: Collection[int] = ()) -> str:
    """The checksum of a program, without its name, and of which of its parameters are constants at every call."""
    plain = replace(fn, attrs={key: value for key, value in fn.attrs.items() if key not in ASIDE})
    places = ",".join([str(n) for n in sorted(constants)])
    return f"{structural_digest(plain)}:{places}" if places else structural_digest(plain)


def machine_features(target: Target, machine: Machine | None = None, threads: int | None = None) -> str:
    """The facts about a machine that a measured time holds for, as text: a record is found where they are the same."""
    found = machine or backend_of(target).machine(target)
    facts: dict[str, Any] = {"kind": str(target.kind), "threads": threads or num_threads()}
    facts |= {"vector_bytes": found.vector_bytes, "registers": found.registers, "intrinsics": list(found.intrinsics)}
    if not backend_of(target).runtime.device.host_memory:
        facts["gpu"] = repr(found.gpu)
    return json.dumps(facts, separators=(",", ":"))


def read_program(text: str) -> IRModule:
    """The module of a script in a database, verified. Raises ScheduleError E461 for what is not a module."""
    try:
        found = parse(text)
        if isinstance(found, PrimFunc):
            found = IRModule({MAIN: found}, {}, {})
        if not isinstance(found, IRModule):
            raise ScheduleError("E461", f"the script of a record is a {type(found).__name__}")
        verify(found)
    except ScheduleError:
        raise
    except UnityError as error:
        raise ScheduleError("E461", f"the script of a record is not a program: {error.message}") from error
    return found


def check_equality(module_equality: str) -> None:
    """Raise ScheduleError E401 unless records are for whole programs: "structural", or "ignore-tensor", which is the same, as
    programs hold no tensors. TVM's "anchor-block" takes records of other programs."""
    if module_equality not in ("structural", "ignore-tensor"):
        raise ScheduleError("E401", f"no equality of modules {module_equality!r}", help="structural or ignore-tensor")


__all__ = ["Workload", "check_equality", "machine_features", "read_program", "workload_hash"]
