"""Memory that a call took must not be used afterwards: arguments of ``call_inplace`` and ``call_inplace_packed`` named by
``inplace_indices``, and every other name of their memory: views, fields of tuples, results of branches and of graph functions.

Also a rule of level 1. Invariant: a name stands for the origins its memory may have; names that share no origin share no memory.
"""

from __future__ import annotations

from typing import Any

from ..expr import Call, ExternFunc, GlobalVar, If, SeqExpr, Tuple, TupleGetItem, Var
from ..function import Function
from ..module import IRModule
from ..op import shares_memory
from ..types import Expr, TupleType, Type
from ..walk import free_vars
from .report import Report

IN_PLACE = ("R.call_inplace", "R.call_inplace_packed")
"""Calls that write into the arguments they name."""

Origin = tuple[Var, tuple[int, ...]]
"""The origin of memory: a parameter or the result of a call, and the field of it."""
Origins = frozenset[Origin] | tuple[Any, ...]
"""Of a tensor, or of a tuple by its fields."""
_NOWHERE: frozenset[Origin] = frozenset()


def check_in_place(mod: IRModule | None, name: str, fn: Function, report: Report) -> None:
    """Report E339 for each use of memory that a call took, in one graph function."""
    _Walk(mod, report, {name}).function(fn)


class _Walk:
    """Follows the bindings of a function in order. ``known``: for each name its origins; ``taken``: for each origin the callee."""

    def __init__(self, mod: IRModule | None, report: Report | None, running: set[str]) -> None:
        self.mod, self.report, self.running = mod, report, running
        self.known: dict[Var, Origins] = {}
        self.taken: dict[Origin, str] = {}
        self.at: Any = None

    def function(self, fn: Function) -> Origins:
        """Follow a function; the origins of its result."""
        for param in fn.params:
            self.known[param] = _fresh(param, param.ty)
        return self.sequence(fn.body)

    def sequence(self, seq: Expr) -> Origins:
        if type(seq) is not SeqExpr:
            return self.use(seq)
        for binding in seq.bindings:
            self.at = getattr(binding.value, "span", None) or binding.span
            self.known[binding.var] = self.value(binding.var, binding.value)
        self.at = getattr(seq.body, "span", None)
        return self.use(seq.body)

    def value(self, var: Var, value: Expr) -> Origins:
        if type(value) is If:
            self.use(value.cond)
            before = dict(self.taken)
            first = self.sequence(value.then_branch)
            after, self.taken = self.taken, before
            second = self.sequence(value.else_branch)
            one, other = set(after) - set(self.taken), set(self.taken) - set(after)
            self.taken.update(after)
            # what one branch takes the other may still hand on: nobody else may name it behind both
            own = {origin: (var, (-1 - k,)) for k, origin in enumerate([*one, *other])}
            return _either(
                _substituted(first, {p: own[p] for p in other}), _substituted(second, {p: own[p] for p in one})
            )
        if type(value) is Function:
            return _NOWHERE.union(*[_flatten(self.use(v)) for v in free_vars(value, in_types=False)])
        return self.call(var, value) if type(value) is Call else self.use(value)

    def call(self, var: Var, call: Call) -> Origins:
        given = [self.use(arg) for arg in (call.op, *call.args)][1:]
        if call.op_name in IN_PLACE:
            named, fields = _operands(call, given)
            self.take(call, named, fields)
        elif shares_memory(call):
            return given[0]
        elif type(call.op) is GlobalVar and self.mod is not None and call.op.name not in self.running:
            callee = self.mod.functions.get(call.op.name)
            if type(callee) is Function and len(callee.params) == len(given):
                return self.called(var, call, call.op.name, callee, given)
        return _fresh(var, call.ty)

    def called(self, var: Var, call: Call, name: str, callee: Function, given: list[Origins]) -> Origins:
        """A call of a graph function: what it takes of its arguments, and which of them its result may be."""
        inner = _Walk(self.mod, None, {*self.running, name})
        made = _flatten(inner.function(callee))
        found = _NOWHERE
        for param, origins in zip(callee.params, given):
            own = _flatten(inner.known[param])
            if own & made:
                found |= _flatten(origins)
            if own & set(inner.taken):
                self.taken.update(dict.fromkeys(_flatten(origins), name))
        return found | _flatten(_fresh(var, call.ty)) if found else _fresh(var, call.ty)

    def take(self, call: Call, named: str, fields: list[Origins]) -> None:
        """Let a call have the memory of the arguments that it names."""
        indices = call.attrs.get("inplace_indices") or ()
        for index in [indices] if isinstance(indices, int) else indices:
            if not 0 <= index < len(fields):
                continue
            mine = _flatten(fields[index])
            if not mine and self.report is not None:
                text = f"argument {index + 1} of {named}, which writes into it, is a constant"
                self.report.add("E339", text, call, "R.call_dps makes new memory for the result")
            for other, origins in enumerate(fields):
                if other != index and mine & _flatten(origins) and self.report is not None:
                    text = f"arguments {index + 1} and {other + 1} of {named} are the same memory, and it writes into one of them"
                    self.report.add("E339", text, call, _HELP)
            self.taken.update(dict.fromkeys(mine, named))

    def use(self, value: Expr) -> Origins:
        """The origins of a leaf, which is used here."""
        origins = self.origins_of(value)
        if self.taken and self.report is not None:
            for origin in _flatten(origins):
                if origin in self.taken:
                    name = getattr(value, "name", "a value")
                    whose = "its memory" if origin[0] is value else f"the memory of {origin[0].name}, which it shows,"
                    text = f"{name} is used after {self.taken[origin]} took {whose} for its result"
                    self.report.add("E339", text, self.at, _HELP)
                    break
        return origins

    def origins_of(self, value: Expr) -> Origins:
        if isinstance(value, Var):
            return self.known.get(value, _NOWHERE)
        if type(value) is Tuple:
            return tuple([self.origins_of(f) for f in value.fields])
        if type(value) is TupleGetItem:
            whole = self.origins_of(value.tuple_value)
            return whole[value.index] if type(whole) is tuple and 0 <= value.index < len(whole) else whole
        return _NOWHERE


_HELP = "use the call's result instead, or R.call_dps, which makes new memory for it"


def _fresh(var: Var, ty: Type, path: tuple[int, ...] = ()) -> Origins:
    """Origins of their own for a variable, one for each field."""
    if isinstance(ty, TupleType):
        return tuple([_fresh(var, field, (*path, k)) for k, field in enumerate(ty.fields)])
    return frozenset(((var, path),))


def _flatten(origins: Origins) -> frozenset[Origin]:
    return _NOWHERE.union(*[_flatten(p) for p in origins]) if isinstance(origins, tuple) else origins


def _substituted(origins: Origins, names: dict[Origin, Origin]) -> Origins:
    if isinstance(origins, tuple):
        return tuple([_substituted(p, names) for p in origins])
    return frozenset([names.get(p, p) for p in origins]) if names else origins


def _either(a: Origins, b: Origins) -> Origins:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple([_either(x, y) for x, y in zip(a, b)])
    return _flatten(a) | _flatten(b)


def _operands(call: Call, given: list[Origins]) -> tuple[str, list[Origins]]:
    """The callee of an in-place call by name, and the origins of its arguments."""
    callee = call.args[0]
    named = callee.name if isinstance(callee, (GlobalVar, ExternFunc)) else "the call"
    if call.op_name == "R.call_inplace_packed":
        return named, given[1:]
    fields = given[1] if len(given) > 1 else ()
    return named, list(fields) if isinstance(fields, tuple) else [fields]
