"""Scalar expressions of a kernel, in all lanes at once: its accesses of memory and what a fault in one lane is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, GlobalVar
from ...scalar import BufferLoad
from ...types import Expr
from ..common.arrays import Value
from ..common.expressions import Closure, ExprCompiler as SharedCompiler
from ..common.intrinsics import SHARED, Intrinsics
from .access import Locator
from .lanes import Mask
from .memory import Address
from .wave import Wave


class ExprCompiler(SharedCompiler):
    """Compiles the expressions of one kernel."""

    code, location, batched = "E369", "a kernel", True
    intrinsics: ClassVar[Intrinsics] = Intrinsics(SHARED)

    def __init__(self, wave: Wave) -> None:
        super().__init__()
        self.wave = wave
        self.reducers: list[Any] = []
        """Reducers of the enclosing ``reduce_scope`` attributes."""

    def refuse(self, wrong: Value, env: Mask, code: str, text: str, span: Any, value: Value = None) -> None:
        """Raise an InterpreterError where ``wrong`` holds in a lane; the text ends with the ``value`` there."""
        rows = np.asarray(wrong)
        lanes = env.lanes & (rows.any(axis=1) if rows.ndim == 2 else rows)
        if lanes.any():
            lane = int(lanes.argmax())
            shown = "" if value is None else value[lane] if np.ndim(value) else value
            raise self.wave.failure(code, f"{text}{shown}", span, lane)

    def locator(
        self, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None, kind: str, span: Any
    ) -> Locator:
        """The locator of a load or store."""
        made = self.visit(predicate) if predicate is not None else None
        site = self.wave.log.site(buffer.name, kind, buffer.scope, span)
        return Locator(self.wave, buffer, indices, [self.index(i) for i in indices], made, site)

    def load(self, expr: BufferLoad) -> Closure:
        """A load from a buffer."""
        return self.locator(expr.buffer, expr.indices, expr.predicate, "load", expr.span).load

    def index(self, expr: Expr) -> Closure:
        """An integer expression in 64 bits."""
        value = self.visit(expr)
        dtype = dtype_of(expr)
        if not dtype.is_integral:
            text = f"expected an integer, got {dtype.name}"
            raise InterpreterError("E372", text, getattr(expr, "span", None))
        if dtype.element.name == "int64":
            return value
        return lambda mask: np.asarray(value(mask)).astype(np.int64)[()]

    def address(self, expr: Expr, call: Call) -> Callable[[Mask], Address]:
        """An expression that must be an address, as an argument of an intrinsic."""
        value = self.visit(expr)

        def run(mask: Mask) -> Address:
            found = value(mask)
            if not isinstance(found, Address):
                raise InterpreterError("E372", f"{getattr(call.op, 'name', 'intrinsic')} takes an address", call.span)
            return found

        return run

    def call(self, expr: Call) -> Closure:
        """A call of an intrinsic."""
        if type(expr.op) is GlobalVar:
            raise self.undefined(f"{expr.op.name}: a kernel cannot call functions of the module", expr)
        return super().call(expr)
