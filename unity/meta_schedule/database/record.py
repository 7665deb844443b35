"""``TuningRecord``: a schedule of a program and its times, and the program that it gives.

A record is data: a trace, whose steps are run by the checked primitives, and for schedules that a rule made in its own way the
script of their program, which is parsed and verified. Nothing in a record is code. Not here: where records lie.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields, replace as replace_fields
from typing import Annotated, Any

from ...ffi.targets.target import Target, target as make_target
from ...ir.build import const
from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.structural import structural_equal
from ...ir.types import Expr
from ...ir.walk import substitute
from ...support.errors import ScheduleError, UnityError
from ...support.schema import Misfit, Schema, need, one_of
from ...transform.default_schedule.apply import schedule_function
from ...transform.default_schedule.base import Scheduled, mark_scheduled
from ...transform.default_schedule.common.choices import is_decided
from ...transform.default_schedule.packing import Packing
from ...transform.infra.backend import backend_of
from ...transform.schedule import Schedule, Trace
from ...vm.confined import check_confined
from ..core.arg_info import ArgInfo, TensorInfo
from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import MAIN
from .workload import ASIDE, Workload, machine_features, read_program

TRIAL, KEPT, DEFAULT = "trial", "kept", "default"
"""Verdicts: measured once; measured against the default in turns and faster; not faster, so that the default stays."""


UNMEASURED = 1e10
"""Seconds that TVM writes for a candidate that failed."""


@dataclass(slots=True, frozen=True, eq=False)
class TuningRecord:
    """A schedule that was measured. ``run_secs``: seconds of its runs, None where it failed; ``default_secs``: of the default build
    in the same turns. ``scheduled`` is the program where the trace alone does not give it. ``features``: the machine's facts."""

    trace: Trace
    workload: Workload
    run_secs: Sequence[float] | None = None
    target: Target | None = None
    args_info: Sequence[ArgInfo] = ()
    default_secs: Sequence[float] | None = None
    scheduled: Scheduled | None = None
    verdict: str = TRIAL
    reason: str = ""
    features: str = field(default="")

    def __post_init__(self) -> None:
        if not self.features and self.target is not None:
            object.__setattr__(self, "features", machine_features(self.target))

    @property
    def seconds(self) -> float:
        """The fastest of the runs; infinite for a failure."""
        return fastest(self.run_secs)

    @property
    def gain(self) -> float:
        """Time of the default by time of the record; 1.0 where the default was not measured."""
        return fastest(self.default_secs) / self.seconds if self.default_secs and self.run_secs else 1.0

    def with_program(self, scheduled: Scheduled) -> TuningRecord:
        """The record with the program that its candidate has."""
        return replace_fields(self, scheduled=scheduled)

    def as_python(self) -> str:
        """The schedule as a function of Python, without steps that nothing uses."""
        return self.trace.simplified().script()

    def script(self) -> str:
        """The scheduled program as script. Raises ScheduleError E462 where the record no longer applies."""
        return self.program(self.workload.func).func.script()

    def is_valid(self) -> bool:
        """True if there are times, none of them 0 or less."""
        return bool(self.run_secs) and all([secs > 0 for secs in self.run_secs or ()])

    def as_measure_candidate(self) -> MeasureCandidate:
        """The schedule again, to be built and run. Raises ScheduleError E462 where it no longer applies."""
        sch = self.schedule()
        return MeasureCandidate(
            sch, list(self.args_info), self.program(self.workload.func), None, self.verdict == DEFAULT
        )

    def schedule(self) -> Schedule:
        """The schedule of the record's program: the trace replayed, or the program that is kept, from which one goes on.

        Raises ScheduleError E462 where it no longer applies.
        """
        sch = Schedule(self.workload.mod, error_render_level="none")
        try:
            self.trace.apply_to_schedule(sch)
        except UnityError as error:
            if self.scheduled is not None:
                return Schedule(IRModule({MAIN: self.scheduled.func}, {}, {}))
            raise ScheduleError("E462", f"a record's trace does not apply to its program: {error.message}",
                                help="records of another version: tune again") from error  # fmt: skip
        return sch

    def program(self, fn: PrimFunc) -> Scheduled:
        """The program ``fn``, which is that of the workload under any names, as the record schedules it.

        Raises ScheduleError E462 where the record does not fit it.
        """
        made = self.scheduled or self._replayed()
        found = made.func
        problem = _misfit(fn, found, made.packed)
        if problem:
            raise ScheduleError("E462", f"a record does not fit its program: {problem}")
        try:
            check_confined(IRModule({MAIN: found}, {}, {}))
        except UnityError as error:
            raise ScheduleError("E462", f"a record does what no schedule does: {error.message}") from error
        own = {key: value for key, value in found.attrs.items() if key not in ASIDE}
        attrs = {**own, **{key: value for key, value in fn.attrs.items() if key in ASIDE}}
        return Scheduled(replace(found, attrs=attrs, span=fn.span), made.reason, made.packed)

    def _replayed(self) -> Scheduled:
        """The program that the trace gives: its decisions are taken by the rules, its other steps leave it as it is wanted."""
        fn = self.schedule().mod.prim_funcs()[MAIN]
        if not is_decided(fn):
            return Scheduled(mark_scheduled(fn), "its trace")
        target = make_target(self.target)
        backend = backend_of(target)
        with target:
            found = schedule_function(MAIN, fn, set(self.workload.constants), backend.machine(target), backend.rules)
        return found or Scheduled(fn, "loops by passes")

    def as_json(self) -> dict[str, Any]:
        """The record as plain data, without its workload."""
        program = self.scheduled
        return {
            "trace": self.trace.as_json(),
            "run_secs": None if self.run_secs is None else list(self.run_secs),
            "default_secs": None if self.default_secs is None else list(self.default_secs),
            "target": None if self.target is None else str(self.target),
            "args_info": [info.as_json() for info in self.args_info],
            "program": None if program is None else program.func.script(),
            "packed": []
            if program is None
            else [[place, *astuple(layout)] for place, layout in program.packed.items()],
            "reason": program.reason if program is not None and not self.reason else self.reason,
            "verdict": self.verdict,
            "features": self.features,
        }

    @staticmethod
    def from_json(data: Any, workload: Workload) -> TuningRecord:
        """A record from what ``as_json`` gave, or a list of TVM: ``[trace, run_secs, target, args_info]``.

        Raises ScheduleError E461 for anything else, E405 and E406 for a trace.
        """
        if isinstance(data, (list, tuple)) and len(data) == 4:
            data = dict(zip(("trace", "run_secs", "target", "args_info"), data))
            data["run_secs"] = None if data["run_secs"] == [UNMEASURED] else data["run_secs"]
        if not isinstance(data, dict) or "trace" not in data:
            raise ScheduleError("E461", "this is not a record of a tuning")
        given = {one.name: data.get(one.name, one.default) for one in fields(_Data)}
        try:
            found: _Data = _SCHEMA.record(_Data, given)
        except Misfit as error:
            raise ScheduleError("E461", f"a record of a tuning is damaged: {error}") from None
        return TuningRecord(
            Trace.from_json(found.trace), workload, found.run_secs, found.target,
            [TensorInfo.from_json(info) for info in found.args_info or ()],
            found.default_secs, _scheduled(found), found.verdict, found.reason, found.features,
        )  # fmt: skip


def _seconds(value: Any) -> float:
    need(type(value) in (int, float), f"{value!r} is not a time")
    return float(value)


def _target(data: Any) -> Target:
    need(isinstance(data, (str, dict)), f"{data!r} is not a target")
    if isinstance(data, dict):  # TVM writes keys of its own beside the options
        data = {key: value for key, value in data.items() if key not in ("keys", "tag", "host")}
    return Target(data)


def _packing(entry: Any) -> tuple[int, Packing]:
    match entry:
        case [int(place), [*outer], int(columns), [*inner], int(block), int(group), int(joined), int(depth)] if (
            block > 0 < group and inner and all([type(n) is int for n in (*outer, *inner)])
            and sorted([*outer, columns, *inner]) == list(range(len(outer) + 1 + len(inner)))
            and 0 <= joined <= len(inner) and depth >= 0 and depth % group == 0
        ):  # fmt: skip
            return place, Packing(tuple(outer), columns, tuple(inner), block, group, joined, depth)
    raise Misfit(f"a parameter is packed as {entry!r}")


@dataclass(slots=True, frozen=True)
class _Data:
    """The plain data of a record."""

    trace: Any = None
    run_secs: list[float] | None = None
    default_secs: list[float] | None = None
    target: Target | None = None
    args_info: list[Any] | None = None
    program: str | None = None
    packed: list[tuple[int, Packing]] | None = None
    reason: str = ""
    verdict: Annotated[str, one_of(TRIAL, KEPT, DEFAULT)] = TRIAL
    features: str = ""


_SCHEMA = Schema(leaves={float: _seconds, Target: _target, tuple[int, Packing]: _packing})


def _scheduled(data: _Data) -> Scheduled | None:
    if data.program is None:
        return None
    programs = list(read_program(data.program).prim_funcs().values())
    if len(programs) != 1:
        raise ScheduleError("E461", f"the script of a record has {len(programs)} programs")
    return Scheduled(programs[0], data.reason, dict(data.packed or ()))


def _misfit(fn: PrimFunc, scheduled: PrimFunc, packed: dict[int, Packing]) -> str:
    """The reason why a program takes other arguments than another whose parameters are packed; "" where it takes the same."""
    if len(fn.params) != len(scheduled.params) or not all([0 <= place < len(fn.params) for place in packed]):
        return f"it has {len(scheduled.params)} parameters, not {len(fn.params)}"
    symbols = _symbols(fn, scheduled, packed)
    for index, (old, new) in enumerate(zip(fn.params, scheduled.params)):
        before, after = fn.buffer_map.get(old), scheduled.buffer_map.get(new)
        if before is None or after is None:
            if before is not after or index in packed or old.ty is not new.ty:
                return f"parameter {index} is not a tensor"
            continue
        shape, other = [substitute(extent, symbols) for extent in before.shape], list(after.shape)
        if index in packed:
            layout = packed[index]
            if len(shape) != len(layout.outer) + 1 + len(layout.inner):
                return f"parameter {index} has {len(shape)} axes"
            numbers = [extent.value for extent in shape if type(extent) is IntImm]
            if (
                layout.fused
                and math.prod([numbers[k] for k in layout.inner[-layout.fused :] if k < len(numbers)]) > layout.depth
            ):
                return f"parameter {index} has more than {layout.depth} elements in a line"
            shape = [const(n, "int64") for n in layout.shape(tuple(numbers))] if len(numbers) == len(shape) else []
        alike = len(shape) == len(other) and all([_equal(one, two) for one, two in zip(shape, other)])
        if before.dtype is not after.dtype or not alike or after.strides or after.scope != "global":
            return f"parameter {index} is {after.dtype} {other}, not {before.dtype} {shape}"
    if len(set(symbols.values())) != len(symbols):
        return "two of its sizes are one"
    return ""


def _symbols(fn: PrimFunc, scheduled: PrimFunc, packed: dict[int, Packing]) -> dict[Var, Expr]:
    """The symbols of a program and those of another that stand in their places."""
    found: dict[Var, Expr] = {}
    for index, (one, two) in enumerate(zip(fn.params, scheduled.params)):
        before, after = fn.buffer_map.get(one), scheduled.buffer_map.get(two)
        if before is None and after is None:
            found[one] = two
        elif before is not None and after is not None and index not in packed:
            for old, new in zip(before.shape, after.shape):
                if isinstance(old, Var) and isinstance(new, Var):
                    found.setdefault(old, new)
    return found


def _equal(one: Expr, two: Expr) -> bool:
    """True if two extents are the same; the data type of a number does not matter."""
    if type(one) is IntImm and type(two) is IntImm:
        return one.value == two.value
    return structural_equal(one, two)


def fastest(values: Sequence[float] | None) -> float:
    """The fastest of several runs, which others disturbed least; infinite where there are none."""
    return min(values) if values else float("inf")


def record_text(record: TuningRecord) -> str:
    """The record as one line of JSON."""
    return json.dumps(record.as_json(), separators=(",", ":"))


__all__ = ["DEFAULT", "KEPT", "TRIAL", "TuningRecord", "fastest", "record_text"]
