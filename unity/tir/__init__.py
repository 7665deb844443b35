"""``unity.tir``: the names with which programs handle tensor programs in Python, as TVM's ``tvm.tir`` has them (``tvm.s_tir`` and
``tvm.tirx`` in later versions); ``analysis``, ``stmt_functor`` and ``transform`` are modules beside this one.

``tir.Schedule(mod)``, ``tir.TensorIntrin.register(...)``, ``tir.Var("n", "int64")``. Programs themselves are written in script or
with tensor expressions; nothing is defined here but what wraps a constructor. Functions of scalars (``tir.Select``, ``tir.all``,
``tir.exp``, ...) take what stands in a te.compute, and IR expressions, and give the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import te
from ..arith.index_map import IndexMap
from ..ffi.dtype import DataType
from ..ir import buffer as _buffer, build as _build, expr as _expr, function as _function, scalar, stmt as _stmt
from ..ir.buffer import Buffer, MatchBufferRegion
from ..ir.build import call_extern, ceildiv
from ..ir.constant import dtype_of
from ..ir.expr import Call, StringImm
from ..ir.intrinsic import INTRINSICS
from ..ir.scalar import Let
from ..ir.stmt import Stmt
from ..ir.types import VOID_TYPE, Expr, PointerType, Type, prim_type
from ..relax.nodes import makes
from ..support.arguments import make_public, public
from ..support.errors import ScheduleError, TypeRuleError
from ..support.lazy import lazy_names
from ..te.tensor import shape_of
from ..transform.schedule import Schedule, Trace
from ..transform.schedule.core.tensor_intrin import TensorIntrin


@makes(_expr.IntImm)
def IntImm(dtype: str | DataType, value: Any) -> Expr:
    """A literal of an integral type."""
    if not DataType(dtype).is_integral and not DataType(dtype).is_bool:
        raise TypeRuleError(
            "E201", f"an integer literal of {DataType(dtype).name}", help="write FloatImm(dtype, value)"
        )
    return _build.const(value, dtype)


@makes(_expr.FloatImm)
def FloatImm(dtype: str | DataType, value: Any) -> Expr:
    """A literal of a float type."""
    if not DataType(dtype).is_float:
        raise TypeRuleError("E201", f"a float literal of {DataType(dtype).name}", help="write IntImm(dtype, value)")
    return _build.const(value, dtype)


@makes(scalar.Cast)
def Cast(dtype: str | DataType, value: Any) -> Expr:
    """A scalar of another data type."""
    return _build.cast(te.to_scalar(value), dtype)


@makes(scalar.Ramp)
def Ramp(base: Any, stride: Any, lanes: int) -> Expr:
    """The vector ``base, base + stride, ...``."""
    return _build.ramp(te.to_scalar(base), te.to_scalar(stride), lanes)


@makes(scalar.Broadcast)
def Broadcast(value: Any, lanes: int) -> Expr:
    """The vector of ``lanes`` times a value."""
    return _build.broadcast(te.to_scalar(value), lanes)


@makes(scalar.BufferLoad)
def BufferLoad(buffer: Buffer, indices: Any) -> Expr:
    """An element of a buffer."""
    if not isinstance(buffer, Buffer):
        raise TypeRuleError("E201", f"an element of {buffer!r}, which is not a buffer")
    return scalar.BufferLoad(buffer, tuple([te.to_scalar(i, "int64") for i in indices]), prim_type(buffer.dtype))


@makes(_stmt.BufferStore)
def BufferStore(buffer: Buffer, value: Any, indices: Any, predicate: Any = None) -> _stmt.BufferStore:
    """``buffer[indices] = value``, where the predicate holds; a number is one of the buffer's type."""
    given = te.to_scalar(value, buffer.dtype.name), tuple([te.to_scalar(i, "int64") for i in indices])
    return _stmt.BufferStore(buffer, *given, None if predicate is None else te.to_scalar(predicate, "bool"))


@makes(_stmt.SeqStmt)
def SeqStmt(seq: Sequence[Stmt]) -> Stmt:
    """Statements one after the other."""
    return _stmt.seq(*seq)


def LetStmt(var: _expr.Var, value: Any, body: Stmt) -> Stmt:
    """``var`` stands for ``value`` in ``body``: a `Bind` before it."""
    return _stmt.seq(Bind(var, value), body)


@makes(_buffer.Range)
def Range(begin: Any, end: Any = None) -> _buffer.Range:
    """The interval from ``begin``, or from zero, up to the other end, which it has not."""
    low, high = (0, begin) if end is None else (begin, end)
    first = te.to_scalar(low, dtype_of(high).name if isinstance(high, Expr) else "int64")
    return _buffer.Range(first, _build.sub(te.to_scalar(high, dtype_of(first).name), first))


@makes(scalar.IterVar)
def IterVar(dom: Any, var: _expr.Var | str, iter_type: int | str, thread_tag: str = "") -> scalar.IterVar:
    """An iterator over ``Range(begin, end)``, or such a pair: ``IterVar.DataPar`` or "S", ``IterVar.CommReduce`` or "R", ..."""
    span = Range(*dom) if isinstance(dom, (list, tuple)) else dom
    made = _expr.Var(var, prim_type("int64" if span is None else dtype_of(span.min))) if isinstance(var, str) else var
    return scalar.IterVar(made, span, _ITERATORS[iter_type] if isinstance(iter_type, int) else iter_type, thread_tag)


_ITERATORS = ("S", "thread", "R", "scan", "opaque")
IterVar.DataPar, IterVar.ThreadIndex, IterVar.CommReduce, IterVar.Ordered, IterVar.Opaque = _ITERATORS


class ForKind:
    """Kinds of loops."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED = "serial", "parallel", "vectorized", "unrolled"
    THREAD_BINDING = "thread_binding"


def _parts(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_parts(part) for part in value])
    return te.to_scalar(value) if isinstance(value, (int, float, te.value.Operand)) else value


def _plain(kind: Callable[..., Any]) -> Any:
    """The constructor of a node, of numbers and lists too."""

    def make(*args: Any, **kwargs: Any) -> Any:
        return kind(*_parts(args), **{name: _parts(value) for name, value in kwargs.items()})

    make.__name__, make.__doc__ = kind.__name__, kind.__doc__
    return makes(kind)(make)  # type: ignore[arg-type]


AllocBuffer, AssertStmt, AttrStmt, Bind, BufferRegion, DeclBuffer, Evaluate, IfThenElse, While = [
    _plain(kind)
    for kind in (
        _stmt.AllocBuffer, _stmt.AssertStmt, _stmt.AttrStmt, _stmt.Bind, _buffer.BufferRegion, _stmt.DeclBuffer, _stmt.Evaluate,
        _stmt.IfThenElse, _stmt.While,
    )
]  # fmt: skip


@makes(_expr.Var)
def Var(name: str, dtype: str | DataType | Type = "int32") -> _expr.Var:
    """A scalar variable; integers are 32 bits wide unless ``dtype`` says otherwise, as in TVM."""
    if isinstance(dtype, Type):
        return _expr.Var(name, dtype)
    return _expr.Var(name, prim_type(dtype))


def SizeVar(name: str, dtype: str | DataType = "int64") -> _expr.Var:
    """A variable that stands for a size."""
    return _expr.Var(name, prim_type(dtype))


def const(value: Any, dtype: str | DataType = "int32") -> Expr:
    """A literal."""
    return _build.const(value, dtype)


def decl_buffer(
    shape: Any, dtype: str | DataType = "float32", name: str = "buffer", data: _expr.Var | None = None, strides: Any = (),
    elem_offset: Any = None, scope: str = "global", data_alignment: int = 64, offset_factor: int = 1,
) -> Buffer:  # fmt: skip
    """A buffer of a shape, behind a pointer of its own unless ``data`` is given."""
    pointer = data if data is not None else _expr.Var(name, PointerType(prim_type(dtype), scope))
    offset = None if elem_offset is None else te.to_scalar(elem_offset, "int64")
    return Buffer(
        pointer, DataType(dtype), shape_of(shape), shape_of(strides or ()), offset, name, data_alignment, offset_factor
    )


def _scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        made = te.unwrap(function(*[te.unwrap(a) for a in args]))
        return te.Value(made) if any([isinstance(a, te.value.Operand) for a in args]) else made

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


Select = makes(scalar.Select)(_scalar(te.select))
if_then_else = _scalar(te.if_then_else)
Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or = [
    makes(kind)(_scalar(_build.div if kind is scalar.Div else make)) for kind, make in _build.OPERATORS.items()
]
Not = makes(scalar.Not)(_scalar(_build.logical_not))
div, floordiv, floormod, truncdiv, truncmod, indexdiv, indexmod = [
    _scalar(f) for f in (te.div, te.floordiv, te.floormod, te.truncdiv, te.truncmod, te.indexdiv, te.indexmod)
]
min_value, max_value, infinity = _scalar(te.min_value), _scalar(te.max_value), _scalar(te.infinity)


def _block(
    iter_vars: Sequence[scalar.IterVar], reads: Sequence[_buffer.BufferRegion], writes: Sequence[_buffer.BufferRegion],
    name_hint: str, body: Stmt,
    init: Stmt | None = None, alloc_buffers: Sequence[Buffer] = (), match_buffers: Sequence[MatchBufferRegion] = (),
    annotations: Mapping[str, Any] | None = None,
) -> _stmt.Block:  # fmt: skip
    """A block; where it declares neither reads nor writes they are those of its body."""
    declared = tuple(reads) or None, tuple(writes) or None
    marks = dict(annotations or {})
    return _stmt.Block(
        tuple(iter_vars),
        *declared,
        tuple(alloc_buffers or ()),
        tuple(match_buffers or ()),
        marks,
        name_hint,
        body,
        init,
    )


@makes(_stmt.BlockRealize)
def BlockRealize(iter_values: Sequence[Any], predicate: Any, block: _stmt.Block) -> _stmt.BlockRealize:
    """A block with the values of its iterators, run where the predicate holds."""
    return _stmt.BlockRealize(tuple([te.to_scalar(v) for v in iter_values]), te.to_scalar(predicate, "bool"), block)


@makes(_stmt.For)
def For(
    loop_var: _expr.Var, min: Any, extent: Any, kind: str, body: Stmt, thread_binding: scalar.IterVar | str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> _stmt.For:  # fmt: skip
    """A loop; ``kind`` "serial", "parallel", "vectorized", "unrolled" or "thread_binding"."""
    dtype = dtype_of(loop_var).name
    tag = thread_binding.thread_tag if isinstance(thread_binding, scalar.IterVar) else thread_binding
    given = te.to_scalar(min, dtype), te.to_scalar(extent, dtype)
    return _stmt.For(loop_var, *given, kind, body, tag, dict(annotations) if annotations else None)


@makes(_function.PrimFunc)
def PrimFunc(
    params: Sequence[_expr.Var | Buffer], body: Stmt, ret_type: Type | None = None,
    buffer_map: Mapping[_expr.Var, Buffer] | None = None, attrs: Mapping[str, Any] | None = None,
) -> _function.PrimFunc:  # fmt: skip
    """A tensor program; a buffer as parameter stands behind a pointer of its own. The block around everything that TVM has ("root")
    is left out: its buffers are allocated before its body."""
    behind = dict(buffer_map or {})
    given = [p if isinstance(p, _expr.Var) else _expr.Var(f"{p.name}_handle", prim_type("handle")) for p in params]
    behind |= {var: p for var, p in zip(given, params) if isinstance(p, Buffer)}
    if isinstance(body, _stmt.BlockRealize) and body.block.name == "root" and not body.block.iter_vars:
        body = _stmt.seq(*[_stmt.AllocBuffer(b) for b in body.block.alloc_buffers], body.block.body)
    return _function.PrimFunc(tuple(given), behind, body, ret_type or VOID_TYPE, dict(attrs or {}))


Block = SBlock = makes(_stmt.Block)(_block)
SBlockRealize = BlockRealize
comm_reducer = te.comm_reducer
_FUNCTIONS = {
    "all": te.all, "any": te.any, "max": te.maximum, "min": te.minimum, "sum": te.sum,
    **{name: found for name, found in vars(te.math).items() if name in te.__all__},
}  # fmt: skip
"""Functions of scalars whose names are Python's own, or many."""


def call_packed(name: str, *args: Any) -> Expr:
    """A call of a registered function from a tensor program, with buffers and scalars: the statement of a ``te.extern``."""
    given = [a.data if isinstance(a, Buffer) else te.to_scalar(a) for a in args]
    return _build.intrinsic("call_packed", StringImm(name), *given, dtype="int32")


def call_intrin(dtype: str | DataType, name: str, *args: Any) -> Expr:
    """A call of an intrinsic by its name ("tir.exp"), with the data type of its result."""
    return _build.intrinsic(_expr.op(name).name, *[te.to_scalar(a) for a in args], dtype=dtype)


def _intrinsic(name: str) -> Callable[..., Any]:
    """The function that calls an intrinsic, with the data type of the result first where it is given."""
    row = INTRINSICS[f"T.{name}"]

    def call(*args: Any) -> Any:
        dtype, *given = args if row.result == "given" and args else (None, *args)
        parts = [
            StringImm(a) if isinstance(a, str) else a.data if isinstance(a, Buffer) else te.unwrap(a) for a in given
        ]
        made = _build.intrinsic(name, *parts, dtype=dtype)
        return te.Value(made) if any([isinstance(a, te.value.Operand) for a in args]) else made

    call.__name__ = call.__qualname__ = name
    call.__doc__ = row.doc
    return call


_module, _ = lazy_names(
    __name__,
    {"build": "..vm.build:build"}
    | {name: f".{name}:" for name in ("analysis", "schedule", "stmt_functor", "transform")},
)


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return public(_FUNCTIONS[name] if name == "sum" else _scalar(_FUNCTIONS[name]))
    return public(_intrinsic(name)) if f"T.{name}" in INTRINSICS else _module(name)


__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "AllocBuffer", "And", "AssertStmt", "AttrStmt", "Bind", "Block", "BlockRealize",
    "Broadcast", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast", "DeclBuffer", "Div", "Evaluate",
    "FloatImm", "FloorDiv", "FloorMod", "For", "ForKind", "IfThenElse", "IndexMap", "IntImm", "IterVar", "Let", "LetStmt", "Max",
    "Min", "Mod", "Mul", "Not", "Or", "PrimFunc", "Ramp", "Range", "SBlock", "SBlockRealize", "Schedule", "ScheduleError",
    "Select", "SeqStmt", "SizeVar", "Stmt", "StringImm", "Sub", "TensorIntrin", "Trace", "Var", "While", "call_extern",
    "call_intrin", "call_packed", "ceildiv", "comm_reducer", "const", "decl_buffer", "div", "floordiv", "floormod", "if_then_else",
    "indexdiv", "indexmod", "infinity", "max_value", "min_value", "schedule", "truncdiv", "truncmod",
]  # fmt: skip


def __dir__() -> list[str]:
    functions = [*_FUNCTIONS, *[name[2:] for name in INTRINSICS]]
    return sorted({*__all__, *functions, "analysis", "stmt_functor", "transform"})


make_public(globals(), __all__)
