"""A tensor program as a whole: parameters, buffers behind them, symbols, result.

Not here: statements. Invariant: a symbol used in a signature before the parameter of its name is that parameter.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import (
    VOID_TYPE,
    Expr,
    PrimFunc,
    Stmt,
    TensorType,
    Type,
    Var,
    prim_type,
    substitute,
)  # fmt: skip
from ...support.errors import UnityError
from ..parser import syntax as s
from .base import Silent
from .buffers import BufferSpec
from .mutable import mutable_names
from .scope import POISON, Dotted, Scope
from .tir_frames import FrameReader

_HANDLE = prim_type("handle")
Wrap = Callable[[Stmt], Stmt]


class PrimFuncReader(FrameReader):
    """Reads one ``@T.prim_func``."""

    # -------------------------------------------------------------------------------------------------------- function

    def function(self, node: s.FunctionDef) -> PrimFunc | None:
        """Read the whole function; None when an error leaves nothing to build."""
        before = len(self.reading.errors)
        self.scope = self.top = Scope(self.scope)
        for symbol in node.type_params:
            self.symbols[symbol.name] = Var(symbol.name, self.symbol_type(symbol))
        pending: list[tuple[Var, BufferSpec, str]] = []
        self.defining = True
        declared = {p.name for p in node.params if p.annotation is not None}
        for param in node.params:
            try:
                self._parameter(param, pending, declared)
            except Silent:
                continue
            except UnityError as problem:
                self.reading.record(problem, param)
                self.scope.names[param.name] = POISON
        ret_ty = self.return_type(node)
        self.defining = False
        self.symbols = {name: value for name, value in self.symbols.items() if value not in self.params}
        for var, spec, name in pending:
            buffer = spec.make(name, self.reading.span(node))
            self.buffer_map[var] = buffer
            self.scope.names[name] = buffer
        self.mutable = mutable_names(node.body, list(self.scope.names))
        body = self.sequence_of(node.body)
        if len(self.reading.errors) > before:
            return None
        ordered = {param: self.buffer_map[param] for param in self.params if param in self.buffer_map}
        return PrimFunc(tuple(self.params), ordered, body, ret_ty, self.attrs, self.reading.span(node))

    def return_type(self, node: s.FunctionDef) -> Type:
        """The type a function says it gives back."""
        if node.returns is None:
            return VOID_TYPE
        try:
            return self.type_of(node.returns)
        except Silent:
            return VOID_TYPE
        except UnityError as problem:
            self.reading.record(problem, node.returns)
            return VOID_TYPE

    def _parameter(self, param: s.Parameter, pending: list[tuple[Var, BufferSpec, str]], declared: set[str]) -> None:
        if param.star == "*" and param.name == "":
            return
        if param.star:
            raise self.error("E114", f"a parameter `{param.star}{param.name}` is not possible", param)
        if param.default is not None:
            raise self.error("E114", f"parameter {param.name!r} cannot have a default value", param)
        if param.annotation is None:
            raise self.error(
                "E114",
                f"parameter {param.name!r} needs a type",
                param,
                'write for example T.Buffer((16,), "float32") or T.handle',
            )
        if param.name in [p.name for p in self.params] or param.name in [name for _, _, name in pending]:
            raise self.error("E115", f"two parameters are called {param.name!r}", param)
        span = self.reading.span(param)
        value = self.annotation(param.annotation)
        if type(value) is Dotted and value.text == "T.Buffer":
            raise self.error("E112", "T.Buffer needs a shape", param.annotation)
        if type(value) is BufferSpec:
            if value.data is not None:
                raise self.error("E114", "the memory of a parameter is given by the caller", param, "leave data= out")
            var = Var(f"{param.name}_handle", _HANDLE, span)
            pending.append((var, value, param.name))
            self.scope.names[param.name] = POISON
        else:
            ty = self.as_type(value, param.annotation)
            if isinstance(ty, TensorType):
                raise self.error(
                    "E114",
                    "a tensor program takes buffers, not tensors",
                    param.annotation,
                    'write T.Buffer((16,), "float32")',
                )
            known = self.symbols.get(param.name)
            var = known if isinstance(known, Var) and known.ty is ty else Var(param.name, ty, span)
            if isinstance(known, Var) and known is not var:
                self._retype(known, var, pending)
            self.symbols[param.name] = var
            self.scope.names[param.name] = var
        self.params.append(var)

    def _retype(self, old: Var, new: Var, pending: list[tuple[Var, BufferSpec, str]]) -> None:
        """A symbol seen before its parameter takes the parameter's type."""
        from_old = {old: new}
        for _, spec, _ in pending:
            spec.shape = replace_vars(spec.shape, from_old)
            spec.strides = replace_vars(spec.strides, from_old)
            if spec.elem_offset is not None:
                spec.elem_offset = replace_vars((spec.elem_offset,), from_old)[0]


def replace_vars(values: tuple[Expr, ...], mapping: dict[Var, Var]) -> tuple[Expr, ...]:
    """Dimensions with variables replaced."""
    return tuple([substitute(value, mapping) for value in values])
