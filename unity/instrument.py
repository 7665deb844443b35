"""TVM's names for what watches passes: ``@pass_instrument`` and its ready ones. The house's own are in
``transform/infra/instruments.py``.

``with PassContext(instruments=[PassTimingInstrument(), Mine()])``. Not here: contexts, passes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .ir.module import IRModule
from .support.arguments import make_public
from .support.errors import PassError
from .transform.infra.instruments import DumpInstrument, Instrument, PrintInstrument, TimeInstrument
from .transform.infra.passes import Pass, module_pass

_METHODS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")


def pass_instrument(cls: type) -> Any:
    """Decorator: a class with some of ``enter_pass_ctx(self)``, ``exit_pass_ctx(self)``, ``should_run(self, mod, info)``,
    ``run_before_pass(self, mod, info)``, ``run_after_pass(self, mod, info)`` becomes an instrument; ``info`` is the pass, with its
    ``name`` and ``opt_level``. Raises PassError E746 for a class with none of them.
    """
    found = {name: getattr(cls, name) for name in _METHODS if hasattr(cls, name)}
    if not found:
        raise PassError(
            "E746", f"{cls.__name__} has no method of an instrument", help=f"it may have: {', '.join(_METHODS)}"
        )

    class Watching(cls, Instrument):  # type: ignore[misc]
        def enter_pass_ctx(self) -> None:
            if "enter_pass_ctx" in found:
                found["enter_pass_ctx"](self)

        def exit_pass_ctx(self) -> None:
            if "exit_pass_ctx" in found:
                found["exit_pass_ctx"](self)

        def should_run(self, step: Pass, mod: IRModule) -> bool:
            return bool(found["should_run"](self, mod, step)) if "should_run" in found else True

        def before(self, step: Pass, mod: IRModule) -> None:
            if "run_before_pass" in found:
                found["run_before_pass"](self, mod, step)

        def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
            if "run_after_pass" in found:
                found["run_after_pass"](self, new, step)

    Watching.__name__ = Watching.__qualname__ = cls.__name__
    Watching.__doc__ = cls.__doc__
    return Watching


PassTimingInstrument = TimeInstrument


class PrintBeforeAll(PrintInstrument):
    """Prints the module before each pass, to standard error."""

    def __init__(self) -> None:
        super().__init__("*")

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        """Nothing."""


class PrintAfterAll(PrintInstrument):
    """Prints the module after each pass, to standard error."""

    def __init__(self) -> None:
        super().__init__("*")

    def before(self, step: Pass, mod: IRModule) -> None:
        """Nothing."""


def DumpIR(dump_dir: str | Path) -> DumpInstrument:
    """Writes a numbered script per pass that changed the module."""
    return DumpInstrument(Path(dump_dir))


def PrintIR(header: str = "") -> Pass:
    """A pass that prints the module under a header and leaves it as it is."""

    @module_pass(name="print_ir")
    def print_ir(mod: IRModule) -> IRModule:
        """Print the module."""
        print(f"# {header}\n{mod}" if header else mod)
        return mod

    return print_ir


__all__ = ["DumpIR", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll", "PrintIR", "pass_instrument"]

make_public(globals(), __all__)
