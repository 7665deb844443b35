"""Kinds of targets: how their descriptions are written, and the table of those that are known.

A description is text (``llvm -mcpu=znver4``), a dict with the key ``kind``, or a tag. Not here: the kinds of this package
(`kinds.py`), what targets mean (`target.py`), how code for them is made and run (`Backend`, `ffi/runtime/runtime.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...support.arguments import checked
from ...support.errors import CodegenError, suggest


@dataclass(slots=True, frozen=True)
class TargetKind:
    """A kind of targets. ``options``: their names, with ``str`` or ``int``; ``tags``: names of machines, with the options they
    stand for; ``generates``: False for a kind that is read, compared and printed, and that no code is generated for; ``usual``:
    values of options that were not given, for who asks the target by name."""

    name: str
    options: Mapping[str, type] = field(default_factory=dict)
    tags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    generates: bool = True
    usual: Mapping[str, Any] = field(default_factory=dict)


KINDS: dict[str, TargetKind] = {}
"""Kinds by name."""
TAGS: dict[str, dict[str, Any]] = {}
"""Tags of all kinds: descriptions as dicts."""
_FLAGS = {"": True, "1": True, "true": True, "0": False, "false": False}
_DROPPED = (
    "keys", "tag", "host", "device", "model", "libs", "max_num_threads", "registers_per_block", "l2_cache_size_bytes",
)  # fmt: skip
"""Options that TVM's texts have, and that mean nothing here."""


@checked
def register_kind(kind: TargetKind) -> None:
    """Make a kind of targets known, in the place of one of that name."""
    KINDS[kind.name] = kind
    TAGS.update({tag: {"kind": kind.name, **options} for tag, options in kind.tags.items()})


def read_target(description: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Kind and options of a description. Raises CodegenError E531 for an unknown kind, tag or option."""
    name, given = _read(description)
    kind = KINDS.get(name)
    if kind is None:
        listed = f"code is generated for {_named(True)}; only described, without code: {_named(False)}"
        raise CodegenError("E531", f"unknown target {name!r}", help=_helped(name, [*KINDS, *TAGS], listed))
    options = {}
    for option, value in given.items():
        ty = kind.options.get(option)
        if ty is not None:
            options[option] = _value(option, value, ty)
        elif option not in _DROPPED:
            listed = f"it has: {', '.join(kind.options) or 'none'}"
            message = f"target {name} has no option {option!r}"
            raise CodegenError("E531", message, help=_helped(option, list(kind.options), listed))
    return name, options


def _helped(word: str, known: list[str], listed: str) -> str:
    near = suggest(word, known)
    return f"{near} {listed}" if near else listed


def _value(name: str, value: Any, ty: type) -> Any:
    """The value of an option. Raises CodegenError E531 for one of another type."""
    if value == "" and ty is not bool:
        raise CodegenError("E531", f"target option {name} has no value", help=f"-{name}={'4' if ty is int else 'NAME'}")
    if ty is str:
        return value if isinstance(value, str) else ",".join(value) if isinstance(value, (list, tuple)) else str(value)
    if isinstance(value, ty):
        return value
    if ty is bool:
        if str(value).lower() in _FLAGS:
            return _FLAGS[str(value).lower()]
        raise CodegenError("E531", f"target option {name} is a flag, got {value!r}", help=f"-{name}, or -{name}=0")
    if isinstance(value, str) and value.isdigit():
        return int(value)
    raise CodegenError("E531", f"target option {name} must be a number, got {value!r}", help=f"-{name}=4")


def _named(generates: bool) -> str:
    """Kinds and tags that code is generated for, or the others."""
    kinds = [name for name, kind in KINDS.items() if kind.generates is generates]
    return ", ".join([*kinds, *[tag for tag, row in TAGS.items() if row["kind"] in kinds]])


def _read(description: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a kind, and the options as they are given."""
    if isinstance(description, Mapping):
        options = dict(description)
        if "kind" not in options:
            raise CodegenError(
                "E531", "a target dict needs the key 'kind'", help='{"kind": "llvm", "mcpu": "x86-64-v3"}'
            )
        return str(options.pop("kind")), options
    if not isinstance(description, str):
        raise CodegenError("E531", f"a target is a string, a dict or a Target, got {type(description).__name__}",
                           help='"llvm", "llvm -mcpu=x86-64-v3", "cuda"')  # fmt: skip
    if description in TAGS:
        options = dict(TAGS[description])
        return str(options.pop("kind")), options
    try:
        words = shlex.split(description)
    except ValueError as error:
        raise CodegenError("E531", f"cannot read target {description!r}: {error}") from None
    if not words:
        raise CodegenError("E531", "an empty target description", help='"llvm", "cuda"')
    options = {}
    position = 1
    while position < len(words):
        name, equals, value = words[position].lstrip("-").partition("=")
        if not words[position].startswith("-"):
            raise CodegenError(
                "E531", f"cannot read {words[position]!r} in target {description!r}", help="options are -name=value"
            )
        if not equals and position + 1 < len(words) and not words[position + 1].startswith("-"):
            position += 1
            value = words[position]
        options[name] = value
        position += 1
    return words[0], options
