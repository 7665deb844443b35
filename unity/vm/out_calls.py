"""``f(x, out=y)``: results written into tensors the caller gives.

A result that the function allocates itself is computed in the given memory: ``with_outputs`` derives, from the bytecode, a function
that takes it as one more parameter. Any other result (an input handed on, a constant, a view, a size known only later) is computed
as ever and copied; so are all where an output shares memory with an input. Invariant: what a call without ``out=`` runs is not
touched, and nothing is written before every check has passed, but for sizes that only the computation gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ffi.abi import symbols_of
from ..ffi.conditions import Fault, compact_fault, kind_fault, read_only_fault
from ..ffi.tensor import Tensor
from ..ffi.torch_bridge import is_torch_tensor
from ..support.errors import VMError
from .builtins.values import to_value
from .executable import bytecode as bc

_NOTHING = bc.Program()
_NEW = bc.Entry("builtin", "new_tensor")
_ALLOCATIONS = (_NEW, bc.Entry("builtin", "new_tensor_of"))
_VIEWS = (bc.Entry("builtin", "view"), bc.Entry("builtin", "view_of"))
_CHECKS = ("check_tensor", "match_shape", "check_writable")


@dataclass(slots=True, frozen=True)
class OutPlan:
    """The derived function's program; ``single``: the result is not a tuple; ``direct[k]``: the parameter number (behind the
    function's own) that result k is, None where it is copied."""

    program: bc.Program
    name: str
    single: bool
    direct: tuple[int | None, ...]


def results_of(fn: bc.VMFunction, program: bc.Program) -> tuple[bool, list[bc.Arg]] | None:
    """(is the result one value, the values it holds); None where the bytecode does not say."""
    returns = [i for i in fn.code if isinstance(i, bc.Ret)]
    if len(returns) != 1:
        return None
    value = returns[0].value
    definitions = [i for i in fn.code if isinstance(i, bc.Call) and isinstance(value, bc.Reg) and i.dst == value.index]
    if len(definitions) == 1 and program.table[definitions[0].function] == bc.Entry("builtin", "tuple"):
        return False, list(definitions[0].args)
    kind = fn.registers[value.index].kind if isinstance(value, bc.Reg) else ""
    return (True, [value]) if kind == "tensor" or isinstance(value, bc.Const) else None


def _allocation(fn: bc.VMFunction, program: bc.Program, value: bc.Arg) -> int | None:
    """Number of the instruction that allocates a result, where its sizes are known when the function starts."""
    if not isinstance(value, bc.Reg) or value.index < len(fn.params):
        return None
    definitions = [(k, i) for k, i in enumerate(fn.code) if isinstance(i, bc.Call) and i.dst == value.index]
    if len(definitions) != 1 or program.table[definitions[0][1].function] != _NEW:
        return None
    early = {a.slot for i in fn.code[: fn.prologue] if isinstance(i, bc.Call) for a in i.args if isinstance(a, bc.Bind)}
    return definitions[0][0] if all([symbols_of(d) <= early for d in fn.registers[value.index].dims]) else None


def allocates_results(program: bc.Program, name: str) -> bool:
    """True if every result of a function is memory that it allocates and no other result has."""
    return all(allocated_results(program, name))


def allocated_results(program: bc.Program, name: str) -> list[bool]:
    """For each result of a function, true if it is memory that the function allocates, or a view of it: no parameter, constant,
    value of a call, or memory of an earlier result. False where the bytecode does not say."""
    fn = program.functions[name]
    found = results_of(fn, program)
    definitions: dict[int, list[bc.Call]] = {}
    for instruction in fn.code:
        if isinstance(instruction, bc.Call):
            definitions.setdefault(instruction.dst, []).append(instruction)

    def allocated(value: bc.Arg) -> int | None:
        """The register of the memory that a value lies in, where the function allocates it."""
        while isinstance(value, bc.Reg):
            calls = definitions.get(value.index, [])
            entry = program.table[calls[0].function] if len(calls) == 1 else None
            if entry in _VIEWS:
                value = calls[0].args[0]
                continue
            return value.index if entry in _ALLOCATIONS else None
        return None

    origins = [allocated(v) for v in found[1]] if found is not None else [None]
    return [origin is not None and origin not in origins[:k] for k, origin in enumerate(origins)]


def with_outputs(program: bc.Program, name: str) -> OutPlan | None:
    """The plan of a function; None where its result is neither a tensor nor a tuple whose fields the bytecode shows."""
    fn = program.functions[name]
    found = results_of(fn, program)
    if found is None:
        return None
    single, values = found
    branches = any([isinstance(i, (bc.Goto, bc.If)) for i in fn.code])
    allocations = [None if branches or values.count(v) > 1 else _allocation(fn, program, v) for v in values]
    count = len(fn.params)
    taken = [v for v, at in zip(values, allocations) if at is not None and isinstance(v, bc.Reg)]
    numbers = {v.index: count + k for k, v in enumerate(taken)}
    direct = tuple([numbers[v.index] - count if isinstance(v, bc.Reg) and at is not None else None
                    for v, at in zip(values, allocations)])  # fmt: skip
    if not taken:
        return OutPlan(program, name, single, direct)

    def moved(index: int) -> int:
        return numbers.get(index, index if index < count else index + len(taken))

    table, contexts = list(program.table), list(program.contexts)
    rows = []
    for check in _CHECKS:
        entry = bc.Entry("builtin", check)
        if entry not in table:
            table.append(entry)
        rows.append(table.index(entry))
    registers = [*fn.registers[:count], *[fn.registers[v.index] for v in taken], *fn.registers[count:]]
    params = list(fn.params)
    prologue: list[bc.Instruction] = [_renamed(i, moved) for i in fn.code[: fn.prologue]]
    for k, v in enumerate(values):
        if not isinstance(v, bc.Reg) or direct[k] is None:
            continue
        known, label = fn.registers[v.index], "out" if single else f"out[{k}]"
        names = tuple([slot.name for slot in fn.slots])
        annotation = f'R.Tensor(({", ".join([bc.dim_text(d, names) for d in known.dims])}), "{known.dtype}")'
        params.append((label, annotation))
        contexts.append(bc.Context(name, label, annotation))
        reg, ctx = bc.Reg(numbers[v.index]), bc.Imm(len(contexts) - 1)
        prologue.append(bc.Call(-1, rows[0], (reg, ctx, bc.Imm(known.dtype), bc.Imm(len(known.dims)))))
        prologue.append(bc.Call(-1, rows[1], (reg, ctx, *[bc.Size(d) for d in known.dims])))
        prologue.append(bc.Call(-1, rows[2], (reg, ctx)))
    body = [_renamed(i, moved) for k, i in enumerate(fn.code) if k >= fn.prologue and k not in allocations]
    direct_fn = replace(
        fn, params=tuple(params), registers=tuple(registers), code=(*prologue, *body), prologue=len(prologue)
    )
    derived = replace(program, functions={**program.functions, name: direct_fn}, table=table, contexts=contexts)
    return OutPlan(derived, name, single, direct)


def _renamed(instruction: bc.Instruction, moved: Callable[[int], int]) -> bc.Instruction:
    def arg(value: bc.Arg) -> bc.Arg:
        return bc.Reg(moved(value.index)) if isinstance(value, bc.Reg) else value

    if isinstance(instruction, bc.Call):
        dst = instruction.dst if instruction.dst < 0 else moved(instruction.dst)
        return bc.Call(dst, instruction.function, tuple([arg(a) for a in instruction.args]), instruction.place)
    if isinstance(instruction, bc.Ret):
        return bc.Ret(arg(instruction.value), instruction.place)
    return instruction


class OutCall:
    """Calls of one function with ``out=``. ``function`` is the function itself, ``direct`` the derived one, ``order`` puts
    arguments in the order of the parameters."""

    def __init__(self, plan: OutPlan | None, name: str, function: Callable[..., Any], direct: Callable[..., Any],
                 order: Callable[..., list[object]]) -> None:  # fmt: skip
        self.plan, self.name, self.function, self.direct, self.order = plan, name, function, direct, order

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """Run, and give ``out`` back. Raises VMError E982, E983, and E602 to E613 where an output does not fit."""
        plan, results = self.plan, None
        if plan is not None and not kwargs and None not in plan.direct:
            outs = (out,) if plan.single else out
            if type(outs) is tuple and len(outs) == len(plan.direct) and _disjoint(args, outs):
                self.direct(*args, *outs)
                return out
        given = self.order(args, kwargs)
        if plan is None:
            results = self.function(*given)
            plan = OutPlan(_NOTHING, self.name, not isinstance(results, tuple),
                           (None,) * (len(results) if isinstance(results, tuple) else 1))  # fmt: skip
            if not any([isinstance(v, Tensor) for v in (results if isinstance(results, tuple) else (results,))]):
                raise VMError("E983", f"{self.name}: out= needs a result that is a tensor or a tuple of tensors")
        outs = [out] if plan.single else list(out) if isinstance(out, (tuple, list)) else None
        if outs is None or len(outs) != len(plan.direct):
            want = f"a tuple of {len(plan.direct)} tensors" if not plan.single else "one tensor"
            got = type(out).__name__ if outs is None else f"{len(outs)}"
            raise VMError("E982", f"{self.name}: out= takes {want}, got {got}",
                          help="one output for each result, None for a result that is to be made anew")  # fmt: skip
        labels = ["out" if plan.single else f"out[{k}]" for k in range(len(outs))]
        targets = [None if o is None else self._target(o, label) for o, label in zip(outs, labels)]
        inputs = [v.layout for v in [_tensor(a) for a in given] if v is not None]
        real = [t.layout for t in targets if t is not None]
        if any([np.may_share_memory(a, b) for k, a in enumerate(real) for b in real[:k]]):
            raise VMError("E982", f"{self.name}: two tensors of out= share memory")
        overlaps = any([np.may_share_memory(a, b) for a in real for b in inputs])
        missing = any([o is None for o, d in zip(outs, plan.direct) if d is not None])
        memory = [o for o, d in zip(outs, plan.direct) if d is not None]
        copied = list(range(len(outs)))
        if results is None and memory and not overlaps and not missing:
            results = self.direct(*given, *memory)
            copied = [k for k, d in enumerate(plan.direct) if d is None]
        elif results is None:
            results = self.function(*given)
        values = [results] if plan.single else list(results)
        pairs = [
            (self._fitting(values[k], target, labels[k]), target) for k in copied if (target := targets[k]) is not None
        ]
        for value, target in [(value.copyto(value.device) if overlaps else value, target) for value, target in pairs]:
            target.copyfrom(value)
        results = [v if o is None else o for v, o in zip(values, outs)]
        return results[0] if plan.single else tuple(results)

    def _target(self, value: Any, label: str) -> Tensor:
        """The memory of an output. Raises VMError E982, E609, E610 where it is not a writable compact tensor."""
        found = _tensor(value)
        if found is None:
            raise VMError("E982", f"{self.name}: {label} is not a tensor but {type(value).__name__}",
                          help="give a numpy array, a unity.Tensor or a torch tensor")  # fmt: skip
        self._refuse(label, compact_fault(found.layout) or read_only_fault(found.layout))
        return found

    def _fitting(self, value: Any, target: Tensor, label: str) -> Tensor:
        """A result that is copied into an output. Raises VMError E604 to E606, E983 where it cannot be."""
        if not isinstance(value, Tensor):
            raise VMError("E983", f"{self.name}: the result for {label} is not a tensor but {type(value).__name__}",
                          help=f"give None for {label}")  # fmt: skip
        self._refuse(label, kind_fault(target.layout, target.dtype, value.dtype, len(value.shape)))
        if value.shape != target.shape:
            self._refuse(label, ("E606", f"expected shape {value.shape}, got {target.shape}"))
        return value

    def _refuse(self, label: str, fault: Fault | None) -> None:
        if fault is not None:
            raise VMError(fault[0], f"{self.name}: {label}: {fault[1]}")


def _disjoint(args: tuple[Any, ...], outs: tuple[Any, ...]) -> bool:
    """True if the outputs share no memory with each other and the arguments (all of them compact, or the call is going to refuse
    them); False where only a closer look can say."""
    taken: list[tuple[int, int]] = []
    for position, value in enumerate((*args, *outs)):
        if type(value) is np.ndarray:
            start, size = value.__array_interface__["data"][0], value.nbytes
        elif type(value) is Tensor:
            start, size = value.data_ptr, value.layout.nbytes
        elif is_torch_tensor(value):
            start, size = value.data_ptr(), value.nbytes
        elif position < len(args) and isinstance(value, (int, float)):
            continue
        else:
            return False
        if position >= len(args) and any([start < end and low < start + size for low, end in taken]):
            return False
        taken.append((start, start + size))
    return True


def _tensor(value: Any) -> Tensor | None:
    found = to_value(value) if not isinstance(value, (int, float, str, tuple, list)) else None
    return found if isinstance(found, Tensor) else None
