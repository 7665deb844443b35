"""Instruments that watch passes run: dumps, prints, times, the verifier. Not here: translation validation
(``transform/validation/``), passes, contexts.

Invariant: an instrument never changes a module; one that finds something wrong raises an error that names the pass.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ffi.tensor import Tensor
from ...ir.expr import Constant, Var
from ...ir.module import IRModule
from ...ir.verifier.verifier import verify
from ...ir.walk import rewrite
from ...support.arguments import callers_line
from ...support.errors import InternalError, UnityError
from ...support.options import made_folder
from ...support.recursion import deep_recursion

if TYPE_CHECKING:
    from .passes import Pass

_HEADER = '''"""{title}"""

from unity.script import ir as I, relax as R, tir as T

'''
_CONSTANTS = '''"""The large constants of the modules in this folder, by name."""

from pathlib import Path

from unity.transform.validation.dumps import constants

globals().update(constants(Path(__file__).parent))
'''
LARGE = 2048
"""Constants of more bytes are dumped beside the scripts, once."""
_RUNNER = '''"""Runs the modules of this folder on generated inputs and says where results change: python run.py [files]"""

import sys
from pathlib import Path

from unity.transform.validation.dumps import main

raise SystemExit(main(Path(__file__).parent, sys.argv[1:]))
'''


class Instrument:
    """Watches passes; override what is needed."""

    def enter_pass_ctx(self) -> None:
        """Called where a ``with PassContext(...)`` that has it begins."""

    def exit_pass_ctx(self) -> None:
        """Called where that ends."""

    def should_run(self, step: Pass, mod: IRModule) -> bool:
        """Return False to leave out the pass ``step`` on ``mod``."""
        return True

    def before(self, step: Pass, mod: IRModule) -> None:
        """Called before the pass ``step`` runs on ``mod``."""

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        """Called after the pass ``step``, which took ``seconds``; ``new`` is ``old`` if it changed nothing."""

    def failed(self, step: Pass, mod: IRModule) -> None:
        """Called instead of ``after`` if the pass ``step`` raises an error on ``mod``."""


@dataclass(slots=True)
class DumpInstrument(Instrument):
    """Writes ``NNN_pass.py`` for each pass that changed the module (``UNITY_DUMP``), and ``NNN_input.py`` where modules come in.

    Each file is a Python program holding the module; ``run.py`` beside them runs them all on the same inputs. Large constants
    lie in ``constants/``, each once.
    """

    folder: Path
    count: int = -1
    last: IRModule | None = None
    constants: dict[int, tuple[str, Tensor]] = field(default_factory=dict)

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        if self.count < 0:
            made_folder(self.folder)
            (self.folder / "run.py").write_text(_RUNNER)
        if old is not self.last:
            self._write("input", "The module as it came in.", old)
        self.count += 1
        self.last = new
        if new is not old:
            self.count -= 1
            self._write(step.name, f"After pass {step}.", new)

    def _write(self, name: str, title: str, mod: IRModule) -> None:
        self.count += 1
        used: dict[str, Var] = {}

        def by_name(node: Constant) -> Any:
            if node.data.numpy().nbytes <= LARGE:
                return node
            found = self._constant(node.data)
            return used.setdefault(found, Var(found, node.ty))

        with deep_recursion():
            text = str(rewrite(mod, {Constant: by_name}))
        header = _HEADER.format(title=title.replace('"""', "'''"))
        if used:
            header += f"from constants import {', '.join(used)}\n\n"
        (self.folder / f"{self.count:03d}_{name}.py").write_text(header + text + "\n")

    def _constant(self, data: Tensor) -> str:
        """Name of a constant, which is saved when it is met first."""
        found = self.constants.get(id(data))
        if found is None:
            found = self.constants[id(data)] = (f"const_{len(self.constants)}", data)
            place = self.folder / "constants"
            place.mkdir(exist_ok=True)
            (self.folder / "constants.py").write_text(_CONSTANTS)
            array = np.ascontiguousarray(data.numpy())
            np.save(place / f"{found[0]}.{data.dtype}.npy", array.reshape(-1).view(np.uint8).reshape(*array.shape, -1))
        return found[0]


@dataclass(slots=True)
class PrintInstrument(Instrument):
    """Prints the module before and after passes, to standard error (``UNITY_PRINT``): names with commas, ``*`` for all."""

    name: str

    def _wanted(self, step: Pass) -> bool:
        return self.name == "*" or step.name in self.name.replace(" ", "").split(",")

    def before(self, step: Pass, mod: IRModule) -> None:
        if self._wanted(step):
            print(f"# ---- before {step}\n{mod}", file=sys.stderr)

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        if self._wanted(step):
            print(f"# ---- after {step}" + (f"\n{new}" if new is not old else ": no change"), file=sys.stderr)


@dataclass(slots=True)
class PassTime:
    """One run of a pass: its seconds, and the passes it ran inside."""

    name: str
    seconds: float = 0.0
    inner: list[PassTime] = field(default_factory=list)


@dataclass(slots=True)
class TimeInstrument(Instrument):
    """Collects seconds per pass; prints each as it ends when ``show`` (``UNITY_TIME``). ``render`` gives them as a tree."""

    show: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    runs: list[PassTime] = field(default_factory=list)
    open: list[PassTime] = field(default_factory=list)

    def before(self, step: Pass, mod: IRModule) -> None:
        self.open.append(PassTime(step.name))

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        self.seconds[step.name] = self.seconds.get(step.name, 0.0) + seconds
        run = self._close()
        run.seconds = seconds
        if self.show:
            print(f"{seconds * 1e3:9.3f} ms  {'  ' * len(self.open)}{step}", file=sys.stderr)

    def failed(self, step: Pass, mod: IRModule) -> None:
        self._close()

    def _close(self) -> PassTime:
        run = self.open.pop()
        (self.open[-1].inner if self.open else self.runs).append(run)
        return run

    def render(self) -> str:
        """The passes in order with milliseconds and share of the whole, passes run inside others indented."""
        total = sum([r.seconds for r in self.runs])
        lines = [f"{total * 1e3:9.3f} ms  100.0 %  all passes"]
        stack = [(r, 1) for r in reversed(self.runs)]
        while stack:
            run, depth = stack.pop()
            share = 100 * run.seconds / total if total else 0.0
            lines.append(f"{run.seconds * 1e3:9.3f} ms  {share:5.1f} %  {'  ' * depth}{run.name}")
            stack += [(r, depth + 1) for r in reversed(run.inner)]
        return "\n".join(lines)


@dataclass(slots=True)
class VerifyInstrument(Instrument):
    """Runs a verifier on what each pass hands back; an error becomes an InternalError E904 that names the pass."""

    verify: Callable[[IRModule], None] = verify

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        if new is old:
            return
        try:
            self.verify(new)
        except UnityError as error:
            raise internal_error("E904", f"pass {step.name} broke the module: {error}", old, step) from error


def internal_error(code: str, message: str, mod: IRModule, step: Pass, error: Exception | None = None) -> InternalError:
    """An InternalError that says where the module before the pass is saved; passes of the package are asked to be reported, unless
    the error that it follows came from code of the caller."""
    with tempfile.NamedTemporaryFile("w", prefix="unity_failed_", suffix=".py", delete=False) as file:
        file.write(str(mod) + "\n")
    own = step.function.__module__.startswith(__name__.partition(".")[0] + ".") and not (error and callers_line(error))
    hint = f"the module before the pass is saved in {file.name}{'; please report it' if own else ''}"
    return InternalError(code, message, help=hint)
