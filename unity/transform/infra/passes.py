"""Passes: functions IRModule -> IRModule with a name and options, the decorators that make them, and pipelines of them.

``Pipeline`` prints and parses as ``"fuse_ops{max_depth=8},legalize"``. Not here: any pass, what is around them when they run
(``context.py``). Invariant: a pass that changes nothing hands back the same object.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace as replace_fields
from typing import Any, Protocol, overload

from ...ir.expr import DataflowBlock
from ...ir.function import Function, PrimFunc
from ...ir.module import IRModule
from ...ir.walk import rewrite
from ...support.arguments import guarded_class
from ...support.errors import PassError, UnityError
from ...support.lazy import load
from .context import PASSES, PassContext, canonical_name, traced_passes
from .instruments import DumpInstrument, Instrument, PrintInstrument, TimeInstrument, VerifyInstrument


@guarded_class
@dataclass(slots=True, frozen=True)
class Pass:
    """A named step. Calling it on a module runs it under the current PassContext; ``apply`` is the bare function."""

    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those that differ from the defaults of the function's keyword parameters."""
    level: str = "module"
    doc: str = ""
    opt_level: int = 0
    contextual: bool = False
    """The function is written as in TVM: ``(mod, ctx)``, ``(func, mod, ctx)``."""

    @property
    def info(self) -> Pass:
        """The record that TVM has for a pass: ``info.name``, ``info.opt_level`` are the pass's."""
        return self

    def __call__(self, mod: IRModule) -> IRModule:
        """Run on a module under the current PassContext. Raises PassError E690 for what is not a module."""
        return PassContext.current().run(self, mod)

    def apply(self, mod: IRModule) -> IRModule:
        """Run the pass on ``mod`` without instruments. Raises PassError E690 if its result is not a module."""
        context = PassContext.current() if self.contextual else None
        if self.level == "module":
            result: IRModule = self._checked(self.function(mod, context) if self.contextual else self.on(mod), IRModule)
            return result
        kind = PrimFunc if self.level == "prim_func" else Function

        def one(part: Any) -> Any:
            try:
                made = self.function(part, mod, context) if self.contextual else self.on(part)
            except UnityError as error:
                error.locate(getattr(part, "span", None))
                raise
            return self._checked(made, DataflowBlock if self.level == "dataflow_block" else kind)

        def each(fn: Any) -> Any:
            return rewrite(fn, {DataflowBlock: one}) if self.level == "dataflow_block" else one(fn)

        return mod.with_functions({name: each(fn) for name, fn in mod.functions.items() if type(fn) is kind})

    def _checked(self, made: Any, kind: type) -> Any:
        if isinstance(made, kind):
            return made
        raise PassError(
            "E690", f"pass {self.name} returned {type(made).__name__}, expected {kind.__name__}",
            help="a pass returns what it was given where it changes nothing",
        )  # fmt: skip

    def on(self, func: Any) -> Any:
        """Run the bare pass on one function ``func``."""
        return self.function(func, **self.options)

    def with_options(self, **options: Any) -> Pass:
        """The same pass with some options changed. Raises PassError E501 for an option it does not have."""
        known = self.defaults
        for name in options:
            if name not in known:
                raise PassError(
                    "E501", f"pass {self.name} has no option {name!r}", help=f"it has: {', '.join(known) or 'none'}"
                )
        changed = {name: value for name, value in {**self.options, **options}.items() if value != known[name]}
        return replace_fields(self, options=changed) if options else self

    def __str__(self) -> str:
        if not self.options:
            return self.name
        changed = [f"{name}={self.options[name]!r}" for name in self.defaults if name in self.options]
        return f"{self.name}{{{','.join(changed)}}}" if changed else self.name

    @property
    def defaults(self) -> dict[str, Any]:
        """The options that the pass has, keyword parameters of its function, with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _origin(step: Pass) -> tuple[str, str]:
    """The place of a pass's definition: module and name of its function."""
    return step.function.__module__, step.function.__qualname__


_METHODS = {"module": "transform_module", "dataflow_block": "transform_dataflowblock"}
"""The name of the one method of a class that is a pass, as in TVM; ``transform_function`` else."""
_OWN_ARGUMENTS = {"module": 1}
"""Positional parameters of a pass besides what TVM's take more: the module; ``func, mod`` else."""


class _Decorator(Protocol):
    """A decorator that makes a pass of a function, and of a class a function that gives passes."""

    @overload
    def __call__(self, function: type, /) -> Callable[..., Pass]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[..., Any], /) -> Pass: ...


def _decorator(level: str, name: str | None, opt_level: int) -> _Decorator:
    def named(function: Callable[..., Any], doc: str | None, title: str) -> Pass:
        contextual = _required(function) > _OWN_ARGUMENTS.get(level, 2)
        return Pass(title, function, {}, level, doc or "", opt_level, contextual)

    def make(function: Any) -> Any:
        title = name or function.__name__
        if isinstance(function, type):

            def create(*args: Any, **kwargs: Any) -> Pass:
                method = getattr(function(*args, **kwargs), _METHODS.get(level, "transform_function"))
                return named(method, function.__doc__, title)

            create.__name__, create.__doc__ = title, function.__doc__
            return create
        made = named(function, function.__doc__, title)
        known = PASSES.get(made.name)
        if known is not None and _origin(known) != _origin(made):  # a notebook's cell may run twice
            raise PassError(
                "E505", f"a pass named {made.name!r} exists already, in {known.function.__module__}",
                help='give yours a name of its own: @module_pass(name="my.pass")',
            )  # fmt: skip
        PASSES[made.name] = made
        return made

    return make


def _required(function: Callable[..., Any]) -> int:
    """Number of positional parameters without default."""
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return len([p for p in parameters if p.kind in places and p.default is inspect.Parameter.empty])


def module_pass(*, name: str | None = None, opt_level: int = 0) -> _Decorator:
    """Make a pass of a function ``IRModule [, *, options] -> IRModule``; or, as in TVM, of ``(mod, ctx)`` or a class with a method
    ``transform_module(mod, ctx)``, whose calls return passes.

    Keyword parameters of the function, with their defaults, are options of the pass. ``name``: the pass's name, default that of
    the function. ``opt_level``: least level of a PassContext under which the pass runs.
    """
    return _decorator("module", name, opt_level)


def prim_func_pass(*, name: str | None = None, opt_level: int = 0) -> _Decorator:
    """Make a pass of a function ``PrimFunc [, *, options] -> PrimFunc``, run on each tensor program; as in TVM, of ``(func, mod,
    ctx)`` or a class with a method ``transform_function``. ``name``, ``opt_level``: as in ``module_pass``.
    """
    return _decorator("prim_func", name, opt_level)


def function_pass(*, name: str | None = None, opt_level: int = 0) -> _Decorator:
    """Make a pass of a function ``Function [, *, options] -> Function``, run on each graph function; as in TVM, of ``(func, mod,
    ctx)`` or a class with a method ``transform_function``. ``name``, ``opt_level``: as in ``module_pass``.
    """
    return _decorator("function", name, opt_level)


def dataflowblock_pass(*, name: str | None = None, opt_level: int = 0) -> _Decorator:
    """Make a pass of a function ``DataflowBlock [, *, options] -> DataflowBlock``, run on each block of graph functions; or, as in
    TVM, of ``(block, mod, ctx)`` or a class with a method ``transform_dataflowblock``. ``name``, ``opt_level``: as in
    ``module_pass``.
    """
    return _decorator("dataflow_block", name, opt_level)


@guarded_class
@dataclass(slots=True, frozen=True, init=False)
class Pipeline:
    """Passes in order; a pass itself as far as calling goes. ``Sequential`` is TVM's name.

    ``passes``: passes and pipelines. Raises PassError E690 for what is neither.
    """

    passes: tuple[Pass, ...]

    def __init__(self, passes: Iterable[Pass | Pipeline]) -> None:
        steps: list[Pass] = []
        for item in passes if isinstance(passes, Iterable) else (passes,):
            if not isinstance(item, (Pass, Pipeline)):
                raise PassError(
                    "E690", f"a pipeline is made of passes, got {type(item).__name__}",
                    help="@module_pass(), @function_pass() and @prim_func_pass() make passes of functions",
                )  # fmt: skip
            steps += item.nested() if isinstance(item, Pipeline) else (item,)
        object.__setattr__(self, "passes", tuple(steps))

    def __call__(self, mod: IRModule) -> IRModule:
        context = PassContext.current()
        for step in self.passes:
            mod = context.run(step, mod)
        return mod

    def nested(self) -> tuple[Pass, ...]:
        """The passes that stand for the pipeline inside another one."""
        return self.passes

    def __str__(self) -> str:
        return ",".join(str(step) for step in self.passes)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def without(self, *names: str) -> Pipeline:
        """The pipeline with the passes of these names left out. Raises PassError E502 when it has none of a name."""
        for name in names:
            self._index(name)
        return Pipeline(tuple(p for p in self.passes if p.name not in names))

    def insert_after(self, name: str, *steps: Pass) -> Pipeline:
        """The pipeline with steps put after the pass ``name``. Raises PassError E502 when it has none."""
        index = self._index(name)
        return Pipeline(self.passes[: index + 1] + steps + self.passes[index + 1 :])

    def _index(self, name: str) -> int:
        """Place of the first pass of a name. Raises PassError E502."""
        index = next((i for i, p in enumerate(self.passes) if p.name == name), -1)
        if index < 0:
            raise PassError("E502", f"the pipeline has no pass {name!r}", help=f"it is: {self}")
        return index

    @staticmethod
    def of(given: Pipeline | Iterable[Pass | Pipeline] | str) -> Pipeline:
        """A pipeline as it is, of passes in order, or of its text. Raises PassError E501, E502, E690."""
        if isinstance(given, Pipeline):
            return given
        return Pipeline.parse(given) if isinstance(given, str) else Pipeline(given)

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Read a printed pipeline. Raises PassError E502 for an unknown pass, E501 for a wrong option."""
        steps = []
        load("names")
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


NO_PASSES = Pipeline(())


@guarded_class
class Sequential(Pipeline):
    """A pipeline as TVM makes it. Inside another one its passes have at least its ``opt_level``, and those named in ``required``
    run before them."""

    __slots__ = ("name", "opt_level", "required")
    name: str
    opt_level: int
    required: tuple[str, ...]

    def __init__(
        self,
        passes: Iterable[Pass | Pipeline] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
    ) -> None:
        super().__init__(passes)
        for field_name, value in (("name", name), ("opt_level", opt_level), ("required", tuple(required or ()))):
            object.__setattr__(self, field_name, value)

    def nested(self) -> tuple[Pass, ...]:
        """The passes that stand for the pipeline inside another one."""
        before = Pipeline.parse(",".join([canonical_name(name) for name in self.required])).passes
        return (*before, *[replace_fields(p, opt_level=max(p.opt_level, self.opt_level)) for p in self.passes])


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


__all__ = [
    "PASSES", "DumpInstrument", "Instrument", "Pass", "PassContext", "Pipeline", "PrintInstrument", "Sequential",
    "TimeInstrument", "VerifyInstrument", "dataflowblock_pass", "function_pass", "module_pass", "prim_func_pass", "traced_passes",
]  # fmt: skip
