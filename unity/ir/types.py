"""Types: what a value is known to be. Shapes inside types are expressions over symbolic variables."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

from ..ffi.dtype import DataType
from ..support.errors import ArgumentError, PlaceError
from .node import Def, Node, node, set_field


class Type(Node):
    """Base of all types."""

    __slots__ = ()


def _both(name: str) -> tuple[Callable[[Expr, Expr | float], Expr], Callable[[Expr, float], Expr]]:
    """The methods of an operator with the expression on the left and on the right."""
    return lambda expr, other: _combine(name, expr, other), lambda expr, other: _combine(name, other, expr)


class Expr(Node):
    """Base of all expressions, graph level and tensor level alike. Every expression has a type ``ty``."""

    __slots__ = ()
    __array_ufunc__ = None  # an array of numpy leaves its operators to those here
    if TYPE_CHECKING:  # a field or a property of every class

        @property
        def ty(self) -> Type:
            """The type: all that is known of the value."""

    @property
    def dtype(self) -> Any:
        """The data type of a scalar or tensor, "handle" of a pointer: that of ``ty``. None for what has none."""
        return DataType("handle") if isinstance(self.ty, PointerType) else getattr(self.ty, "dtype", None)

    @property
    def struct_info(self) -> Type:
        """TVM's earlier spelling of ``ty``."""
        return self.ty

    @property
    def op_name(self) -> str:
        """Name of the operator or intrinsic that a call applies; "" for anything else."""
        return ""

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __floordiv__, __rfloordiv__ = _both("floordiv")
    __mod__, __rmod__ = _both("floormod")
    __truediv__, __rtruediv__ = _both("divide")
    __pow__, __rpow__ = _both("power")

    def __lt__(self, other: object) -> Any:
        return _compare(self, other)

    __le__ = __gt__ = __ge__ = __lt__

    def __neg__(self) -> Expr:
        return _combine("sub", 0, self) if isinstance(self.ty, PrimType) else _of_graph("negative", self)

    def astype(self, dtype: DataType | str) -> Expr:
        """Return the scalar or tensor cast to ``dtype``."""
        return ARITHMETIC["cast"](self, dtype) if isinstance(self.ty, PrimType) else _of_graph("astype", self, dtype)

    def __getitem__(self, index: int) -> Expr:
        """A field of a tuple. Raises ArgumentError E743 unless it is a tuple and an index, PlaceError E743 past the end."""
        if not isinstance(self.ty, TupleType) or not isinstance(index, Integral):
            raise ArgumentError("E743", f"{_shown(index)} of an expression of type {self.ty}: a tuple has fields, by an integer",
                                help="elements of a tensor: R.take, R.strided_slice")  # fmt: skip
        if not -len(self.ty.fields) <= index < len(self.ty.fields):
            raise PlaceError("E743", f"field {index} of a tuple of {len(self.ty.fields)}")
        return _of_graph("item", self, index % len(self.ty.fields))


ARITHMETIC: dict[str, Callable[[Any, Any], Expr]] = {}
"""The functions behind Python's operators on scalar expressions: ``build.py`` fills it."""
GRAPH: dict[str, Callable[..., Expr]] = {}
"""The functions behind Python's operators on expressions of the graph; empty until the operators are imported, which fill it."""


def _of_graph(name: str, *args: Any) -> Expr:
    if name not in GRAPH:
        raise ArgumentError("E217", f"{name} of an expression needs the operators", help="import unity.op")
    return GRAPH[name](*args)


def _combine(name: str, a: Any, b: Any) -> Expr:
    """``n * 2`` for scalars and numbers, ``x * y`` for tensors; other classes with operators (te.Value) are not for here.

    Raises TypeRuleError E217 for what no arithmetic takes.
    """
    scalars = {isinstance(v.ty, PrimType) for v in (a, b) if isinstance(v, Expr)}
    table = ARITHMETIC if True in scalars else GRAPH
    if len(scalars) == 1 and name in table and all([isinstance(v, (Expr, int, float)) for v in (a, b)]):
        return table[name](a, b)
    for other in (a, b):
        if isinstance(other, Real) and not isinstance(other, (int, float)):  # numpy's
            return _combine(name, *[v.item() if v is other else v for v in (a, b)])  # type: ignore[attr-defined]
        if not isinstance(other, (Expr, int, float)) and _root(other) not in _PLAIN:
            return cast(Expr, NotImplemented)
    if len(scalars) == 1 and name not in table:
        _of_graph(name)
    kinds = " and ".join([str(v.ty) if isinstance(v, Expr) else _shown(v) for v in (a, b)])
    raise ArgumentError("E217", f"{name} of {kinds}",
                        help="operands are expressions of one level and numbers; R.const(array) is an expression")  # fmt: skip


_PLAIN = frozenset(("builtins", "numpy", "torch"))
"""Packages whose objects have no operators with expressions."""


def _root(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"


def _compare(expr: Expr, other: object) -> Any:
    """Comparisons would be conditions of Python, which are true for any object."""
    if not isinstance(other, Expr) and _root(other) not in _PLAIN:
        return NotImplemented
    raise ArgumentError("E217", f"an order of {expr.ty} and {_shown(other)} is not for Python to decide",
                        help="write tir.LT(a, b) or R.less(x, y); what is known of sizes: arith.Analyzer().can_prove")  # fmt: skip


@node
class PrimType(Type):
    """A scalar (or vector of lanes) held in a register."""

    dtype: DataType

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DataType):
            set_field(self, "dtype", DataType(self.dtype))

    def __reduce__(self) -> tuple[Callable[[str], PrimType], tuple[str]]:
        return prim_type, (self.dtype.name,)  # a copy is the one PrimType of its data type


_PRIM: dict[str, PrimType] = {}


def prim_type(dtype: DataType | str) -> PrimType:
    """Return the PrimType of ``dtype``; it is interned: compare with ``is``."""
    name = dtype.name if type(dtype) is DataType else dtype if isinstance(dtype, str) else DataType(dtype).name
    found = _PRIM.get(name)
    if found is None:
        data_type = DataType(dtype)
        found = _PRIM.setdefault(data_type.name, PrimType(data_type))
        _PRIM[name] = found
    return found


@node
class PointerType(Type):
    """Address of elements in a storage scope ("global", "shared", "local", ...)."""

    element: Type
    scope: str = "global"


def pointed(ty: Type) -> DataType | None:
    """The data type of what a pointer points to; None for a type that does not say it."""
    return ty.element.dtype if isinstance(ty, PointerType) and isinstance(ty.element, PrimType) else None


@node
class ObjectType(Type):
    """Top of the type order: anything."""


@node
class ShapeType(Type):
    """A shape value. ``values`` are its dimensions if known; ``ndim`` is -1 when even the rank is unknown."""

    values: tuple[Expr, ...] | None = None
    ndim: int = -1


@node
class TensorType(Type):
    """A tensor. ``shape`` is a ShapeExpr, a Var of ShapeType, or None; ``dtype`` None and ``ndim`` -1 mean unknown.

    Use ``tensor_type(shape, dtype)`` to make one; ``dims(ty)`` gives the dimensions when they are known.
    """

    shape: Expr | None = None
    dtype: DataType | None = None
    ndim: int = -1
    vdevice: str | None = None


@node
class TupleType(Type):
    """A tuple; the empty tuple is the type of "no value"."""

    fields: tuple[Type, ...] = ()


@node
class FuncType(Type):
    """A function. ``params`` None means opaque: any arguments. ``derive`` names a registered rule, ``rule(call, None)``, that
    gives the result type of a call.

    Symbols that first show in ``params`` are bound there and may be used in ``ret``.
    """

    params: Def[tuple[Type, ...] | None]
    ret: Type
    pure: bool = True
    derive: str | None = None


VOID_TYPE = TupleType(())
OBJECT = ObjectType()
