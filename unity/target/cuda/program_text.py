"""Programs that are written as script, as statements over the buffers of a program that is being made.

A text names its sizes, so that programs of all sizes have the same one, which is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...ir.buffer import Buffer
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.stmt import AllocBuffer, BlockRealize, Stmt, seq
from ...ir.types import Expr
from ...ir.walk import fresh_copy
from ...script import parse
from ...transform.tir.expressions.simplify import simplify


@lru_cache(maxsize=8)
def _read(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def statements(text: str, buffers: Mapping[str, Buffer], scalars: Mapping[str, Expr]) -> Stmt:
    """The statements of a text, whose parameters are buffers and scalars by name."""
    func = _read(text)
    mapping: dict[Any, Any] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            mapping[param] = scalars[param.name]
            continue
        real = buffers[buffer.name]
        mapping |= {buffer: real, buffer.data: real.data}
        mapping |= {own: size for own, size in zip(buffer.shape, real.shape) if isinstance(own, Var)}
    body = func.body
    if type(body) is BlockRealize:
        body = seq(*[AllocBuffer(buffer) for buffer in body.block.alloc_buffers], body.block.body)
    simplified: PrimFunc = simplify.on(replace(func, body=fresh_copy(body, mapping), params=(), buffer_map={}))
    return simplified.body
