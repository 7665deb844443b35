"""merge_families: programs that differ in one number become one program that takes the number.

A loop of torch over the rows of a tensor comes written out: its slices, sums and products have another extent in each iteration,
and each would be a program to schedule, lower and compile. Every number that differs must be a whole multiple of one of them plus
a constant: programs of layers whose sizes differ in several ways stay as they are, and so do those that a rule schedules.

Rewrite: ``R.call_dps(sum, (x,), R.Tensor((2,)))``, ``R.call_dps(sum1, (y,), R.Tensor((3,)))`` and more of them ->
``R.call_dps(sum, (x,), R.Tensor((2,)), tir_vars=R.shape([2]))``, ``R.call_dps(sum, (y,), ..., tir_vars=R.shape([3]))``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from ....ffi.targets.target import target as make_target
from ....ir.analysis.use import used_otherwise
from ....ir.build import add, int_imm, mul
from ....ir.expr import Call, GlobalVar, IntImm, ShapeExpr, Tuple, Var
from ....ir.function import PrimFunc, has_global_symbol, is_scheduled
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.stmt import AttrStmt, Block, BufferStore, For
from ....ir.structural import structural_equal, structural_hash
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, collect, rewrite, substitute
from ....op.common.table import R
from ...default_schedule.apply import schedule_function
from ...infra.backend import backend_of
from ...infra.passes import module_pass

FAMILY = 8
"""Programs from which one is made of them."""
_CALL = R.call_dps.op
_INDEX = prim_type("int64")


@module_pass()
def merge_families(mod: IRModule) -> IRModule:
    """Merge programs that differ in one number into one program that takes the number."""
    near: dict[Hashable, list[str]] = {}
    programs = mod.prim_funcs()
    for name, fn in programs.items():
        if _is_plain(fn):
            near.setdefault(_outline(fn), []).append(name)
    groups = [names for names in near.values() if len(names) >= FAMILY]
    if not groups:
        return mod
    other = used_otherwise(mod, _callee)
    made: dict[str, tuple[str, int]] = {}
    changed: dict[str, Any] = {}
    for names in groups:
        for alike in _families([(name, _general(programs[name])) for name in names if name not in other]):
            family = _without_outliers(alike)
            merged = _merged(programs, family) if len(family) >= FAMILY else None
            if merged is not None:
                first = family[0][0]
                func, numbers = merged
                made |= {name: (first, number) for (name, _), number in zip(family, numbers)}
                changed |= {name: None for name, _ in family} | {first: func}
    if not made:
        return mod

    def call(node: Call) -> Call:
        target = node.args[0] if node.op is _CALL else None
        if type(target) is not GlobalVar or target.name not in made:
            return node
        name, number = made[target.name]
        return replace(node, args=(GlobalVar(name), node.args[1], ShapeExpr((int_imm(number, _INDEX),))))

    for name, member in mod.graph_functions().items():
        changed[name] = rewrite(member, {Call: call})
    return mod.with_functions(changed)


def _is_plain(fn: PrimFunc) -> bool:
    """True for a private program of buffers of known sizes that nobody has scheduled, without a target of its own."""
    if has_global_symbol(fn) or "target" in fn.attrs or is_scheduled(fn) or len(fn.buffer_map) != len(fn.params):
        return False
    return all([type(dim) is IntImm for buffer in fn.buffer_map.values() for dim in buffer.shape])


def _outline(fn: PrimFunc) -> Hashable:
    """The outline that programs of a family have in common at first sight."""
    buffers = tuple([(buffer.dtype.name, len(buffer.shape)) for buffer in fn.buffer_map.values()])
    return buffers, tuple([type(node) for node in collect(fn.body, (For, Block, BufferStore))])


def _callee(call: Call) -> Any:
    """The program that ``R.call_dps`` calls without further scalars."""
    return call.args[0] if call.op is _CALL and len(call.args) == 2 and type(call.args[1]) is Tuple else None


@dataclass(slots=True)
class _General:
    """A program with a parameter in place of each integer, and the integers."""

    func: PrimFunc
    params: list[Var]
    numbers: list[int]


class _Generalise(Rewriter):
    """Puts variables in place of integers; ``plain`` is False where some of them are notes for the compiler."""

    def __init__(self) -> None:
        super().__init__({IntImm: self._number})
        self.params: list[Var] = []
        self.numbers: list[int] = []
        self.plain = True

    def enter(self, node: Any) -> Any | None:
        if type(node) is AttrStmt or (isinstance(node, (For, Block)) and node.annotations):
            self.plain = False
        return None

    def _number(self, node: IntImm) -> Expr:
        if node.ty is not _INDEX:
            return node
        self.params.append(Var(f"n{len(self.params)}", _INDEX))
        self.numbers.append(node.value)
        return self.params[-1]


def _general(fn: PrimFunc) -> _General | None:
    rewriter = _Generalise()
    func = rewriter(replace(fn, attrs={}))
    func = replace(func, params=(*func.params, *rewriter.params))
    return _General(func, rewriter.params, rewriter.numbers) if rewriter.plain else None


_Family = list[tuple[str, _General]]


def _families(programs: Iterable[tuple[str, _General | None]]) -> list[_Family]:
    """Programs that are equal but for their integers."""
    found: dict[int, list[_Family]] = {}
    for name, general in programs:
        if general is None:
            continue
        alike = found.setdefault(structural_hash(general.func), [])
        mine = next((family for family in alike if structural_equal(family[0][1].func, general.func)), None)
        if mine is None:
            alike.append(mine := [])
        mine.append((name, general))
    return [family for alike in found.values() for family in alike if len(family) >= FAMILY]


def _without_outliers(family: _Family) -> _Family:
    """The members that have each number that most have in common."""
    for index, column in enumerate(zip(*[general.numbers for _, general in family])):
        value, count = Counter(column).most_common(1)[0]
        if 2 * count > len(column):
            family = [member for member in family if member[1].numbers[index] == value]
    return family


def _merged(programs: dict[str, PrimFunc], family: _Family) -> tuple[PrimFunc, list[int]] | None:
    """The program of a family, and the number that each member passes; None where the members differ in more, or a rule schedules
    them."""
    columns = list(zip(*[general.numbers for _, general in family]))
    varying = [column for column in columns if len(set(column)) > 1]
    if not varying:
        return None
    base = min(varying, key=lambda column: max(column) - min(column))
    number = Var("n", _INDEX)
    values: dict[Any, Any] = {}
    first = family[0][1]
    for param, column in zip(first.params, columns):
        found = _in_terms_of(column, base)
        if found is None:
            return None
        values[param] = add(mul(number, found[0]), found[1]) if found[0] else int_imm(found[1], _INDEX)
    name = family[0][0]
    fn = programs[name]
    target = make_target()
    backend = backend_of(target)
    if schedule_function(name, fn, set(range(len(fn.params))), backend.machine(target), backend.rules) is not None:
        return None
    func = substitute(replace(first.func, params=fn.params), values)
    return replace(func, params=(*fn.params, number), attrs=fn.attrs), list(base)


def _in_terms_of(column: tuple[int, ...], base: tuple[int, ...]) -> tuple[int, int] | None:
    """(a, b) with ``column = a * base + b``; None where there are none."""
    if len(set(column)) == 1:
        return 0, column[0]
    low, high = base.index(min(base)), base.index(max(base))
    a, rest = divmod(column[high] - column[low], base[high] - base[low])
    b = column[low] - a * base[low]
    return (a, b) if not rest and all([c == a * x + b for c, x in zip(column, base)]) else None
