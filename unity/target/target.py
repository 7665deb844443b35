"""Targets: what code is generated for. Written ``Target("llvm -mcpu=znver4")``, a dict, a tag, or ``Target("llvm")``.

The processor's features decide, never its name: ``Target("llvm")`` is the default processor (`ffi/processor.py`). Targets are
immutable and compare by value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..ffi.processor import ENTERED, Processor, default_processor, named_processor
from ..ffi.target_text import KINDS, TAGS, read_target
from ..support.errors import CodegenError
from ..support.options import str_option

__all__ = ["KINDS", "TAGS", "Target", "TargetKind", "default_target", "target"]


class TargetKind(str):
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

    kind: TargetKind
    options: tuple[tuple[str, Any], ...]

    def __init__(self, description: str | Mapping[str, Any] | Target = "llvm", host: object = None) -> None:
        if isinstance(description, Target):
            kind, options = str(description.kind), dict(description.options)
        else:
            kind, options = read_target(description)
        object.__setattr__(self, "kind", TargetKind(kind))
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    @property
    def attrs(self) -> dict[str, Any]:
        """The options that were given."""
        return dict(self.options)

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an option."""
        return self.attrs.get(name, default)

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
    def vector_bits(self) -> int:
        """Width of vectors to generate."""
        return int(self.get("vector-width", 8 * self.processor.vector_bytes))

    def __str__(self) -> str:
        return " ".join([self.kind] + [f"-{name}={value}" for name, value in self.options])

    def __repr__(self) -> str:
        return f'Target("{self}")'

    def to_dict(self) -> dict[str, Any]:
        """The target as a dict that ``Target`` reads."""
        return {"kind": str(self.kind), **self.attrs}

    def __enter__(self) -> Target:
        ENTERED.stack.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ENTERED.stack.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target entered by ``with``; Raises CodegenError E531 when there is none and it must be."""
        for entered in reversed(ENTERED.stack):
            if isinstance(entered, Target):
                return entered
        if allow_none:
            return None
        raise CodegenError("E531", "no current target", help='enter one: `with Target("llvm"):`')


def default_target() -> Target:
    """The target of ``UNITY_TARGET``, else this machine. Raises OptionError E001."""
    default_processor()
    return Target(str_option("UNITY_TARGET") or "llvm")


def target(description: str | Mapping[str, Any] | Target | None = None) -> Target:
    """A Target from any description; None is the current one, else that of ``UNITY_TARGET``, else this machine."""
    if description is None:
        return Target.current() or default_target()
    return description if isinstance(description, Target) else Target(description)
