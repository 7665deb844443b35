"""``Part``: what a search is made of. Users derive from its kinds; ``create`` finds those that have names.

In TVM such classes derive from ``PySearchStrategy`` and the like under ``@derived_object``; here these are other names of the same
classes, and the decorator has nothing to do.
"""

from __future__ import annotations

import copy
import math
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, TypeVar

from ...ffi.targets.target import Target
from ...ffi.targets.target_kind import KINDS
from ...support.arguments import checked, short
from ...support.errors import ScheduleError
from ...transform.infra.backend import backend_of

Class = TypeVar("Class", bound=type)


_PACKAGE = __name__.partition(".")[0]


class Part(ABCMeta):
    """The class of the kinds of parts. ``names``, of a class: those that ``create`` of its kind knows it by. What a part of this
    package is made with is checked by its annotations."""

    what: str
    """The kind of part, in errors."""
    usual: str
    """The name that ``create`` takes where it is given none."""
    kinds: dict[str, Callable[..., Any]]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], names: tuple[str, ...] = (), **options: Any
    ) -> Part:
        """Make the class of a part, or of a kind of parts where no base is one."""
        if "__init__" in namespace and namespace["__module__"].partition(".")[0] == _PACKAGE:
            namespace["__init__"] = checked(namespace["__init__"])
        made = super().__new__(mcls, name, bases, namespace, **options)
        if not any([isinstance(base, Part) for base in bases]):
            made.kinds = {}
        made.kinds.update(dict.fromkeys(names, made))
        return made

    def create(cls, kind: Any = "", *args: Any, **options: Any) -> Any:
        """The part with a name, without one the usual one; a part as it is. Raises ScheduleError E401 for anything else."""
        if not isinstance(kind, str):
            absent = (
                [] if kind is None else [name for name in sorted(cls.__abstractmethods__) if not hasattr(kind, name)]
            )
            if absent:
                raise ScheduleError("E401", f"{short(kind)} is not a {cls.what}: it has no {', '.join(absent)}",
                                    help=f"a name, or a class that derives from {cls.__name__}")  # fmt: skip
            return kind
        name = kind or getattr(cls, "usual", kind)
        if name not in cls.kinds:
            raise ScheduleError("E401", f"no {cls.what} {name!r}", help=f"one of: {', '.join(cls.kinds)}")
        return cls.kinds[name](*args, **options)


def check_numbers(least: float, most: float = math.inf, /, **numbers: float | None) -> None:
    """Raise ScheduleError E401 for a number that is not in a range. None is in every range."""
    for name, number in numbers.items():
        if number is not None and not least <= number <= most:
            upto = f"to {most:g}" if most < math.inf else "on"
            raise ScheduleError("E401", f"{name} is {number}", help=f"a number from {least:g} {upto}")


def given(part: Any, method: str, value: Any, kind: Any) -> Any:
    """The value that a method of a part gave. Raises ScheduleError E428 for anything else than a ``kind``."""
    if not isinstance(value, kind):
        text = f"{type(part).__name__}.{method} gave {short(value)}"
        raise ScheduleError("E428", text, help=f"{method} gives a {kind.__name__}")
    return value


def is_for_processor(kind: Any) -> bool | None:
    """True if a kind of targets ("llvm") is that of a processor, False of a device; None where the text names none. With tensor
    cores or not is a decision."""
    name = kind.removesuffix("-tensorcore") if isinstance(kind, str) else ""
    return (
        bool(backend_of(Target(name)).runtime.device.host_memory) if name in KINDS and KINDS[name].generates else None
    )


def take_task(part: Any, context: Any) -> None:
    """Take the task, under TVM's name where a class was written for it: a method of parts."""
    tell = getattr(part, "_initialize_with_tune_context", None)
    if tell is not None:
        tell(context)


def initialize_part(part: Any, context: Any) -> None:
    """Let a part know its task, if it asks for it."""
    tell = getattr(part, "initialize_with_tune_context", None)
    if tell is not None:
        tell(context)


def copied(part: Any) -> Any:
    """Another one like this, for another task: a method of parts."""
    return copy.deepcopy(part)


def clone_part(part: Any) -> Any:
    """Another part like this one, for another task; any object will do."""
    return part.clone() if hasattr(part, "clone") else copied(part)


def derived_object(cls: Class) -> Class:
    """TVM's decorator of derived classes: the class as it is."""
    return cls


__all__ = [
    "Part",
    "check_numbers",
    "clone_part",
    "copied",
    "derived_object",
    "given",
    "initialize_part",
    "is_for_processor",
    "take_task",
]
