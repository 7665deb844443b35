"""Traces: the steps of a schedule as data. Printed as Python that replays, written as JSON, replayed on another module.

Not here: running a step (``transform/schedule/schedule.py``). Invariant: an instruction holds random variables, never srefs or
IR nodes, so a trace outlives the module it was recorded on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ....ir.expr import Var
from ....ir.walk import free_vars
from ....support.arguments import checked_class
from ....support.errors import Note, ScheduleError, UnityError
from ..core.registry import QUERY, ROWS, SAMPLE, Row
from .tvm_trace import is_tvm_trace, to_entries, tvm_name
from .values import ExprRV, Namer, RandomVar, expr_name, from_json, mapped, named, to_json, to_python, variables_in

VERSION = 1
"""Version of the JSON form; readers take every version up to theirs."""
MARKER = "enter_postproc"
COLUMN = 90
"""The last column at which grades begin, if the step is not longer."""

DecisionProvider = Callable[["Instruction", dict[str, Any], Any], Any]
"""Called for each sampling step with (instruction, its arguments, its decision); gives the decision to use (None:
sample anew)."""


@checked_class
@dataclass(slots=True, frozen=True, eq=False)
class Instruction:
    """One step: primitive, arguments by name, results. ``grade`` says how its correctness is known: "proved",
    "tested", "unsafe", or "" for steps that change nothing."""

    row: Row
    args: dict[str, Any]
    outputs: tuple[RandomVar, ...]
    decision: Any = None
    grade: str = ""

    @property
    def kind(self) -> Kind:
        """Name of the primitive."""
        return Kind(self.row.name)

    @property
    def inputs(self) -> list[RandomVar]:
        """The random variables among the arguments."""
        return variables_in(list(self.args.values()))

    @property
    def attrs(self) -> list[Any]:
        """The arguments without random variables."""
        return [value for value in self.args.values() if not variables_in(value)]


class Kind(str):
    """Name of a primitive; ``name`` is what TVM calls the kind of instruction."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """TVM's name, ``SamplePerfectTile``."""
        return tvm_name(self)


class Replayer(Protocol):
    """The part of a schedule that a trace needs."""

    def run(self, row: Row, args: dict[str, Any], decision: Any = None) -> Any: ...


@checked_class
class Trace:
    """Steps in order. ``decisions``: those of sampling steps, in place of their own; a step without one is sampled anew."""

    def __init__(self, insts: Sequence[Instruction] = (), decisions: Mapping[Instruction, Any] | None = None) -> None:
        self.insts: list[Instruction] = list(insts)
        if decisions is not None:
            self.insts = [replace(inst, decision=decisions.get(inst)) for inst in insts]

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """Decisions of the sampling steps."""
        return {inst: inst.decision for inst in self.insts if inst.row.kind == SAMPLE}

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add a step, a sampling one with its decision where one is given."""
        self.insts.append(inst if decision is None else replace(inst, decision=decision))

    def get_decision(self, inst: Instruction) -> Any:
        """The decision of a sampling step; None for another one."""
        return inst.decision

    def pop(self) -> Instruction | None:
        """Take the last step off."""
        return self.insts.pop() if self.insts else None

    def copy(self) -> Trace:
        """The same steps, to go on independently."""
        return Trace(self.insts)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool = False) -> Trace:
        """The trace with another decision for one of its sampling steps. Raises ScheduleError E406 for a step it does
        not hold."""
        if inst not in self.insts or inst.row.kind != SAMPLE:
            raise ScheduleError("E406", "with_decision needs a sampling step of this trace")
        changed = [replace(i, decision=decision) if i is inst else i for i in self.insts]
        return Trace(_before_marker(changed) if remove_postproc else changed)

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Without queries and samples whose results nothing uses (and without the postprocessing steps)."""
        insts = _before_marker(self.insts) if remove_postproc else self.insts
        used: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(insts):
            if (inst.row.kind != QUERY and inst.row.kind != SAMPLE) or any(
                [_symbol(rv) in used for rv in inst.outputs]
            ):
                kept.append(inst)
                for rv in variables_in(list(inst.args.values())):
                    used.update(_symbols(rv))
        return Trace(kept[::-1])

    # ---- replay

    def apply_to_schedule(
        self, sch: Replayer, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None
    ) -> None:
        """Run the steps on another schedule. A sampling step repeats its decision unless the provider gives another.

        Raises ScheduleError E406 naming the step that no longer applies; the steps before it stay applied.
        """
        found: dict[Any, Any] = {}
        insts = _before_marker(self.insts) if remove_postproc else self.insts
        for number, inst in enumerate(tuple(insts)):  # the trace of the schedule itself grows
            try:
                _replay(inst, sch, found, decision_provider)
            except UnityError as error:
                text = f"step {number + 1} of the trace, {inst.kind}, does not apply: {error.message}"
                notes = [Note(f"step: {self.lines()[number]}"), *error.notes]
                raise ScheduleError("E406", text, notes=notes, help=error.help) from error

    def apply_where_possible(self, sch: Replayer) -> list[tuple[Instruction, str]]:
        """Run the steps that apply on another schedule, e.g. those of one kernel on a fused variant of it (TVM's anchor traces).

        Steps that are refused, and those that need the result of such a step, are left out; they are given back, with the reason.
        """
        found: dict[Any, Any] = {}
        left_out: list[tuple[Instruction, str]] = []
        for inst in tuple(self.insts):
            try:
                _replay(inst, sch, found, None)
            except UnityError as error:
                left_out.append((inst, error.message))
        return left_out

    # ---- text

    def namer(self) -> Namer:
        """Names of the random variables: b0, l1, v2 in order. The function raises ScheduleError E405 for others."""
        names: dict[Any, str] = {}
        for inst in self.insts:
            for rv in inst.outputs:
                names[_symbol(rv)] = f"{rv.letter}{len(names)}"
        symbols = {key: name for key, name in names.items() if isinstance(key, Var)}

        def name(rv: RandomVar) -> str:
            if isinstance(rv, ExprRV):
                return expr_name(rv, symbols)
            found = names.get(rv)
            if found is None:
                raise ScheduleError("E405", f"{rv!r} comes from no step of this trace")
            return found

        return name

    def lines(self) -> list[str]:
        """One line of Python per step."""
        name = self.namer()
        return [_line(inst, name) for inst in self.insts]

    def as_python(self) -> list[str]:
        """TVM's name of ``lines``."""
        return self.lines()

    def script(self) -> str:
        """A file of Python with a function that replays the trace; a step's grade stands behind it."""
        width = min(max([len(line) for line in self.lines()] or [0]), COLUMN)
        body = [
            f"    {line.ljust(width) + '  # ' + inst.grade if inst.grade else line}"
            for inst, line in zip(self.insts, self.lines())
        ]
        return "\n".join(["import unity\n\n", "def apply_trace(sch: unity.Schedule) -> None:", *(body or ["    pass"])])

    def show(self) -> None:
        """Print the Python."""
        print(self.script())

    def __str__(self) -> str:
        return self.script()

    def as_json(self) -> dict[str, Any]:
        """The trace as plain data (dictionaries, lists, strings, numbers)."""
        name = self.namer()
        insts = []
        for inst in self.insts:
            entry: dict[str, Any] = {
                "kind": inst.kind,
                "args": {key: to_json(value, name) for key, value in inst.args.items()},
                "outputs": [name(rv) for rv in inst.outputs],
            }
            if inst.decision is not None:
                entry["decision"] = to_json(inst.decision, name)
            if inst.grade:
                entry["grade"] = inst.grade
            insts.append(entry)
        return {"format": "unity.trace", "version": VERSION, "insts": insts}

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Replayer) -> None:
        """Replay what ``as_json`` gave, or a trace of a tuning record of TVM, on a schedule."""
        Trace.from_json(json_obj).apply_to_schedule(sch)

    @staticmethod
    def from_json(data: Any) -> Trace:
        """A trace from what ``as_json`` gave (or its text), here or in TVM. Raises ScheduleError E405 for anything else."""
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise ScheduleError("E405", f"a trace is not JSON: {error}") from None
        if is_tvm_trace(data):
            data = {"format": "unity.trace", "version": VERSION, "insts": to_entries(data)}
        if not isinstance(data, Mapping) or data.get("format") != "unity.trace" or type(data.get("insts")) is not list:
            raise ScheduleError(
                "E405", "this is not a trace", help='a trace is {"format": "unity.trace", "version": 1, "insts": [...]}'
            )
        if type(data.get("version")) is not int or not 1 <= data["version"] <= VERSION:
            raise ScheduleError("E405", f"the trace has version {data.get('version')}, this one reads up to {VERSION}")
        known: dict[str, RandomVar] = {}
        return Trace([_read(number, entry, known) for number, entry in enumerate(data["insts"])])


def _read(number: int, entry: Any, known: dict[str, RandomVar]) -> Instruction:
    if type(entry) is not dict or type(entry.get("args")) is not dict or type(entry.get("outputs")) is not list:
        raise ScheduleError("E405", f"step {number + 1} of the trace is not well formed")
    row = ROWS.get(str(entry.get("kind", "")))
    if row is None:
        raise ScheduleError(
            "E406", f"step {number + 1} of the trace, {entry.get('kind')!r}, is a primitive this version does not have"
        )
    args = {str(key): from_json(value, known) for key, value in entry["args"].items()}
    unknown = [key for key in args if key not in row.signature.parameters]
    if unknown:
        raise ScheduleError(
            "E406", f"step {number + 1} of the trace: {row.name} has no argument {unknown[0]!r} in this version"
        )
    decision = from_json(entry["decision"], known) if "decision" in entry and row.kind == SAMPLE else None
    outputs = []
    for text in entry["outputs"]:
        kind = _KINDS.get(text[:1]) if type(text) is str else None
        if kind is None or text in known:
            raise ScheduleError("E405", f"step {number + 1} of the trace gives {text!r}")
        known[text] = kind(text)
        outputs.append(known[text])
    grade = entry.get("grade", "")
    return Instruction(row, args, tuple(outputs), decision, grade if type(grade) is str else "")


_KINDS = {kind.letter: kind for kind in (*RandomVar.__subclasses__(),)}


def _line(inst: Instruction, name: Namer) -> str:
    shown: list[str] = []
    for key, parameter in inst.row.signature.parameters.items():
        if key not in inst.args:
            continue
        value = inst.args[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            shown += [to_python(item, name) for item in value]
        elif not (type(value) is type(parameter.default) and value == parameter.default):
            shown.append(f"{key}={to_python(value, name)}")
    if inst.decision is not None:
        shown.append(f"decision={to_python(inst.decision, name)}")
    call = f"sch.{inst.kind}({', '.join(shown)})"
    if not inst.outputs:
        return call
    targets = ", ".join([name(rv) for rv in inst.outputs])
    comma = "," if len(inst.outputs) == 1 and inst.row.returns.startswith("list") else ""
    return f"{targets}{comma} = {call}"


def _replay(inst: Instruction, sch: Replayer, found: dict[Any, Any], provider: DecisionProvider | None) -> None:
    """Run one step with the variables found so far, and note what its results became."""
    args = mapped(inst.args, lambda value: _translated(value, found))
    decision = inst.decision
    if provider is not None and inst.row.kind == SAMPLE:
        decision = provider(inst, args, decision)
    outputs = _flat(sch.run(inst.row, args, decision))
    if len(outputs) != len(inst.outputs):
        raise ScheduleError("E406", f"{len(outputs)} results, {len(inst.outputs)} when recorded")
    found.update([(_symbol(old), new) for old, new in zip(inst.outputs, outputs)])


def _before_marker(insts: Sequence[Instruction]) -> list[Instruction]:
    found: list[Instruction] = []
    for inst in insts:
        if inst.kind == MARKER:
            break
        found.append(inst)
    return found


def _flat(made: Any) -> list[RandomVar]:
    if made is None:
        return []
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _symbol(rv: RandomVar) -> Any:
    """The identity of a result: the variable of an ExprRV, else the random variable itself."""
    return rv.expr if isinstance(rv, ExprRV) else rv


def _symbols(rv: RandomVar) -> list[Any]:
    return list(free_vars(rv.expr)) if isinstance(rv, ExprRV) else [rv]


def _translated(value: Any, found: Mapping[Any, Any]) -> Any:
    """The value of a random variable of a trace in a schedule; other values as they are."""
    if isinstance(value, ExprRV):
        names = {v: f"v{k}" for k, v in enumerate(free_vars(value.expr))}
        missing = [v for v in names if v not in found]
        if missing:
            raise ScheduleError("E406", f"{missing[0].name} comes from no earlier step")
        return named(expr_name(value, names), {text: found[v] for v, text in names.items()})
    if isinstance(value, RandomVar):
        if value not in found:
            raise ScheduleError("E406", f"{value!r} comes from no earlier step")
        return found[value]
    return value
