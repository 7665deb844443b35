"""Passes: functions IRModule -> IRModule with a name and options, pipelines of them, and what may watch them run.

Here: the decorators, ``Pipeline`` (prints and parses as ``"fuse_ops{max_depth=8},legalize"``), ``PassContext`` with its
instruments. Not here: any pass. Invariant: a pass that changes nothing hands back the same object.
"""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace as replace_fields
from pathlib import Path
from typing import Any

from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule
from ..ir.verify import verify
from ..support.deep import deep_recursion
from ..support.errors import PassError, UnityError
from ..support.late import late_function, load
from ..support.options import bool_option, int_option, str_option
from .instruments import (
    DumpInstrument,
    Instrument,
    PrintInstrument,
    TimeInstrument,
    VerifyInstrument,
    internal_error,
)  # fmt: skip

PASSES: dict[str, Pass] = {}
"""Every pass by name."""


@dataclass(slots=True, frozen=True)
class Pass:
    """A named step. Calling it on a module runs it under the current PassContext; ``apply`` is the bare function."""

    name: str
    function: Callable[..., Any]
    options: Any = None
    level: str = "module"
    doc: str = ""

    def __call__(self, mod: IRModule) -> IRModule:
        return PassContext.current().run(self, mod)

    def apply(self, mod: IRModule) -> IRModule:
        """Run without instruments."""
        if self.level == "module":
            result = self.function(mod) if self.options is None else self.function(mod, self.options)
            assert isinstance(result, IRModule), f"pass {self.name} returned {type(result).__name__}"
            return result
        kind = PrimFunc if self.level == "prim_func" else Function
        changes = {}
        for name, member in mod.functions.items():
            if type(member) is kind:
                new = self.on(member)
                if new is not member:
                    changes[name] = new
        return mod.with_functions(changes) if changes else mod

    def on(self, func: Any) -> Any:
        """Run the bare pass of one function on it."""
        return self.function(func) if self.options is None else self.function(func, self.options)

    def with_options(self, **options: Any) -> Pass:
        """The same pass with some options changed. Raises PassError E501 for an option it does not have."""
        known = [f.name for f in fields(self.options)] if self.options is not None else []
        for name in options:
            if name not in known:
                raise PassError(
                    "E501", f"pass {self.name} has no option {name!r}", help=f"it has: {', '.join(known) or 'none'}"
                )
        return replace_fields(self, options=replace_fields(self.options, **options)) if options else self

    def __str__(self) -> str:
        changed = []
        for f in fields(self.options) if self.options is not None else ():
            value = getattr(self.options, f.name)
            if value != (f.default if f.default_factory is MISSING else f.default_factory()):
                changed.append(f"{f.name}={value!r}")
        return f"{self.name}{{{','.join(changed)}}}" if changed else self.name


def _origin(step: Pass) -> tuple[str, str]:
    """Where a pass is defined: module and name of its function."""
    return step.function.__module__, step.function.__qualname__


def _decorator(level: str, name: str | None, options: type | None) -> Callable[[Callable[..., Any]], Pass]:
    def make(function: Callable[..., Any]) -> Pass:
        made = Pass(name or function.__name__, function, options() if options else None, level, function.__doc__ or "")
        known = PASSES.get(made.name)
        if known is not None and _origin(known) != _origin(made):  # a notebook's cell may run twice
            raise PassError(
                "E505", f"a pass named {made.name!r} exists already, in {known.function.__module__}",
                help='give yours a name of its own: @module_pass(name="my.pass")',
            )  # fmt: skip
        PASSES[made.name] = made
        return made

    return make


def module_pass(*, name: str | None = None, options: type | None = None) -> Callable[[Callable[..., IRModule]], Pass]:
    """Make a pass of a function ``IRModule [, options] -> IRModule``; ``options`` is a frozen dataclass with defaults."""
    return _decorator("module", name, options)


def prim_func_pass(
    *, name: str | None = None, options: type | None = None
) -> Callable[[Callable[..., PrimFunc]], Pass]:
    """Make a pass of a function ``PrimFunc [, options] -> PrimFunc``, run on each tensor program."""
    return _decorator("prim_func", name, options)


def function_pass(*, name: str | None = None, options: type | None = None) -> Callable[[Callable[..., Function]], Pass]:
    """Make a pass of a function ``Function [, options] -> Function``, run on each graph function."""
    return _decorator("function", name, options)


@dataclass(slots=True, frozen=True)
class Pipeline:
    """Passes in order; a pass itself as far as calling goes."""

    passes: tuple[Pass, ...]

    def __call__(self, mod: IRModule) -> IRModule:
        context = PassContext.current()
        for step in self.passes:
            mod = context.run(step, mod)
        return mod

    def __str__(self) -> str:
        return ",".join(str(step) for step in self.passes)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def without(self, *names: str) -> Pipeline:
        """The pipeline with the passes of these names left out."""
        return Pipeline(tuple(p for p in self.passes if p.name not in names))

    def insert_after(self, name: str, *steps: Pass) -> Pipeline:
        """The pipeline with steps put behind the pass ``name``. Raises PassError E502 when it has none."""
        index = next((i for i, p in enumerate(self.passes) if p.name == name), -1)
        if index < 0:
            raise PassError("E502", f"the pipeline has no pass {name!r}", help=f"it is: {self}")
        return Pipeline(self.passes[: index + 1] + steps + self.passes[index + 1 :])

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Read a printed pipeline. Raises PassError E502 for an unknown pass, E501 for a wrong option."""
        steps = []
        load("passes")
        for item in _split(text):
            name, brace, rest = item.partition("{")
            found = PASSES.get(name.strip())
            if found is None or (brace and not rest.endswith("}")):
                raise PassError("E502", f"no pass {item!r}", help=f"passes are: {', '.join(sorted(PASSES))}")
            options = {}
            for pair in _split(rest[:-1]) if brace else ():
                key, _, value = pair.partition("=")
                try:
                    options[key.strip()] = ast.literal_eval(value.strip())
                except (ValueError, SyntaxError):
                    raise PassError("E501", f"option {pair!r} of {name} is not name=literal") from None
            steps.append(found.with_options(**options))
        return Pipeline(tuple(steps))


def _split(text: str) -> list[str]:
    """Parts between commas that stand outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


_check_from_options = late_function("unity.transform.check", "check_from_options")


def _default_instruments() -> tuple[Instrument, ...]:
    found: list[Instrument] = []
    if int_option("UNITY_VERIFY") >= 2:
        found.append(VerifyInstrument(verify))
    if folder := str_option("UNITY_DUMP"):
        found.append(_DUMPS.setdefault(folder, DumpInstrument(Path(folder))))
    if name := str_option("UNITY_PRINT"):
        found.append(PrintInstrument(name))
    if bool_option("UNITY_TIME"):
        found.append(TimeInstrument(show=True))
    if bool_option("UNITY_CHECK"):
        found.append(_check_from_options())
    return tuple(found)


_DUMPS: dict[str, DumpInstrument] = {}
"""One dump per folder, so that the numbers go on over all pipelines of a process."""


class _Entered(threading.local):
    """Contexts entered by ``with``, of this thread."""

    def __init__(self) -> None:
        self.contexts: list[PassContext] = []


_ENTERED = _Entered()


class PassContext:
    """Instruments around passes: ``with PassContext(TimeInstrument()): ...``. Without one, the options decide."""

    def __init__(self, *instruments: Instrument) -> None:
        self.instruments: Sequence[Instrument] = instruments

    @staticmethod
    def current() -> PassContext:
        """The innermost context, else one made from the environment options."""
        stack = _ENTERED.contexts
        return stack[-1] if stack else PassContext(*_default_instruments())

    def __enter__(self) -> PassContext:
        _ENTERED.contexts.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.contexts.remove(self)

    def run(self, step: Pass, mod: IRModule) -> IRModule:
        """Run one pass. An error that is not a UnityError becomes an InternalError E903 naming the pass."""
        for instrument in self.instruments:
            instrument.before(step, mod)
        start = time.perf_counter()
        try:
            with deep_recursion():
                result = step.apply(mod)
        except UnityError:
            self._failed(step, mod)
            raise
        except Exception as error:  # the one place where any failure inside a pass gets the pass's name
            self._failed(step, mod)
            raise internal_error("E903", f"pass {step.name} failed: {type(error).__name__}: {error}", mod) from error
        seconds = time.perf_counter() - start
        for instrument in self.instruments:
            instrument.after(step, mod, result, seconds)
        return result

    def _failed(self, step: Pass, mod: IRModule) -> None:
        for instrument in self.instruments:
            instrument.failed(step, mod)


@contextmanager
def traced_passes() -> Iterator[TimeInstrument]:
    """Collect the seconds of the passes run inside."""
    timer = TimeInstrument()
    with PassContext(*PassContext.current().instruments, timer):
        yield timer


__all__ = [
    "PASSES", "DumpInstrument", "Instrument", "Pass", "PassContext", "Pipeline", "PrintInstrument",
    "TimeInstrument", "VerifyInstrument", "function_pass", "module_pass", "prim_func_pass", "traced_passes",
]  # fmt: skip
