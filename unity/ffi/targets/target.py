"""Targets: what code is generated for. Written ``Target("llvm -mcpu=znver4")``, a dict, a tag, or ``Target("llvm")``.

Every target has a processor: the one that its code is for, or that of the host around another device. Its features decide, never
its name: without one it is that of ``UNITY_TARGET``, else this machine's. Targets are immutable and compare by value. Invariant:
code that is to run in this process is never for more than this machine has (`runnable_processor`, `require_processor` of the VM).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any

from ...support.context_stack import ContextStack
from ...support.errors import CodegenError, OptionError
from ...support.options import str_option
from .kinds import DEFAULT
from .processor import Processor, host_processor, host_triple, named_processor
from .target_kind import KINDS, read_target


class KindName(str):
    """Name of a kind of targets; TVM asks for ``kind.name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name."""
        return str(self)


@dataclass(frozen=True, init=False)
class Target:
    """A target: ``kind`` and its options. ``with target:`` makes it the current one.

    Raises CodegenError E531 for an unknown kind, tag or option.
    """

    kind: KindName
    options: tuple[tuple[str, Any], ...]

    def __init__(self, description: str | Mapping[str, Any] | Target = DEFAULT, host: object = None) -> None:
        if isinstance(description, Target):
            kind, options = str(description.kind), dict(description.options)
        else:
            kind, options = read_target(description)
        object.__setattr__(self, "kind", KindName(kind))
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    @property
    def attrs(self) -> dict[str, Any]:
        """The options that were given."""
        return dict(self.options)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of the option ``name``, or ``default``."""
        return self.attrs.get(name, default) if isinstance(name, str) else default

    @property
    def mcpu(self) -> str:
        """Processor name for LLVM; "" is the default processor, or the plain one of this architecture where ``mattr`` is given."""
        return str(self.get("mcpu", ""))

    @property
    def mattr(self) -> str:
        """Features for LLVM beside those of the processor, e.g. ``+avx2,+fma``."""
        return str(self.get("mattr", ""))

    @property
    def num_cores(self) -> int:
        """Processor cores to use."""
        return int(self.get("num-cores", os.cpu_count() or 1))

    @property
    def processor(self) -> Processor:
        """The processor that code is for; the default one where none is named. Raises CodegenError E531 for what LLVM does not
        know, OptionError E001."""
        return named_processor(self.mcpu, self.mattr) if self.mcpu or self.mattr else default_processor()

    @property
    def features(self) -> frozenset[str]:
        """Enabled LLVM features."""
        return self.processor.features

    @property
    def required_features(self) -> str:
        """LLVM features that a processor must have to run code for this target, ``+avx2,+fma``."""
        return ",".join([f"+{name}" for name in sorted(self.processor.needed)])

    @property
    def triple(self) -> str:
        """LLVM's name of the machine that code runs on, or that the host's code does."""
        return str(self.get("mtriple") or host_triple())

    @property
    def vector_bits(self) -> int:
        """Width of vectors to generate."""
        return int(self.get("vector-width", 8 * self.processor.vector_bytes))

    def __getattr__(self, name: str) -> Any:
        """An option that was given, or that the kind has a usual value of: ``target.thread_warp_size``."""
        if name.startswith("_") or name in ("kind", "options"):  # a copy that is not filled yet has none of its own
            raise AttributeError(name)
        found = {**KINDS[self.kind].usual, **self.attrs}
        if name not in found:
            raise AttributeError(f"target {self} has no option {name!r}")
        return found[name]

    def __str__(self) -> str:
        return " ".join([self.kind] + [f"-{name}={value}" for name, value in self.options])

    def __repr__(self) -> str:
        return f'Target("{self}")'

    def to_dict(self) -> dict[str, Any]:
        """The target as a dict that ``Target`` reads."""
        return {"kind": str(self.kind), **self.attrs}

    def __enter__(self) -> Target:
        _ENTERED.push(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ENTERED.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target entered by ``with``. Raises CodegenError E531 if there is none and one is required."""
        found = _ENTERED.top
        if found is not None or allow_none:
            return found
        raise CodegenError("E531", "no current target", help=f'enter one: `with Target("{DEFAULT}"):`')


_ENTERED: ContextStack[Target] = ContextStack("targets")


def default_target() -> Target:
    """The target of ``UNITY_TARGET``, else this machine. Raises OptionError E001."""
    default_processor()
    return Target(str_option("UNITY_TARGET") or DEFAULT)


def target(description: str | Mapping[str, Any] | Target | None = None) -> Target:
    """A Target from any description; None is the current one, else that of ``UNITY_TARGET``, else this machine."""
    if description is None:
        return Target.current() or default_target()
    return description if isinstance(description, Target) else Target(description)


@cache
def _of_option(text: str) -> Processor:
    try:
        kind, options = read_target(text)
        if not KINDS[kind].generates:
            raise CodegenError("E531", f"no code is generated for targets of the kind {kind!r}")
        cpu, changes = str(options.get("mcpu", "")), options.get("mattr", "")
        return named_processor(cpu, changes) if cpu or changes else host_processor()
    except CodegenError as error:
        raise OptionError("E001", f"UNITY_TARGET={text!r}: {error.message}", help=error.help) from None


def default_processor() -> Processor:
    """The processor of ``UNITY_TARGET``, else this machine's: code is for it where nothing is named. Raises OptionError E001."""
    text = str_option("UNITY_TARGET")
    return _of_option(text) if text else host_processor()


def processor_in_use() -> Processor:
    """The processor of the target that was entered last, else the default one."""
    found = _ENTERED.top
    return default_processor() if found is None else found.processor


def runnable_processor() -> Processor:
    """The processor of code that this process runs: the default one, or this machine's where it lacks a feature of that."""
    wanted, here = default_processor(), host_processor()
    return wanted if wanted.needed <= here.features else here
