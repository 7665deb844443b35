"""Schedules that the rules made of programs, cached between processes beside the compiled objects.

Here: when and under which key. Not here: the folder (`ObjectCache`), the rules. Invariant: whatever may change the result
is part of the key - the package's own files, the program, which parameters are constants, the machine, the rules - and rules
from outside the package are always asked. A program's name is not part of it; a cached program has no spans inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from ...ffi.cache.cache_key import Key, package_state
from ...ffi.cache.object_cache import cached, object_cache
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.pack import NotPackable, pack, unpack
from ..infra.backend import Machine
from ..tir.expressions.simplify import bind_shared
from .base import Rule, Scheduled
from .packing import Packing

_NAME = "global_symbol"


def cached_schedule(
    fn: PrimFunc,
    constants: Collection[int],
    machine: Machine,
    rules: Sequence[Rule],
    make: Callable[[], Scheduled | None],
) -> Scheduled | None:
    """The result of ``make`` for a program, made now or before."""
    if not are_own(rules) or object_cache().folder is None:
        return make()
    text = IRModule({"program": bind_shared.on(fn).without_attr(_NAME)}, {}, {}).script()
    key = Key(
        "schedule", program=text, constants=repr(sorted(constants)), machine=repr(machine),
        rules=repr([rule.name for rule in rules]), package=package_state(),
    )  # fmt: skip
    return cached(key, make, _written, partial(_read, fn))


def are_own(rules: Sequence[Rule]) -> bool:
    """True when every rule belongs to the package."""
    own = __name__.partition(".")[0]
    return all([rule.apply.__module__.partition(".")[0] == own for rule in rules])


def _written(found: Scheduled | None) -> bytes | None:
    if found is None:
        return b"null"
    packed = [[place, *astuple(layout)] for place, layout in found.packed.items()]
    head = json.dumps([found.reason, packed]).encode()
    try:
        body = pack(found.func.without_attr(_NAME))
    except NotPackable:
        return None
    return len(head).to_bytes(4, "little") + head + body


def _read(fn: PrimFunc, data: bytes) -> Scheduled | None:
    if data == b"null":
        return None
    end = 4 + int.from_bytes(data[:4], "little")
    reason, packed = json.loads(data[4:end])
    func = unpack(data[end:])
    assert isinstance(func, PrimFunc)
    attrs = {_NAME: fn.attrs[_NAME], **func.attrs} if _NAME in fn.attrs else func.attrs
    layouts = {place: _layout(parts) for place, *parts in packed}
    return Scheduled(replace(func, attrs=attrs, span=fn.span), reason, layouts)


def _layout(parts: list[Any]) -> Packing:
    outer, columns, inner, *rest = parts
    return Packing(tuple(outer), columns, tuple(inner), *rest)
