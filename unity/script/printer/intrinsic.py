"""Printing of tensor-level intrinsics: ``T.exp(x)``, with the result type where the arguments do not give it.

Invariant: a call whose plain spelling would fold or convert on reading is written ``T.call_intrin(dtype, name, ...)``.
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.expr import Call, IntImm, Op
from ...ir.intrinsic import INTRINSICS
from ...ir.types import PointerType, PrimType, Type, prim_type
from ..spelling.spelling import DTYPE_DEFAULT, DTYPE_FIRST
from .core import RAW, VALUE, Printer, quote
from .scalar import pair_places

_BOOL = prim_type("bool")
_SAME_PAIR = frozenset(
    name for name, row in INTRINSICS.items()
    if row.result == "same" and row.arity == (2, 2) and name not in ("T.ldexp", "T.shift_left", "T.shift_right")
)  # fmt: skip


def dtype_text(ty: Type) -> str:
    """A result type as an argument: ``"float32"``, or ``T.handle("float32", "shared")``."""
    if type(ty) is PrimType:
        return f'"{ty.dtype.name}"'
    if type(ty) is PointerType:
        return pointer_text(ty)
    return '"handle"'


def pointer_text(ty: PointerType) -> str:
    """``T.handle("float32", "shared")``."""
    element = ty.element.dtype.name if type(ty.element) is PrimType else "handle"
    return f'T.handle("{element}")' if ty.scope == "global" else f'T.handle("{element}", {quote(ty.scope)})'


def _inferred(name: str, node: Call) -> bool:
    """True when the type of the call follows from its arguments."""
    row = INTRINSICS[name]
    args = node.args
    result = row.result
    if result == "same":
        return bool(args) and args[0].ty is node.ty
    if result == "second":
        return len(args) > 1 and args[1].ty is node.ty
    if result == "bool":
        if not args or type(args[0].ty) is not PrimType:
            return node.ty is _BOOL
        return node.ty is prim_type(DataType("bool").with_lanes(args[0].ty.dtype.lanes))
    return result == "given" or node.ty is prim_type(result)


def intrinsic(p: Printer, node: Call) -> None:
    """``T.name(args)`` with the result type where it is not implied."""
    assert isinstance(node.op, Op)
    name = node.op.name
    row = INTRINSICS.get(name)
    args = node.args
    choice = name == "T.if_then_else" and len(args) == 3
    raw = row is None or not _inferred(name, node) or bool(node.attrs) or bool(node.ty_args)
    if choice:
        raw = raw or args[1].ty is not args[2].ty or type(args[0]) is IntImm or args[0].ty is not _BOOL
    if name in _SAME_PAIR and len(args) == 2:
        raw = raw or args[0].ty is not args[1].ty
    if raw:
        p.put(f"T.call_intrin({dtype_text(node.ty)}, {quote(name)}")
        for arg in args:
            p.put(", ", (arg, RAW))
        p.put(")")
        return
    p.put(f"{p.word(name)}(")
    first = True
    if name in DTYPE_FIRST:
        p.put(dtype_text(node.ty))
        first = False
    contexts = [VALUE] * len(args)
    if len(args) == 2 and name in _SAME_PAIR:
        contexts = list(pair_places(args[0], args[1]))
    elif choice:
        contexts = [VALUE, *pair_places(args[1], args[2])]
    for arg, context in zip(args, contexts):
        if not first:
            p.put(", ")
        first = False
        p.expr(arg, context)
    if row is not None and row.result == "given" and name not in DTYPE_FIRST:
        default = DTYPE_DEFAULT.get(name)
        if default is None or node.ty is not prim_type(default):
            p.put(f"dtype={dtype_text(node.ty)}" if first else f", dtype={dtype_text(node.ty)}")
    p.put(")")
