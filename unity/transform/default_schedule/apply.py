"""schedule_default: the rules of the target on every tensor program of a module, and the constants their programs take packed.

Rewrite: ``R.call_dps(matmul, (x, w), ...)`` with a constant ``w`` -> the same call of the scheduled program with ``w`` packed.
``UNITY_EXPLAIN=1`` prints which rule took a program, or why none did.

After the rules, ``schedule_nests``: passes of the target choose the loops of the programs that are left, nest by nest. At the end,
``compact_constants``: constants that are views in another order of their memory (folded transposes) become
compact, which kernels require; until then they cost nothing, so that a rule which lays weights out anew copies them once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, replace as replace_found
from functools import partial
from typing import Any, Protocol

import numpy as np

from ...arith.cost import WORK, keep_cost
from ...ffi.native.compact import compact
from ...ffi.targets.target import Target, target as make_target
from ...ir.expr import Call, Constant, GlobalVar, Tuple
from ...ir.function import BY_NESTS, SCHEDULED, Function, PrimFunc, is_scheduled
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.relation import tensor_type
from ...ir.types import TensorType
from ...ir.walk import collect, rewrite
from ...op.common.table import R
from ...support.context_stack import ContextStack
from ...support.options import bool_option
from ..infra.backend import Machine, backend_of, by_target, register_target, target_of
from ..infra.constant_lifetime import drop_use
from ..infra.constant_provenance import derive, peek, recipe
from ..infra.passes import PassContext, function_pass, module_pass
from .base import Rule, Scheduled
from .common.choices import is_decided, without_decisions
from .inlined import inlined
from .packing import Packing
from .read_packed import PackedRead, read_packed
from .schedule_cache import cached_schedule

_CALL = R.call_dps.op


class ScheduleDatabase(Protocol):
    """Schedules that were measured (``meta_schedule/database``)."""

    def lookup(
        self, name: str, fn: PrimFunc, constants: Collection[int], target: Target, machine: Machine
    ) -> Scheduled | None:
        """The program as a record schedules it; None where the default is as good as any."""

    def state(self) -> str:
        """A checksum of all that ``lookup`` may give; "" where there is none."""


SCHEDULES: ContextStack[ScheduleDatabase] = ContextStack("schedule databases")
"""The database in force: its records come before the rules."""


def register_rule(rule: Rule, kind: str = "llvm") -> None:
    """Try a rule before the others of a kind of targets, in every build from now on. Raises CodegenError E530."""
    backend = backend_of(make_target(kind))
    register_target(replace_found(backend, rules=(rule, *backend.rules)))


@module_pass()
def schedule_default(mod: IRModule) -> IRModule:
    """Schedule tensor programs by the rules of their target, and pack the constants they read."""
    database = SCHEDULES.top
    watched = PassContext.current().is_special or bool_option("UNITY_EXPLAIN")

    def find(name: str, fn: PrimFunc, constants: set[int], target: Target, machine: Machine) -> Scheduled | None:
        found = None if database is None else database.lookup(name, fn, constants, target, machine)
        if found is not None:
            return replace_found(found, func=keep_cost(found.func, fn))
        rules = backend_of(target).rules
        if not rules:
            return None
        apply = partial(schedule_function, name, fn, constants, machine, rules)
        return apply() if watched else cached_schedule(fn, constants, machine, rules, apply)

    return schedule_programs(mod, find)


def schedule_programs(
    mod: IRModule, find: Callable[[str, PrimFunc, set[int], Target, Machine], Scheduled | None]
) -> IRModule:
    """The tensor programs of a module as ``find`` schedules them, and their constants as they then take them.

    It is asked with the name and the program, the positions of its constants, its target and machine.
    """
    calls, chosen = calls_of(mod), make_target()
    made: dict[str, Scheduled] = {}
    for name, fn in mod.prim_funcs().items():
        if is_scheduled(fn):
            continue
        target = target_of(fn, chosen)
        machine = backend_of(target).machine(target)
        found = find(name, fn, constant_parameters(calls.get(name, [])), target, machine)
        if found is not None:
            made[name] = found
    if not made:
        return mod
    changed: dict[str, Any] = {name: found.func for name, found in made.items()}
    layouts = {name: found.packed for name, found in made.items() if found.packed}
    if layouts:
        readers = read_packed({n: changed.get(n, fn) for n, fn in mod.prim_funcs().items()}, calls, layouts)
        changed |= {name: reader.func for name, reader in readers.items()}
        packer = _Packer(layouts, readers)
        for name, member in mod.functions.items():
            if type(member) is Function:
                changed[name] = rewrite(member, {Call: packer.call})
    return mod.with_functions(changed)


def schedule_function(
    name: str, fn: PrimFunc, constants: set[int], machine: Machine, rules: tuple[Rule, ...], quiet: bool = False
) -> Scheduled | None:
    """The result of the first rule that takes a program; None where none does, and nothing was decided to be inlined. ``quiet``: a
    search asks, which ``UNITY_EXPLAIN=1`` says nothing of."""
    said: list[str] = []
    taken = None
    whole = inlined(fn, machine)
    for rule in rules:
        found = rule.apply(whole, constants, machine)
        if isinstance(found, Scheduled):
            said.append(f"{rule.name}: {found.reason}")
            left = not is_scheduled(found.func)  # the nests that the rule left to passes have decisions of their own
            done = found.func if left or not is_decided(fn) else without_decisions(found.func)
            taken = replace_found(found, func=keep_cost(done, fn))
            break
        said.append(f"not {rule.name}: {found}")
    if taken is None and whole is not fn:
        taken = Scheduled(keep_cost(whole, fn), "loops by passes")
    if bool_option("UNITY_EXPLAIN") and not quiet:
        print(f"{name}: {'; '.join(said)}", file=sys.stderr)
    return taken


def calls_of(mod: IRModule) -> dict[str, list[tuple[Any, ...]]]:
    """Arguments of every call of a tensor program from the graph; a program used otherwise has a call without arguments."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for member in mod.functions.values():
        if type(member) is not Function:
            continue
        direct = 0
        for call in collect(member, Call):
            if call.op is _CALL and type(call.args[0]) is GlobalVar and type(call.args[1]) is Tuple:
                found.setdefault(call.args[0].name, []).append(call.args[1].fields)
                direct += 1
        for other in collect(member, Call):
            if other.op is not _CALL:
                for part in (other.op, *other.args):
                    if type(part) is GlobalVar:
                        found.setdefault(part.name, []).append(())
    return found


def constant_parameters(calls: list[tuple[Any, ...]]) -> set[int]:
    """Positions that are constants at every call."""
    if not calls:
        return set()
    return {k for k in range(len(calls[0])) if all([k < len(args) and type(args[k]) is Constant for args in calls])}


@recipe("pack")
def _pack(array: np.ndarray, *fields: Any) -> np.ndarray:
    """A constant in another layout."""
    return Packing(*fields).pack(array)


class _Packer:
    """Packs the constants of calls; one constant packed in one way is packed once."""

    def __init__(self, layouts: Mapping[str, Mapping[int, Packing]], readers: Mapping[str, PackedRead]) -> None:
        self.layouts = layouts
        self.readers = readers
        self.made: dict[tuple[Any, ...], Constant] = {}

    def call(self, call: Call) -> Call:
        """A call with its constants as the program takes them."""
        target = call.args[0] if call.op is _CALL else None
        name = target.name if type(target) is GlobalVar else ""
        if name not in self.layouts and name not in self.readers:
            return call
        fields = list(call.args[1].fields)  # type: ignore[attr-defined]
        made = {index: self.constant(fields[index], layout) for index, layout in self.layouts.get(name, {}).items()}
        reader = self.readers.get(name)
        made |= {index: self.constant(*form) for index, form in reader.forms.items()} if reader is not None else {}
        for index, constant in made.items():
            drop_use(fields[index].data)
            fields[index] = constant
        return replace(call, args=(target, Tuple(tuple(fields)), *call.args[2:]))

    def constant(self, node: Constant, layout: Packing) -> Constant:
        """A constant in another layout."""
        array = peek(node.data)
        key = (node.data.data_ptr, array.shape, array.strides, array.dtype.str, layout)
        found = self.made.get(key)
        if found is None:
            packed = derive("pack", node.data, *astuple(layout))
            assert isinstance(node.ty, TensorType)
            found = self.made[key] = Constant(packed, tensor_type(packed.shape, node.ty.dtype))
        return found


@module_pass()
def schedule_nests(mod: IRModule) -> IRModule:
    """Choose the loops of the tensor programs that no rule and nobody else scheduled, nest by nest.

    Marks them as scheduled.
    """
    made: dict[str, PrimFunc] = {}
    for target, functions in by_target(mod, make_target()).items():
        left = [name for name, fn in functions.items() if not is_scheduled(fn)]
        nests = backend_of(target).nests if left else None
        if nests is not None and nests.passes:
            with target:
                done = nests(IRModule(functions, {}, {})).prim_funcs()
            made |= {name: _marked(done[name], functions[name]) for name in left}
    return mod.with_functions(made)


def _marked(fn: PrimFunc, source: PrimFunc) -> PrimFunc:
    """A program whose nests are scheduled, with the work of its source."""
    known = fn is source or WORK in fn.attrs
    return (fn if known else keep_cost(fn, source)).with_attr(SCHEDULED, BY_NESTS)


recipe("compact")(compact)


@function_pass()
def compact_constants(fn: Function) -> Function:
    """Copy constants that are not in row-major order; one that several calls share is copied once.

    Gives compact constants, which kernels require.
    """
    made: dict[int, Constant] = {}

    def rule(node: Constant) -> Constant:
        if peek(node.data).flags.c_contiguous:
            return node
        found = made.get(id(node.data))
        if found is None:
            found = made[id(node.data)] = Constant(derive("compact", node.data), node.ty, node.span)
        drop_use(node.data)
        return found

    result: Function = rewrite(fn, {Constant: rule})
    return result
