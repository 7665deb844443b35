"""The checked entry of a bytecode function, read off its own prologue: which parameters native checks cover, and how.

A parameter is covered when its checks say everything about it (a tensor of known dtype and rank, a scalar, a shape) and
its formulas need no symbol that only an uncovered parameter defines. The others arrive as objects, and their checks run
in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ffi.abi import Dim, map_symbols
from ...ffi.calls.entry_spec import Arg, EntrySpec, ObjectArg, ScalarArg, ShapeArg, TensorArg, symbols_in
from ...ffi.device import CPU, Device
from .bytecode import Bind, Call, Imm, Program, Reg, Size, VMFunction


@dataclass(slots=True)
class Param:
    """The prologue's facts about one parameter."""

    name: str
    kind: str = "object"
    dtype: str | None = None
    axes: list[Dim | None] = field(default_factory=list)
    binds: set[int] = field(default_factory=set)
    slot: int | None = None
    written: bool = False
    where: str = ""
    on_host: bool = False


@dataclass(slots=True)
class EntryPlan:
    """``spec`` for the checked entry; ``slots[j]`` is the slot of its symbol j; ``params`` with ``kind`` "object" are uncovered."""

    spec: EntrySpec
    slots: tuple[int, ...]
    params: list[Param]


def plan_entry(fn: VMFunction, program: Program, device: Device = CPU) -> EntryPlan:
    """The plan of a function's entry; its tensors lie on a device."""
    params = _read(fn, program)
    while True:
        defined = _defined(params)
        lost = [p for p in params if p.kind != "object" and not _uses(p) <= defined]
        if not lost:
            break
        for param in lost:
            param.kind = "object"
    slots = tuple(sorted(_defined(params)))
    number = {slot: index for index, slot in enumerate(slots)}
    args = tuple([_arg(p, number, device) for p in params])
    names = tuple([fn.slots[s].name for s in slots])
    return EntryPlan(EntrySpec(fn.name, args, names), slots, params)


def _read(fn: VMFunction, program: Program) -> list[Param]:
    params = [Param(name) for name, _ in fn.params]
    for instruction in fn.code[: fn.prologue]:
        assert isinstance(instruction, Call)
        first = instruction.args[0]
        if not isinstance(first, Reg) or first.index >= len(params):
            continue
        param, name, args = params[first.index], program.table[instruction.function].name, instruction.args
        if name.startswith("check_") and isinstance(args[1], Imm) and isinstance(args[1].value, int):
            place = program.place(program.contexts[args[1].value].place)
            param.where = place.partition(": ")[0]
        if name == "check_tensor" and isinstance(args[2], Imm) and isinstance(args[2].value, str):
            param.dtype = args[2].value
            if fn.registers[first.index].kind == "tensor":
                param.kind = "tensor"
        elif name == "check_shape" and isinstance(args[2], Imm) and args[2].value != -1:
            param.kind = "shape"
        elif name == "check_scalar" and isinstance(args[2], Imm):
            param.kind, param.dtype = "scalar", str(args[2].value)
        elif name == "check_writable":
            param.written = True
        elif name == "bind_scalar" and isinstance(args[1], Bind):
            param.slot = args[1].slot
        elif name == "match_shape":
            axes: list[Dim | None] = []
            for axis, arg in enumerate(args[2:]):
                old = param.axes[axis] if axis < len(param.axes) else None
                axes.append(
                    ("sym", arg.slot)
                    if isinstance(arg, Bind)
                    else arg.dim
                    if isinstance(arg, Size) and old is None
                    else old
                )
            param.axes = axes
            param.binds |= {arg.slot for arg in args[2:] if isinstance(arg, Bind)}
    for number in fn.host_params:
        params[number].on_host = True
    for param in params:
        if param.kind == "shape" and not param.axes:
            param.kind = "object"
    return params


def _integer_slot(param: Param) -> int | None:
    return param.slot if param.kind == "scalar" and param.dtype != "bool" else None


def _defined(params: list[Param]) -> set[int]:
    found: set[int] = set()
    for param in params:
        slot = _integer_slot(param)
        if slot is not None:
            found.add(slot)
        elif param.kind in ("tensor", "shape"):
            found |= param.binds
    return found


def _uses(param: Param) -> set[int]:
    found: set[int] = set()
    for axis in param.axes if param.kind in ("tensor", "shape") else ():
        found |= set(symbols_in(axis))
    return found


def _arg(param: Param, number: dict[int, int], device: Device) -> Arg:
    formulas: dict[int, Dim] = {slot: ("sym", index) for slot, index in number.items()}
    axes = (
        tuple([None if a is None else map_symbols(a, formulas) for a in param.axes])
        if param.kind in ("tensor", "shape")
        else ()
    )
    if param.kind == "tensor":
        return TensorArg(param.name, param.dtype, axes, None, param.written, 0, param.where, device, param.on_host)
    if param.kind == "shape":
        return ShapeArg(param.name, axes, param.where)
    if param.kind == "scalar":
        assert param.dtype is not None
        slot = _integer_slot(param)
        return ScalarArg(param.name, param.dtype, None if slot is None else number[slot], param.where)
    return ObjectArg(param.name, param.where)
