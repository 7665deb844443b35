"""Schedule: the handle a person or a tuner drives. Runs primitives from the table, keeps their results by name, records
the trace.

Not here: any primitive. Invariant: a step that fails leaves module, random variables and trace as they were.
"""

from __future__ import annotations

import functools
import inspect
import random
from typing import TYPE_CHECKING, Any

from ...ir.build import int_value
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace as with_fields
from ...ir.verifier.verifier import violations
from ...ir.walk import free_vars, substitute
from ...support.arguments import guarded_class
from ...support.errors import ArgumentError, InternalError, ScheduleError, UnityError, suggest
from ...support.options import int_option
from ...support.recursion import deep_recursion
from ...support.source import Span
from ...te.value import to_scalar
from .core.refuse import LEVELS, Refused
from .core.registry import KINDS, QUERY, ROWS, SAMPLE, Row, Sampled
from .core.sref import Sref
from .core.state import ScheduleState
from .methods import Primitives
from .preconditions import grade
from .preconditions.dependence import regions
from .preconditions.ownership import require_owned
from .primitives.location import Mark, run_at_mark
from .traces.trace import Instruction, Trace
from .traces.values import BlockRV, ExprRV, LoopRV, RandomVar, copied

INSTEAD = {
    "cache_index": "common subexpressions are computed once by the lowering",
    "cache_inplace": "`cache_read`, then `cache_write`",
    "read_at": "`cache_read` with `compute_at`, then `fuse`, `split` and `bind`",
    "write_at": "`cache_write` with `reverse_compute_at`, then `fuse`, `split` and `bind`",
    "rolling_buffer": "`compute_at`; the buffer then shrinks to what one iteration needs, cells that two iterations share are "
    "computed again",
    "fuse_reduction_epilogue": "`reverse_compute_at` of the epilogue: folding it into the reduction changes results",
    "set_axis_separator": "`axis_separators` of `T.alloc_buffer` and `T.Buffer` in the program",
    "unsafe_hide_buffer_access": "regions are declared with `T.reads` / `T.writes` in the program",
    "annotate_buffer_access": "regions are declared with `T.reads` / `T.writes` in the program",
}
"""Methods of TVM's ``Schedule`` that are not primitives here, and what to write instead."""

CHECK_STATE, CHECK_RESULT = 1, 2
"""Bits of ``debug_mask``: verify index and module after every step (``UNITY_VERIFY=2`` asks for it too); run every step's before
and after in the reference interpreter."""


@guarded_class
class Schedule(Primitives):
    """A module that is transformed step by step. Every primitive is a method, with TVM's names and argument order.

    ``seed`` starts the sampling (None: from the system). ``debug_mask``: checks after each step, "all", "none" or bits CHECK_STATE
    | CHECK_RESULT. ``error_render_level``: "detail" draws refusals with the loop nest, "fast" leaves it out, "none" gives the
    sentence alone.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule({str(mod.attrs.get("global_symbol", "main")): mod}, {}, {})
        if not isinstance(mod, IRModule):
            raise ScheduleError(
                "E401", f"a schedule starts from a module or a tensor program, got {type(mod).__name__}"
            )
        if error_render_level not in LEVELS:
            raise ScheduleError(
                "E401", f"no error_render_level {error_render_level!r}", help=f"one of: {', '.join(LEVELS)}"
            )
        mask = (
            {"none": 0, "all": CHECK_STATE | CHECK_RESULT}.get(debug_mask)
            if isinstance(debug_mask, str)
            else debug_mask
        )
        if mask is None:
            raise ScheduleError("E401", f"no debug_mask {debug_mask!r}", help='"all", "none" or bits')
        self.debug_mask: int = mask | (CHECK_STATE if int_option("UNITY_VERIFY") >= 2 else 0)
        self.error_render_level = error_render_level
        self.tests = True
        """A step that rests on what is not proved is tested; without, it is refused."""
        self._rng = random.Random(seed)
        self.state = ScheduleState(mod, self._rng)
        self.state.draws = error_render_level != "none"
        self.trace = Trace()
        self._symbols: dict[Any, Any] = {}
        self._func: str | None = None
        programs = mod.prim_funcs()
        if "main" in programs:
            self._func = "main"
        elif len(programs) == 1:
            self._func = next(iter(programs))

    # ---- what stands now

    @property
    def mod(self) -> IRModule:
        """The module as it stands."""
        return self.state.module()

    @property
    def func_working_on(self) -> str | None:
        """Name of the function in which blocks are looked up by default."""
        return self._func

    def work_on(self, func_name: str) -> None:
        """Look up blocks in this function from now on. Raises ScheduleError E407 if it is not a tensor program."""
        self.state.root(func_name)
        self._func = func_name

    def show(self, **options: Any) -> None:
        """Print the module as script."""
        self.mod.show(**options)

    def get(self, rv: RandomVar) -> Any:
        """Return the value of a random variable: a Block with the regions it reads and writes, a For, or an integer. Raises
        ScheduleError E402 for one that is gone.
        """
        found = self._resolve(rv)
        if not isinstance(found, Sref):
            return found
        if not found.is_block:
            return found.loop
        block, cache = found.block, self.state.cache
        if ("shown", block) not in cache:
            reads, writes = regions(self.state, block)
            whole = block.reads is not None and block.writes is not None
            cache["shown", block] = block if whole else with_fields(block, reads=tuple(reads), writes=tuple(writes))
        return cache["shown", block]

    def get_sref(self, rv: BlockRV | LoopRV) -> Sref:
        """Return the reference behind a random variable. Raises ScheduleError E402 for one that is gone."""
        found = self._resolve(rv)
        assert isinstance(found, Sref)
        return found

    def can_decompose_padding(self, block: BlockRV, loop: LoopRV) -> bool:
        """True if ``decompose_padding`` applies. Nothing changes."""
        try:
            self.copy().run(ROWS["decompose_padding"], {"block": block, "loop": loop})
        except ScheduleError:
            return False
        return True

    def remove_rv(self, rv: RandomVar) -> None:
        """Forget a random variable."""
        self._symbols.pop(rv.expr if isinstance(rv, ExprRV) else rv, None)

    # ---- random numbers, copies

    def seed(self, seed: int) -> None:
        """Restart the sampling from a seed."""
        self._rng.seed(seed)

    def fork_seed(self) -> int:
        """Draw a seed for another schedule."""
        return self._rng.randrange(1, 2**31 - 1)

    def copy(self) -> Schedule:
        """Return an independent schedule at the same point; it knows the random variables of this one."""
        made = Schedule.__new__(Schedule)
        made.debug_mask, made.error_render_level = self.debug_mask, self.error_render_level
        made._func, made.tests = self._func, self.tests
        made._rng = random.Random(self.fork_seed())
        made.state, moved = self.state.copy(made._rng)
        made.trace = self.trace.copy()
        made._symbols = {rv: moved.get(v, v) if isinstance(v, Sref) else v for rv, v in self._symbols.items()}
        return made

    # ---- running primitives

    def run(self, row: Row, args: dict[str, Any], decision: Any = None) -> Any:
        """Run a primitive on arguments by name: the one entry of methods and replay. Raises ScheduleError."""
        positional, named = [], {}
        for key, parameter in row.signature.parameters.items():
            if key not in args:
                continue
            value = self._argument(row, key, args[key])
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += list(value)
            else:
                named[key] = value
        missing = [
            p.name for p in row.signature.parameters.values()
            if p.default is p.empty and p.kind is not p.VAR_POSITIONAL and p.name not in args and p.name != "decision"
        ]  # fmt: skip
        if missing:
            raise ScheduleError("E403", f"{row.name}: {missing[0]} is missing")
        if decision is not None:
            named["decision"] = self._argument(row, "decision", decision)
        if "func_name" in row.signature.parameters and named.get("func_name") is None:
            named["func_name"] = self._func
            args = {**args, "func_name": self._func}
        state = self.state
        changed = state.changed_underneath()
        if changed is not None:
            text = f"{row.name}: the module was changed underneath: its function {changed!r} is another one now"
            raise ScheduleError("E408", text, help="start a new schedule from the changed module, and replay the trace")
        state.begin()
        before = state.module() if self.debug_mask & CHECK_RESULT and row.kind not in (QUERY, SAMPLE) else None
        try:
            for key, convert in row.normalize.items():
                named[key] = convert(state, named.get(key), named)
                args = {**args, key: named[key]}
            with deep_recursion():
                made = None if run_at_mark(state, row, named) else row.apply(state, *positional, **named)
                if state.owning and row.kind not in (QUERY, SAMPLE):
                    require_owned(state)
                step_grade = "" if row.kind in (QUERY, SAMPLE) else self._grade(row, before)
        except BaseException as error:
            state.rollback()
            if isinstance(error, ScheduleError):
                error.locate(_place([*positional, *named.values()]))
            if isinstance(error, Refused):
                error.finish(row.name, state.function, self.error_render_level)
            raise
        state.commit()
        if self.debug_mask & CHECK_STATE:
            state.check()
            _require_well_formed(row.name, state.module())
        if isinstance(made, Sampled):
            made, decision = made.outputs, made.decision
        outputs = self._outputs(made)
        flat = tuple(outputs) if isinstance(outputs, list) else () if outputs is None else (outputs,)
        self.trace.append(Instruction(row, copied(args), flat, copied(decision), step_grade))
        return outputs

    def _grade(self, row: Row, before: IRModule | None) -> str:
        assumptions = self.state.assumptions
        if row.unsafe:
            return "unsafe"
        if not assumptions and before is None:
            return "proved"
        if assumptions and not self.tests:
            raise ScheduleError(
                "E404", f"it is not proved that {'; '.join(assumptions)}", help="a step that can be proved"
            )
        grade.check(self.state, assumptions)
        return "tested" if assumptions else "proved"

    def _argument(self, row: Row, key: str, value: Any) -> Any:
        """An argument as the primitive takes it; refused E403 when it is of the wrong kind."""
        resolved = self._resolved(value)
        variadic = row.signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL
        if variadic and not isinstance(value, (list, tuple)):
            raise ScheduleError("E403", f"{row.name}: {key} must be a list, got {value!r}")
        for given, item in zip(value, resolved) if variadic else [(value, resolved)]:
            if key not in row.normalize and not row.accepts[key](item):
                text = row.annotations[key]
                kind, source = KINDS.get(text, (text, None))
                raise ScheduleError("E403", f"{row.name}: {key} must be {kind}, got {given!r}", help=source)
        return resolved

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, RandomVar):
            return self._resolve(value)
        if type(value) in (list, tuple):
            return [self._resolved(item) for item in value]
        if type(value) is dict:
            return {self._resolved(k): self._resolved(v) for k, v in value.items()}
        return value

    def _resolve(self, rv: Any) -> Any:
        if isinstance(rv, ExprRV):
            missing = [v.name for v in free_vars(rv.expr) if v not in self._symbols]
            if missing:
                raise ScheduleError("E402", f"{missing[0]} is not a value of this schedule")
            value: Any = substitute(rv.expr, {v: to_scalar(self._symbols[v], "int64") for v in free_vars(rv.expr)})
            return int_value(value, value)
        found = self._symbols.get(rv) if isinstance(rv, RandomVar) else None
        if found is None:
            raise ScheduleError(
                "E402",
                f"{rv!r} is not a block or loop of this schedule",
                help="take it from get_block or get_loops of this schedule",
            )
        if found.node is None and not isinstance(found, Mark):
            what = "block" if isinstance(rv, BlockRV) else "loop"
            raise ScheduleError(
                "E402",
                f"the {what} {found.gone!r} no longer stands in the program: an earlier step replaced it",
                help="look it up again with get_block / get_loops, or use what the step returned",
            )
        return found

    def _outputs(self, made: Any) -> Any:
        if made is None:
            return None
        if isinstance(made, (list, tuple)):
            return [self._output(item) for item in made]
        return self._output(made)

    def _output(self, made: Any) -> RandomVar:
        if isinstance(made, Sref):
            rv: RandomVar = BlockRV(made.name) if made.is_block else LoopRV(made.name)
            self._symbols[rv] = made
            return rv
        value = ExprRV(f"v{len(self.trace.insts)}")
        self._symbols[value.expr] = made
        if isinstance(made, int) and isinstance(value.expr, Var):
            self.state.values[value.expr] = made
        return value

    if not TYPE_CHECKING:  # which would take any name for known

        def __getattr__(self, name: str) -> Any:
            """Primitives are methods of the class: what comes here is not known."""
            if name in INSTEAD:
                raise AttributeError(f"Schedule has no {name}; instead: {INSTEAD[name]}")
            near = suggest(name, ROWS)
            raise AttributeError(f"Schedule has no {name}" + (f"; {near}" if near else ""))


def _require_well_formed(name: str, mod: IRModule) -> None:
    """Raise InternalError E904 when a step left a module that the verifier refuses."""
    found = violations(mod)
    if found:
        raise InternalError("E904", f"the step {name} broke the module: {found[0]}") from found[0]


def _place(values: list[Any]) -> Span | None:
    """The place of the first loop or block among the arguments of a primitive."""
    nodes = [
        part.node
        for value in values
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, Sref)
    ]
    return next((span for node in nodes if (span := getattr(node, "span", None)) is not None), None)


def method(row: Row) -> Any:
    """The method of a primitive."""
    variadic = [p.name for p in row.signature.parameters.values() if p.kind is p.VAR_POSITIONAL]
    blocks = [name for name, kind in row.annotations.items() if kind in ("BlockRef", "ItemRef")]  # may be given by name

    @functools.wraps(row.apply)
    def call(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = row.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError("E717", f"{row.name}: {error}", help=f"{row.name}{row.signature}") from None
        bound.apply_defaults()
        given = dict(bound.arguments)
        decision = given.pop("decision", None)
        for name in variadic:
            given[name] = list(given[name])
        steps = len(self.trace.insts)
        try:
            for name in blocks:
                if isinstance(given.get(name), str):
                    given[name] = self.get_block(given[name])
            return self.run(row, given, decision)
        except UnityError:
            del self.trace.insts[steps:]
            raise

    call.__name__ = row.name
    call.__doc__ = row.doc
    call.__signature__ = row.signature  # type: ignore[attr-defined]
    return call


def install() -> None:
    """Make every primitive of the table a method (called once all families are imported)."""
    for row in ROWS.values():
        setattr(Primitives, row.name, method(row))
