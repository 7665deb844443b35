"""The rules for devices with threads, in the order in which they are tried.

Each rule takes the nests of a program that it applies to, and leaves the others to the rules after it. The last rule takes
everything: statements that are not the nest of a block, and nests that refused a step. Each independent part becomes a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from ....ffi.targets.kinds import DEFAULT
from ....ir.analysis.threads import thread_axes
from ....ir.expr import Call
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import IfThenElse, SeqStmt
from ....ir.walk import collect, fresh_copy
from ....support.errors import ScheduleError
from ...infra.backend import GpuMachine, Machine
from ...schedule import Schedule
from ..base import Rule, Scheduled, mark_scheduled, program_of, schedule_of
from ..nests.eager_choices import eager_choices
from ..split_reductions import schedule_split
from .cells import bind_axes, bind_cells, bind_fused_cells
from .common.stages import stages_of
from .products.few_rows import LIMITS, bind_few_rows, few_conditions, few_products
from .products.pipelined_tiles import bind_pipelined_tiles
from .products.product import products_of
from .products.tensor_cores import bind_tensor_cores, matrix_products
from .products.tile_sides import all_of
from .products.tiles import bind_tiles
from .remaining_loops import bind_remaining, is_bound
from .row_stages import row_stages
from .rows import bind_rows
from .transpose import bind_transpose, transposes_of
from .whole_vectors import schedule_whole_vectors
from .windows import bind_windows, windows_of


class _Part(Protocol):
    """A stage, or several that one kernel computes."""

    @property
    def name(self) -> str: ...


class _PartRule(NamedTuple):
    """The parts of a program that a rule takes: ``find`` lists them, ``bind`` binds one and says how."""

    name: str
    find: Callable[[Schedule], Sequence[_Part]]
    bind: Callable[[Schedule, Any, GpuMachine], tuple[Schedule, str] | None]


_PART_RULES = (
    _PartRule("few rows", few_products, bind_few_rows),
    _PartRule("tensor cores", matrix_products, bind_tensor_cores),
    _PartRule("pipelined tiles", products_of, bind_pipelined_tiles),
    _PartRule("tiles", products_of, bind_tiles),
    _PartRule("rows", row_stages, bind_rows),
    _PartRule("transpose", transposes_of, bind_transpose),
    _PartRule("windows", windows_of, bind_windows),
    _PartRule("cells", stages_of, bind_cells),
    _PartRule("fused cells", stages_of, bind_fused_cells),
    _PartRule("axes", stages_of, bind_axes),
)
_EAGER = eager_choices.with_options(reads_more=True)
_HOST_CALLS = ("T.call_packed", "T.tvm_call_packed")


def _rule(number: int) -> Rule:
    rule = _PART_RULES[number]

    def apply(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
        made, notes = _bind_parts(fn, rule, machine)
        if not notes:
            return "no nest that it is for, or a step does not apply"
        return _bind_rest(made, machine, notes, number + 1)

    return Rule(rule.name, apply)


def _bind_parts(fn: PrimFunc, rule: _PartRule, machine: Machine) -> tuple[PrimFunc, list[str]]:
    """The program with the parts of one rule bound, as far as its steps apply, and how they were bound."""
    notes: list[str] = []
    refused: set[str] = set()
    fn = _EAGER.on(fn) if rule.find is stages_of else fn
    sch = _schedule(fn)
    parts = [*rule.find(sch)]
    while parts:
        part = parts.pop(0)
        try:
            bound = rule.bind(sch, part, machine.gpu)
        except ScheduleError:
            bound = None
        if bound is not None:
            sch, how = bound
            notes.append(how)
            fn = program_of(sch)
        else:
            refused.add(part.name)
            if program_of(sch) is fn:  # no step was taken
                continue
            sch = _schedule(fn)
        parts = [p for p in rule.find(sch) if p.name not in refused]
    return fn, notes


def _schedule(fn: PrimFunc) -> Schedule:
    """A schedule that refuses steps that are not proved: testing one takes longer than trying another step."""
    sch = schedule_of(fn)
    sch.tests = False
    return sch


def _bind_rest(fn: PrimFunc, machine: Machine, notes: list[str], number: int = len(_PART_RULES)) -> Scheduled:
    """The program with the rest bound by the rules from a given position on, or by the last rule as it stands."""
    for rule in _PART_RULES[number:]:
        if _is_done(fn):
            break
        fn, more = _bind_parts(fn, rule, machine)
        notes = [*notes, *more]
    if not _is_done(fn):
        fn = bind_remaining(fn, machine.gpu)
        notes = [*notes, "the rest as it stands"]
    return Scheduled(mark_scheduled(fn), "; ".join(notes))


def _is_done(fn: PrimFunc) -> bool:
    """True if each part of a program is bound."""
    return all([is_bound(part) for part in (fn.body.stmts if type(fn.body) is SeqStmt else (fn.body,))])


def _plain(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    return _bind_rest(fn, machine, [])


def _on_host(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """A program that calls functions of the host runs there, on copies of its buffers."""
    if not any([call.op_name in _HOST_CALLS for call in collect(fn.body, Call)]):
        return "it calls no function of the host"
    if thread_axes(fn.body):
        return Scheduled(mark_scheduled(fn), "its kernels are bound, the calls between them run on the host")
    return Scheduled(fn.with_attrs({"target": DEFAULT}), "it runs on the host, on copies of its buffers")


def _bound(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """A program that is already bound to threads."""
    if thread_axes(fn.body) and _is_done(fn):
        return Scheduled(mark_scheduled(fn), "its threads are bound as it was written")
    return "threads are to be bound"


def _split(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Split a long reduction to few elements into two, which the other rules bind."""
    found = schedule_split(fn, constants, machine)
    return found if isinstance(found, str) else _bind_rest(found.func, machine, [found.reason], 0)


def _few_rows(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Bind products of few rows. Where their number is not known there are versions for few, beside that of the rules after it."""
    known = _rule(0).apply(fn, constants, machine)
    if isinstance(known, Scheduled):
        return known
    conditions = few_conditions(fn)
    if not any(conditions.values()):
        return "no product has few rows or columns, and many of the other"
    made = _bind_rest(fn, machine, [], 1)
    for limit in reversed(LIMITS):
        rule = _PartRule("few rows", partial(few_products, limit=limit), partial(bind_few_rows, limit=limit))
        bound, notes = _bind_parts(fn, rule, machine)
        condition = all_of(conditions[limit])
        if notes and condition is not None:
            few = _bind_rest(bound, machine, notes, 1)
            body = IfThenElse(condition, fresh_copy(few.func.body), made.func.body)
            made = Scheduled(replace(made.func, body=body), f"up to {limit} rows: {few.reason}; else: {made.reason}")
    return made


_BINDING = (
    Rule("split", _split),
    Rule("few rows", _few_rows),
    *[_rule(number) for number in range(1, len(_PART_RULES))],
    Rule("plain loops", _plain),
)


def _whole_vectors(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Bind a program in two versions, one of which has rows of whole vectors."""
    return schedule_whole_vectors(fn, constants, machine, _BINDING)


GPU_RULES = (
    Rule("host calls", _on_host), Rule("bound", _bound), Rule("whole vectors", _whole_vectors), *_BINDING
)  # fmt: skip
"""Together they bind the loops of every program, except for programs that run on the host."""
