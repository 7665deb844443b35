"""``Part``: what a search is made of. Users derive from its kinds; ``create`` finds those that have names.

In TVM such classes derive from ``PySearchStrategy`` and the like under ``@derived_object``; here these are other names of the same
classes, and the decorator has nothing to do.
"""

from __future__ import annotations

import copy
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, TypeVar

from ...ffi.targets.target import Target
from ...ffi.targets.target_kind import KINDS
from ...support.errors import ScheduleError
from ...transform.infra.backend import backend_of

Class = TypeVar("Class", bound=type)


class Part(ABCMeta):
    """The class of the kinds of parts. ``names``, of a class: those that ``create`` of its kind knows it by."""

    what: str
    """The kind of part, in errors."""
    kinds: dict[str, Callable[..., Any]]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], names: tuple[str, ...] = (), **options: Any
    ) -> Part:
        """Make the class of a part, or of a kind of parts where no base is one."""
        made = super().__new__(mcls, name, bases, namespace, **options)
        if not any([isinstance(base, Part) for base in bases]):
            made.kinds = {}
        made.kinds.update(dict.fromkeys(names, made))
        return made

    def create(cls, kind: Any, *args: Any, **options: Any) -> Any:
        """The part with a name; what is not text as it is. Raises ScheduleError E401 for another name."""
        if not isinstance(kind, str):
            return kind
        if kind not in cls.kinds:
            raise ScheduleError("E401", f"no {cls.what} {kind!r}", help=f"one of: {', '.join(cls.kinds)}")
        return cls.kinds[kind](*args, **options)


def is_for_processor(kind: Any) -> bool | None:
    """True if a kind of targets ("llvm") is that of a processor, False of a device; None where the text names none."""
    if not isinstance(kind, str) or kind not in KINDS or not KINDS[kind].generates:
        return None
    return bool(backend_of(Target(kind)).runtime.device.host_memory)


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


__all__ = ["Part", "clone_part", "copied", "derived_object", "initialize_part", "is_for_processor", "take_task"]
