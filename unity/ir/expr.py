"""Expressions shared by both levels (variables, literals, calls) and those of the graph level."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeGuard

from ..ffi.dtype import DataType
from ..ffi.tensor import Tensor
from ..support.arguments import checked, guarded
from ..support.source import Span
from .node import Aside, Def, Derived, Node, Own, node, set_field
from .types import Expr, FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type


@node
class Var(Expr):
    """A variable; identity is the object, ``name`` is a hint for printing. ``dataflow``: it is visible only inside its dataflow
    block."""

    name: str
    ty: Type
    span: Aside[Span | None] = None
    dataflow: bool = False

    @property
    def name_hint(self) -> str:
        """TVM's spelling of ``name``."""
        return self.name

    @property
    def vid(self) -> Var:
        """The variable itself, which is its identity."""
        return self


Var.is_reference = True


def is_dataflow_var(value: object) -> TypeGuard[Var]:
    """True for a ``value`` that is a variable visible only inside its dataflow block."""
    return isinstance(value, Var) and value.dataflow


@node
class GlobalVar(Expr):
    """Name of a function of the module."""

    name: str
    ty: Aside[Type] = ObjectType()
    span: Aside[Span | None] = None

    @property
    def name_hint(self) -> str:
        """TVM's spelling of ``name``."""
        return self.name


def _ordered(compare: Callable[[int, int], bool]) -> Callable[[Any, object], Any]:
    """The method that compares a constant with another, or with a number."""
    return lambda a, b: compare(a.value, int(b)) if isinstance(b, (int, IntImm)) else Expr.__lt__(a, b)


@node
class IntImm(Expr):
    """Integer or boolean constant."""

    value: int
    ty: PrimType
    span: Aside[Span | None] = None

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        """True for the same object, and for the number that it is."""
        return self is other or (isinstance(other, int) and self.value == other)

    __hash__ = Expr.__hash__

    __lt__, __le__, __gt__, __ge__ = map(_ordered, (operator.lt, operator.le, operator.gt, operator.ge))


@node
class FloatImm(Expr):
    """Floating-point constant, kept as a Python float (exactly representable in ``ty`` by construction)."""

    value: float
    ty: PrimType
    span: Aside[Span | None] = None

    def __float__(self) -> float:
        return self.value


@node
class StringImm(Expr):
    """Text constant."""

    value: str
    span: Aside[Span | None] = None

    @property
    def ty(self) -> Type:
        return ObjectType()


@node
class DataTypeImm(Expr):
    """A data type as a value, ``R.dtype("float32")``."""

    value: DataType
    span: Aside[Span | None] = None

    @property
    def ty(self) -> Type:
        return ObjectType()


@node
class Op(Expr):
    """An operator or intrinsic by its script spelling, e.g. ``R.nn.relu`` or ``T.exp``. Get one with ``op(name)``."""

    name: str

    @property
    def ty(self) -> Type:
        return ObjectType()

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return op, (self.name,)  # a copy is the one Op of its name

    @staticmethod
    @checked
    def get(name: str) -> Op:
        """TVM's spelling of ``op``: ``Op.get("relax.add")``."""
        return op(name)


_OPS: dict[str, Op] = {}
_OLD_PREFIXES = (("relax.", "R."), ("tirx.", "T."), ("tir.", "T."))
_OLD_NAMES = {
    "R.call_tir": "R.call_dps", "R.call_dps_packed": "R.call_dps", "R.call_tir_inplace": "R.call_inplace",
    "R.call_tir_with_grad": "R.call_dps_with_grad",
}  # fmt: skip


def op(name: str) -> Op:
    """The one Op of a name. Also takes TVM's names ``relax.add``, ``tir.exp``."""
    found = _OPS.get(name)
    if found is None:
        for old, new in _OLD_PREFIXES:
            if name.startswith(old):
                name = new + name[len(old) :]
                return op(_OLD_NAMES.get(name, name))
        found = _OPS[name] = Op(name)
    return found


@node
class ExternFunc(Expr):
    """A registered function by name."""

    name: str
    span: Aside[Span | None] = None
    attrs: Aside[dict[str, Any] | None] = None

    @property
    def global_symbol(self) -> str:
        """TVM's spelling of ``name``."""
        return self.name

    @property
    def ty(self) -> Type:
        return FuncType(None, ObjectType(), False)


@node
class Constant(Expr):
    """Tensor data inside the IR, shared not copied."""

    data: Tensor
    ty: TensorType
    span: Aside[Span | None] = None


class Attrs(dict[str, Any]):
    """Attributes by name: ``attrs["axis"]``, or ``attrs.axis`` as in TVM."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"no attribute {name!r}: there are {', '.join(self) or 'none'}")


@node
class Call(Expr):
    """Application of ``op`` (an Op, GlobalVar, ExternFunc, Var or Function) to arguments.

    ``attrs`` are compile-time values by name; ``ty_args`` are types given by the program (result types of call_dps).
    """

    op: Expr
    args: tuple[Expr, ...]
    attrs: dict[str, Any]
    ty_args: tuple[Type, ...]
    ty: Derived[Type]
    span: Aside[Span | None] = None

    def __post_init__(self) -> None:
        if self.attrs and type(self.attrs) is not Attrs:
            set_field(self, "attrs", Attrs(self.attrs))

    @property
    def op_name(self) -> str:
        return self.op.name if type(self.op) is Op else ""

    @property
    def sinfo_args(self) -> tuple[Type, ...]:
        """TVM's earlier spelling of ``ty_args``."""
        return self.ty_args

    @property
    def output_types(self) -> tuple[Type, ...]:
        """Types of the tensors that a call in destination-passing style makes."""
        types = self.ty_args
        return types[0].fields if len(types) == 1 and isinstance(types[0], TupleType) else types


@node
class Tuple(Expr):
    """A tuple value."""

    fields: tuple[Expr, ...]
    span: Aside[Span | None] = None

    @property
    def ty(self) -> TupleType:
        return TupleType(tuple([f.ty for f in self.fields]))

    def __getitem__(self, index: int) -> Expr:
        """The field itself. Raises as for any tuple."""
        found = Expr.__getitem__(self, index)
        assert isinstance(found, TupleGetItem)
        return self.fields[found.index]

    def __len__(self) -> int:
        return len(self.fields)

    def __bool__(self) -> bool:  # an empty tuple is a value
        return True


@node
class TupleGetItem(Expr):
    """Field ``index`` of a tuple value."""

    tuple_value: Expr
    index: int
    span: Aside[Span | None] = None

    @property
    def ty(self) -> Type:
        ty = self.tuple_value.ty
        return ty.fields[self.index] if isinstance(ty, TupleType) else ObjectType()


@node
class ShapeExpr(Expr):
    """A shape value from scalar expressions."""

    values: tuple[Expr, ...]
    span: Aside[Span | None] = None

    @property
    def ty(self) -> ShapeType:
        return ShapeType(self.values, len(self.values))

    @guarded
    def __getitem__(self, index: int) -> Expr:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:  # a shape of no dimensions is one
        return True


@node
class If(Expr):
    """Conditional value; the branches are SeqExprs and ``ty`` is the join of theirs."""

    cond: Expr
    then_branch: Expr
    else_branch: Expr
    ty: Derived[Type]
    span: Aside[Span | None] = None


class Binding(Node):
    """Base of the bindings of a block."""

    __slots__ = ()
    var: Var
    value: Expr
    span: Span | None


@node
class VarBinding(Binding):
    """``var = value``."""

    var: Own[Var]
    value: Expr
    span: Aside[Span | None] = None


@node
class MatchCast(Binding):
    """``var = match_cast(value, target)``: checked at run time; unbound symbols of ``target`` are bound by it."""

    var: Def[Var]
    value: Expr
    target: Def[Type]
    span: Aside[Span | None] = None

    @property
    def ty(self) -> Type:
        """TVM's spelling of ``target``; earlier ``struct_info``."""
        return self.target

    struct_info = ty


@node
class BindingBlock(Node):
    """Bindings in order, effects allowed."""

    bindings: tuple[Binding, ...]
    span: Aside[Span | None] = None


@node
class DataflowBlock(BindingBlock):
    """Bindings without effects; variables with ``dataflow`` are not visible outside."""


@node
class SeqExpr(Expr):
    """Blocks of bindings and then a value."""

    blocks: tuple[BindingBlock, ...]
    body: Expr
    span: Aside[Span | None] = None

    @property
    def bindings(self) -> list[Binding]:
        """The bindings of all blocks in order."""
        return [binding for block in self.blocks for binding in block.bindings]

    @property
    def ty(self) -> Type:
        return self.body.ty
