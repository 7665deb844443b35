"""The context of passes when they run: instruments, and which passes are left out. Not here: passes, pipelines (``passes.py``).

Invariant: without a context entered by ``with``, the environment's options decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.module import IRModule
from ...support.arguments import checked, guarded_class
from ...support.context_stack import ContextStack
from ...support.errors import PassError, UnityError
from ...support.lazy import load
from ...support.options import bool_option, int_option, str_option
from ...support.recursion import deep_recursion
from .instruments import (
    DumpInstrument,
    Instrument,
    PrintInstrument,
    TimeInstrument,
    VerifyInstrument,
    internal_error,
)  # fmt: skip

if TYPE_CHECKING:
    from .passes import Pass

PASSES: dict[str, Pass] = {}
"""Every pass by name."""
OTHER_NAMES: dict[str, str] = {}
"""Other names of passes: TVM's, from ``unity.relax.transform``."""

BY_OPTION: dict[str, Callable[[], Instrument]] = {}
"""Instruments that stand further right, by the option that asks for them."""


def _default_instruments() -> tuple[Instrument, ...]:
    found: list[Instrument] = []
    if int_option("UNITY_VERIFY") >= 2:
        found.append(VerifyInstrument())
    if folder := str_option("UNITY_DUMP"):
        found.append(_DUMPS.setdefault(folder, DumpInstrument(Path(folder))))
    if name := str_option("UNITY_PRINT"):
        found.append(PrintInstrument(name))
    if bool_option("UNITY_TIME"):
        found.append(TimeInstrument(show=True))
    if bool_option("UNITY_CHECK"):
        load("names")
        found.append(BY_OPTION["UNITY_CHECK"]())
    return tuple(found)


_DUMPS: dict[str, DumpInstrument] = {}
"""One dump per folder, so that the numbers go on over all pipelines of a process."""


def canonical_name(name: str) -> str:
    """The name of a pass that may be given by another one ("FuseOps")."""
    if name not in PASSES:
        load("names")
    return OTHER_NAMES.get(name.removeprefix("relax."), name)


USE_CUDA_GRAPH = "relax.backend.use_cuda_graph"


@guarded_class
class PassContext:
    """Instruments around passes: ``with PassContext(TimeInstrument()): ...``. Without one, the options decide.

    As in TVM: ``disabled_pass`` names passes that do not run, ``required_pass`` passes that run whatever their ``opt_level``,
    others run up to the context's ``opt_level``; ``instruments=[...]`` adds to the instruments in place.
    """

    @checked
    def __init__(
        self,
        *watching: Instrument,
        opt_level: int = 2,
        required_pass: Collection[str] = (),
        disabled_pass: Collection[str] = (),
        instruments: Sequence[Instrument] = (),
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Raises PassError E502 for an unknown name, E692 for another configuration than ``relax.backend.use_cuda_graph``."""
        unknown = [name for name in config or () if name != USE_CUDA_GRAPH]
        if unknown:
            raise PassError(
                "E692", f"a PassContext has no configuration {', '.join(unknown)}",
                help=f"it has {USE_CUDA_GRAPH}; options of passes: with_options; of the package: docs/options.md",
            )  # fmt: skip
        self.cuda_graph = bool((config or {}).get(USE_CUDA_GRAPH, False))
        """True if functions for a device are to be captured as CUDA graphs when they run."""
        self.instruments: Sequence[Instrument] = (*watching, *instruments)
        self._new: list[Instrument] = []
        """Those no context around has."""
        self.opt_level = opt_level
        self.required, self.disabled = [frozenset(map(canonical_name, n)) for n in (required_pass, disabled_pass)]
        for name in sorted((self.required | self.disabled) - PASSES.keys()):
            raise PassError("E502", f"no pass {name!r}", help=f"passes are: {', '.join(sorted(PASSES))}")

    @property
    def is_special(self) -> bool:
        """True if it watches passes, or leaves some out."""
        return bool(self.instruments or self.required or self.disabled) or self.opt_level != 2

    def enables(self, step: Pass) -> bool:
        """True if the name and the level of the pass ``step`` allow it to run here."""
        return step.name not in self.disabled and (step.name in self.required or step.opt_level <= self.opt_level)

    @staticmethod
    def current() -> PassContext:
        """The innermost context, else one made from the environment options."""
        return _ENTERED.top or PassContext(*_default_instruments())

    def __enter__(self) -> PassContext:
        around = {id(i) for context in _ENTERED.values for i in context.instruments}
        self._new = [i for i in self.instruments if id(i) not in around]
        _ENTERED.push(self)
        for instrument in self._new:
            instrument.enter_pass_ctx()
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.pop()
        for instrument in self._new:
            instrument.exit_pass_ctx()

    def run(self, step: Pass, mod: IRModule) -> IRModule:
        """Run the pass ``step`` on ``mod``, unless this context leaves it out.

        An error that is not a UnityError becomes an InternalError E903 naming the pass. Raises PassError E690 if the result is
        not a module.
        """
        if not isinstance(mod, IRModule):
            raise PassError(
                "E690", f"pass {step.name} takes an IRModule, got {type(mod).__name__}",
                help="unity.IRModule.from_expr(func) makes a module of a function",
            )  # fmt: skip
        if not self.enables(step) or not all([i.should_run(step, mod) for i in self.instruments]):
            return mod
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
            raise internal_error(
                "E903", f"pass {step.name} failed: {type(error).__name__}: {error}", mod, step, error
            ) from error
        seconds = time.perf_counter() - start
        for instrument in self.instruments:
            instrument.after(step, mod, result, seconds)
        return result

    def _failed(self, step: Pass, mod: IRModule) -> None:
        for instrument in self.instruments:
            instrument.failed(step, mod)


_ENTERED: ContextStack[PassContext] = ContextStack("pass contexts")


def watched_by(*more: Instrument) -> PassContext:
    """The context in force with more instruments."""
    outer = PassContext.current()
    return PassContext(
        *outer.instruments, *more,
        opt_level=outer.opt_level, required_pass=outer.required, disabled_pass=outer.disabled,
    )  # fmt: skip


@contextmanager
def traced_passes() -> Iterator[TimeInstrument]:
    """Collect the seconds of the passes run inside."""
    timer = TimeInstrument()
    with watched_by(timer):
        yield timer
