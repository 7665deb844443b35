"""Functions of both levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..support.arguments import guarded, guarded_class
from ..support.errors import VerifyError
from ..support.source import Span
from .buffer import Buffer
from .expr import SeqExpr, Var
from .node import Aside, Def, Node, frozen, node, replace, script_hook
from .stmt import Stmt
from .types import Expr, FuncType, Type

_A = TypeVar("_A", bound="Attributed")
METHODS: dict[str, Callable[..., Any]] = {}
"""Methods of functions that are made of walks, which stand on functions themselves: filled by `specialize.py`."""


@guarded_class
class Attributed(Node):
    """Functional updates of ``attrs``: what functions of both levels and modules share."""

    __slots__ = ()
    attrs: dict[str, Any]

    def with_attr(self: _A, key: str | Mapping[str, Any], value: Any = None) -> _A:
        """The same with the attribute ``key`` set to ``value``, or with several, given as a mapping."""
        return self.with_attrs(key if isinstance(key, Mapping) else {key: value})

    def with_attrs(self: _A, given: Mapping[str, Any] | None = None, /, **attrs: Any) -> _A:
        """The same with attributes added or replaced: those of ``given``, and ``attrs`` by name."""
        return replace(self, attrs={**self.attrs, **frozen({**(given or {}), **attrs})})

    def without_attr(self: _A, key: str) -> _A:
        """The same without the attribute ``key``."""
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != key})

    def get_attr(self, key: str) -> Any:
        """The attribute ``key``, or None."""
        return self.attrs.get(key)

    def _repr_html_(self) -> str:
        return script_hook("html")(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A function is a program, which does not run by itself. Raises VerifyError E305."""
        raise VerifyError("E305", "a function is not called: it has to be compiled first",
                          help=f"unity.compile(function)[{self.attrs.get('global_symbol', 'main')!r}](x)")  # fmt: skip


@node
class Function(Attributed, Expr):
    """Graph function. ``params``' types bind the symbols; ``attrs["global_symbol"]`` makes it public."""

    params: Def[tuple[Var, ...]]
    body: Expr
    ret_ty: Type
    pure: bool
    attrs: dict[str, Any]
    span: Aside[Span | None] = None
    checked: Aside[bool] = True
    """False where its text says ``check_well_formed=False``."""

    @property
    def ty(self) -> FuncType:
        return FuncType(tuple([p.ty for p in self.params]), self.ret_ty, self.pure)

    @property
    def is_pure(self) -> bool:
        """TVM's spelling of ``pure``."""
        return self.pure

    @property
    def ret_struct_info(self) -> Type:
        """TVM's earlier spelling of ``ret_ty``."""
        return self.ret_ty


@node
class PrimFunc(Attributed):
    """Tensor program. ``buffer_map`` says which buffer stands behind each pointer parameter; symbols first shown in their
    shapes, strides and offsets are bound there, in order of the parameters."""

    params: Def[tuple[Var, ...]]
    buffer_map: Def[dict[Var, Buffer]]
    body: Stmt
    ret_ty: Type
    attrs: dict[str, Any]
    span: Aside[Span | None] = None
    checked: Aside[bool] = True
    """False where its text says ``check_well_formed=False``."""

    def with_body(self, new_body: Stmt) -> PrimFunc:
        """Return the program with the body ``new_body``."""
        return replace(self, body=new_body)

    @guarded
    def specialize(self, param_map: Mapping[Any, Any]) -> PrimFunc:
        """Return the program for some of its sizes and scalars. ``param_map``: ``{n: 16}``, ``{a: tir.decl_buffer(...)}``. Raises
        VerifyError E715.
        """
        return METHODS["specialize"](self, param_map)  # type: ignore[no-any-return]


BaseFunc = Function | PrimFunc


def seq_body(fn: Function) -> SeqExpr:
    """Body of a normalised function."""
    body = fn.body
    return body if isinstance(body, SeqExpr) else SeqExpr((), body)


def is_marked(fn: Function) -> bool:
    """True for a function that fusion made, or that is for a library."""
    return any([fn.attrs.get(mark) for mark in ("Primitive", "Composite", "Codegen")])


def has_global_symbol(fn: Function | PrimFunc) -> bool:
    """True when the function is visible from outside the module."""
    return "global_symbol" in fn.attrs


SCHEDULED = "tir.is_scheduled"
"""The attribute of tensor programs whose loops are chosen: true where a schedule made them."""
BY_NESTS = "nests"
"""The value of ``SCHEDULED`` where the loops were chosen nest by nest: lowering still joins and shares loops of several."""


def is_scheduled(fn: PrimFunc) -> bool:
    """True when the loops are chosen: scheduling leaves them as they are."""
    return bool(fn.attrs.get(SCHEDULED))


def keeps_loops(fn: PrimFunc) -> bool:
    """True when a schedule made the loops, which lowering leaves as they are as well."""
    return is_scheduled(fn) and fn.attrs[SCHEDULED] != BY_NESTS


def may_alias(fn: PrimFunc) -> bool:
    """True when the memory of different parameters may overlap."""
    return not fn.attrs.get("tir.noalias", True)
