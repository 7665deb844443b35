"""Translation validation: a module before and after each pass runs in the reference interpreter on generated inputs.

``UNITY_CHECK=1``, or ``with PassContext(CheckInstrument()): ...``. Where results differ beyond rounding, the pass is named
(PassError E555), the module is made smaller while it still shows the difference, and a file that shows it again is saved. A pass
after which the module is not a program at all is named too (InternalError E904).
Nothing is checked silently half: ``records`` says for every pass and function what was run and what was skipped and why.

Not run: functions with effects (registered functions called through call_packed, printing), functions whose parameters a pass
changed, inputs the program before the pass refuses, runs longer than ``steps`` loop iterations, everything after ``seconds``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...ir.analysis.use import reachable_functions
from ...ir.expr import Call, ExternFunc, Op, StringImm
from ...ir.function import Function, PrimFunc, has_global_symbol
from ...ir.module import IRModule
from ...ir.walk import collect
from ...op.common.table import R
from ...script import parse
from ...support.arguments import checked_class
from ...support.errors import PassError, UnityError
from ...support.options import int_option, str_option
from ...support.recursion import deep_recursion
from ..infra.context import BY_OPTION
from ..infra.inputs import KINDS, Inputs, NoInput, make_inputs
from ..infra.instruments import VerifyInstrument, internal_error
from ..infra.passes import Instrument, Pass
from .outcomes import Memo, Outcome, estimated_steps, outcome, outcomes_differ
from .reproducer import save_failure
from .shrink import shrink

_PURE_CALLS = {
    R.call_dps.name,
    R.call_inplace.name,
    R.call_dps_with_grad.name,
    R.call_pure_packed.name,
    R.call_inplace_packed.name,
}
_EFFECTS = {R.call_packed.name, R.call_py_func.name, R.call_builtin_with_ctx.name}
_PASS_FAILURES = (UnityError, AssertionError, LookupError, TypeError, ValueError, AttributeError)
"""The errors that a wrong pass may raise on a smaller module: that is another failure."""
_ATTEMPTS = (2, 6)
"""Inputs tried on a smaller module; more where NaN stands at a random place."""
_SHRINK_SECONDS = 20.0
"""Seconds in which a module that a pass changed is made smaller."""
_LIMITS = (8, 2, 1)
"""Bounds of integer data, tried in turn: data may be indices."""


@dataclass(slots=True)
class CheckRecord:
    """The record of one function after one pass: ``verdict`` is "agrees", "differs" or "skipped"."""

    step: str
    function: str
    verdict: str
    inputs: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        ran = f" on {len(self.inputs)} inputs ({'; '.join(self.inputs)})" if self.inputs else ""
        why = f"; not judged: {'; '.join(dict.fromkeys(self.reasons))}" if self.reasons else ""
        return f"check {self.step}: {self.function} {self.verdict}{ran}{why}, {self.seconds:.2f} s"


def _require_program(step: Pass, old: IRModule, new: IRModule) -> None:
    """Raise InternalError E904 for a module whose text nobody can read: it cannot be saved as one that runs."""
    try:
        with deep_recursion():
            parse(new.script(show_meta=True))
    except UnityError as error:
        raise internal_error("E904", f"pass {step.name} broke the module: {error}", old, step) from error


@dataclass(slots=True)
class _Failure:
    inputs: Inputs
    text: str


@checked_class
class CheckInstrument(Instrument):
    """Compares the meaning of a module before and after each pass.

    ``inputs``: inputs per function and pass; ``steps``: loop iterations of one run of a
    graph function, a tenth of it for a tensor program alone; ``seconds``: processor time all checks may take
    together; ``folder``: where failures are saved; ``show``: print a line per check to standard error.
    """

    def __init__(
        self,
        inputs: int = 4,
        steps: int = 1_000_000,
        seconds: float = 120.0,
        folder: str | Path | None = None,
        show: bool = False,
    ) -> None:
        self.count, self.steps, self.seconds, self.show = inputs, steps, seconds, show
        self.folder = Path(folder) if folder else None
        self.records: list[CheckRecord] = []
        self.used = 0.0
        self._memo = Memo()
        self._inputs: dict[str, list[Inputs]] = {}
        self._outcomes: tuple[IRModule | None, dict[tuple[str, int], Outcome]] = (None, {})
        self._pure: set[str] = set()
        self._seen: set[Any] = set()

    # ---- what to check

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        if new is old:
            return
        self._note_pure_calls(old)
        fresh: dict[tuple[str, int], Outcome] = {}
        first = len(self.records)
        for name in _changed(old, new):
            start = time.process_time()
            record = CheckRecord(str(step), name, "skipped")
            failure = self._check(step, old, new, name, record, fresh)
            record.seconds = time.process_time() - start
            self.used += record.seconds
            if failure is not None:
                record.verdict = "differs"
            elif record.inputs:
                record.verdict = "agrees"
            self.records.append(record)
            if self.show:
                print(record, file=sys.stderr)
            if failure is not None:
                _require_program(step, old, new)
                raise self._report(step, old, new, name, failure)
        if any(
            [record.verdict == "skipped" for record in self.records[first:]]
        ):  # nothing ran that would have shown it
            VerifyInstrument().after(step, old, new, seconds)
        self._outcomes = (new, fresh)

    def _note_pure_calls(self, mod: IRModule) -> None:
        """Registered functions a program calls as pure ones may be run; lowering turns these calls into others."""
        for fn in mod.graph_functions().values():
            if fn in self._seen:
                continue
            self._seen.add(fn)
            for call in collect(fn, Call):
                if call.op_name in _PURE_CALLS:
                    self._pure.update(_callee_names(call))

    def _effect(self, mod: IRModule, name: str) -> str | None:
        """The effect of a run besides computing."""
        for member in sorted(reachable_functions(mod, [name])):
            fn = mod[member]
            if isinstance(fn, ExternFunc):
                return f"it calls {fn.name}"
            if not isinstance(fn, Function):
                continue
            for call in collect(fn, Call):
                if type(call.op) is not Op:
                    continue
                if call.op.name == R.print.name:
                    return "it prints"
                unknown = [n for n in _callee_names(call) if n not in self._pure]
                if call.op.name in _EFFECTS and unknown:
                    return f"it calls {unknown[0]}, which may have effects"
        return None

    # ---- one function

    def _check(
        self,
        step: Pass,
        old: IRModule,
        new: IRModule,
        name: str,
        record: CheckRecord,
        fresh: dict[tuple[str, int], Outcome],
    ) -> _Failure | None:
        if self.used > self.seconds:
            record.reasons.append(f"the {self.seconds:g} s for checks are used up")
            return None
        if len(old[name].params) != len(new[name].params):
            record.reasons.append("its parameters changed")
            return None
        steps = self.steps if isinstance(old[name], Function) else self.steps // 10
        needed = max(estimated_steps(old, name), estimated_steps(new, name))
        if needed > steps:
            record.reasons.append(f"a run takes about {needed:,} steps, {steps:,} are allowed")
            return None
        effect = self._effect(old, name) or self._effect(new, name)
        if effect is not None:
            record.reasons.append(effect)
            return None
        known_mod, known = self._outcomes
        for index, given in enumerate(self._inputs_of(old, name, record)):
            if self.used > self.seconds:
                break
            first = known.get((name, index)) if known_mod is old else None
            if first is None:
                first = outcome(old, name, given.arguments, self.steps, self._memo)
            if first.kind != "value":
                record.reasons.append(f"{given}: {first.text}")
                continue
            second = outcome(new, name, given.arguments, self.steps, self._memo)
            fresh[(name, index)] = second
            if second.kind == "skip":
                record.reasons.append(f"{given}: {second.text}")
                continue
            record.inputs.append(str(given))
            text = outcomes_differ(first, second)
            if text is not None and self._again(old, new, name, given):
                return _Failure(given, text)
            if text is not None:
                record.reasons.append(f"{given}: differed once and never again (a comparison of rounded numbers)")
        return None

    def _inputs_of(self, mod: IRModule, name: str, record: CheckRecord) -> list[Inputs]:
        """Inputs the function accepts, the same ones for every pass as long as it does."""
        found = self._inputs.get(name)
        if found is None or not _fit(mod[name], found):
            found = self._inputs[name] = []
            for index, kind in enumerate(self._kinds(mod[name])):
                try:
                    found.append(self._accepted(mod, name, index, kind))
                except NoInput as problem:
                    record.reasons.append(str(problem))
        return found

    def _kinds(self, fn: Any) -> Sequence[str]:
        symbolic = bool(make_sizes(fn))
        kinds = KINDS if symbolic else ("plain", "special")
        return [kinds[i % len(kinds)] for i in range(self.count if symbolic else min(self.count, 2))]

    def _accepted(self, mod: IRModule, name: str, index: int, kind: str) -> Inputs:
        """Inputs of a kind with the largest integer data on which the program does not fail."""
        made = make_inputs(mod[name], index, kind)
        for limit in _LIMITS[1:]:
            if outcome(mod, name, made.arguments, self.steps, self._memo).kind != "error":
                break
            made = make_inputs(mod[name], index, kind, limit)
        return made

    def _again(self, old: IRModule, new: IRModule, name: str, given: Inputs) -> bool:
        """True if another input of the kind shows a difference as well."""
        for seed in (given.seed + 101, given.seed + 202):
            try:
                other = make_inputs(old[name], seed, given.kind)
            except NoInput:
                return True
            first = outcome(old, name, other.arguments, self.steps, self._memo)
            if first.kind != "value":
                other = make_inputs(old[name], seed, given.kind, 2)
                first = outcome(old, name, other.arguments, self.steps, self._memo)
            if outcomes_differ(first, outcome(new, name, other.arguments, self.steps, self._memo)):
                return True
        return False

    # ---- a failure

    def _report(self, step: Pass, old: IRModule, new: IRModule, name: str, failure: _Failure) -> PassError:
        given = failure.inputs

        def attempt(mod: IRModule, sizes: dict[str, int]) -> tuple[IRModule, Inputs, str] | None:
            """The pass run on a module: the module after it, inputs and the difference, None where no inputs show one."""
            try:
                with deep_recursion():
                    after = step.apply(mod)
            except _PASS_FAILURES:
                return None
            if name not in after or len(after[name].params) != len(mod[name].params):
                return None
            for seed in range(given.seed, given.seed + _ATTEMPTS[given.kind == "special"]):
                try:
                    inputs = make_inputs(mod[name], seed, given.kind, sizes=sizes)
                except NoInput:
                    return None
                first = outcome(mod, name, inputs.arguments, self.steps)
                found = outcomes_differ(first, outcome(after, name, inputs.arguments, self.steps))
                if found is not None:
                    return after, inputs, found
            return None

        small, tried = shrink(old, name, lambda mod: attempt(mod, given.sizes) is not None, _SHRINK_SECONDS)
        made = attempt(small, given.sizes)
        if made is None:  # the failure depends on the very inputs
            small, made = old, (new, given, failure.text)
        for size in (0, 1, 2, 3):
            other = attempt(small, dict.fromkeys(made[1].sizes, size)) if made[1].sizes else None
            if other is not None:
                made = other
                break
        after, inputs, text = made
        folder = self.folder or Path(tempfile.mkdtemp(prefix="unity_check_"))
        path = folder / f"{len(self.records):03d}_{step.name}.py"
        title = f"Pass {step} changed what {name} computes: {text}."
        save_failure(path, title, str(step), name, small, after, inputs.arguments)
        return PassError(
            "E555",
            f"pass {step} changed what {name} computes, on {given}: {failure.text}",
            help=f"both modules, made smaller in {tried} steps, and the inputs are in {path}; run it with python",
        )


def make_sizes(fn: Function | PrimFunc) -> dict[str, int]:
    """Sizes of the symbols a function's parameters have, for some input."""
    try:
        return make_inputs(fn, 0, "plain").sizes
    except NoInput:
        return {}


def _callee_names(call: Call) -> list[str]:
    found = [a for a in call.args[:1] if isinstance(a, (ExternFunc, StringImm))]
    return [a.name if isinstance(a, ExternFunc) else a.value for a in found]


def _fit(fn: Function | PrimFunc, inputs: list[Inputs]) -> bool:
    """True if the function would be given the same inputs again."""
    for given in inputs:
        try:
            again = make_inputs(fn, given.seed, given.kind)
        except NoInput:
            return False
        shapes = [getattr(a, "shape", a) if not isinstance(a, tuple) else len(a) for a in again.arguments]
        if shapes != [getattr(a, "shape", a) if not isinstance(a, tuple) else len(a) for a in given.arguments]:
            return False
    return True


def _changed(old: IRModule, new: IRModule) -> list[str]:
    """Functions to compare: public ones (all where none is) that reach something the pass changed."""
    both = [
        n
        for n in old.functions
        if n in new and type(old[n]) is type(new[n]) and isinstance(old[n], (Function, PrimFunc))
    ]
    graph = [n for n in both if isinstance(old[n], Function)]
    pool = graph or both
    public = [n for n in pool if has_global_symbol(old[n])]
    programs = [n for n in both if isinstance(old[n], PrimFunc) and has_global_symbol(old[n])] if graph else []
    found = []
    for name in dict.fromkeys([*(public or pool), *programs]):
        before = reachable_functions(old, [name])
        if any([old[n] is not new.functions.get(n) for n in before]) or before != reachable_functions(new, [name]):
            found.append(name)
    return found


def check_from_options() -> CheckInstrument:
    """The instrument of ``UNITY_CHECK=1``; one for the process, so that its budget and memory last."""
    settings = (
        int_option("UNITY_CHECK_INPUTS"), int_option("UNITY_CHECK_STEPS"), int_option("UNITY_CHECK_SECONDS"),
        str_option("UNITY_CHECK_DIR"),
    )  # fmt: skip
    if settings not in _MADE:
        inputs, steps, seconds, folder = settings
        _MADE[settings] = CheckInstrument(inputs, steps, seconds, folder or None, show=True)
    return _MADE[settings]


_MADE: dict[tuple[int, int, int, str], CheckInstrument] = {}
BY_OPTION["UNITY_CHECK"] = check_from_options
