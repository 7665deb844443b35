"""Calls of intrinsics (``T.exp(x)``) and of nodes by name (``T.Add(a, b)``, ``T.max(a, b)``).

Invariant: forms with the name of a node build the raw node, ``T.max`` and its like fold.
"""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ir import (
    Broadcast,
    Buffer,
    Call,
    Expr,
    IntImm,
    PointerType,
    PrimType,
    Ramp,
    Shuffle,
    StringImm,
    Type,
    build as b,
    op,
    prim_type,
    scalar as scalar_nodes,
)  # fmt: skip
from ....ir.intrinsic import INTRINSICS
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.spelling import DTYPE_DEFAULT, DTYPE_FIRST, FOLDED, NAME_FIRST, NODE_FORMS
from ..common.calls import arguments
from ..common.reading import Reading, bind_arguments
from ..common.types import result_type
from ..common.values import as_expr, as_index, as_integer, as_operand, as_sequence, as_text, as_typed
from .expr import as_argument

_MAX_LANES = 65536


def node_form(r: Reading, path: str, node: s.Call) -> Expr:
    """A scalar node written as a call."""
    fields, name = NODE_FORMS[path], path[2:]
    args, keywords = arguments(r, node)
    if name == "Select":
        keywords = {"condition" if key == "cond" else key: value for key, value in keywords.items()}
    bound = bind_arguments(r, node, path, fields, args, keywords, len(fields))
    first, *rest = [bound[field] for field in fields]
    span = r.span(node)
    if path in FOLDED:
        folded: Expr = getattr(b, FOLDED[path])(as_operand(r, first, node), as_operand(r, rest[0], node), span)
        return folded
    match name:
        case "Ramp":
            x, y = b.unify(as_index(r, first, node), as_operand(r, rest[0], node))
            lanes, scalable = _lanes(r, rest[1], node)
            return Ramp(x, y, lanes, prim_type(b.dtype_of(x).with_lanes(lanes, scalable)), span)
        case "Broadcast":
            x = as_expr(r, first, node)
            lanes, scalable = _lanes(r, rest[0], node)
            return Broadcast(x, lanes, prim_type(b.dtype_of(x).with_lanes(lanes, scalable)), span)
        case "Shuffle":
            vectors = tuple([as_expr(r, item, node) for item in as_sequence(r, first, node)])
            picks = tuple([as_expr(r, item, node) for item in as_sequence(r, rest[0], node)])
            if not vectors or not picks:
                raise r.error("E113", "a shuffle takes vectors and picks some of their lanes", node)
            return Shuffle(vectors, picks, prim_type(b.dtype_of(vectors[0]).element.with_lanes(len(picks))), span)
        case "Not":
            x = as_expr(r, first, node)
            return scalar_nodes.Not(x, b.bool_like(x), span)
        case "Select":
            x, y = b.unify(as_operand(r, rest[0], node), as_operand(r, rest[1], node))
            return scalar_nodes.Select(as_expr(r, first, node), x, y, b.scalar_type(x), span)
    x, y = b.unify(as_operand(r, first, node), as_operand(r, rest[0], node))
    result: type[scalar_nodes.Binary] = getattr(scalar_nodes, name)
    compares = issubclass(result, scalar_nodes.Compare) or name in ("And", "Or")
    return result(x, y, b.bool_like(x) if compares else b.scalar_type(x), span)


def _lanes(r: Reading, value: Any, node: s.Syntax) -> tuple[int, bool]:
    if type(value) in (int, IntImm):
        lanes = as_integer(r, value, node)
        if 0 < lanes <= _MAX_LANES:
            return lanes, False
    if _is_vscale(value):
        return 1, True
    if isinstance(value, scalar_nodes.Mul):
        for side, other in ((value.a, value.b), (value.b, value.a)):
            if type(other) is IntImm and _is_vscale(side):
                return other.value, True
    raise r.error("E113", "lanes must be a positive constant, or T.vscale() times one", node)


def _is_vscale(value: Any) -> bool:
    return type(value) is Call and value.op_name == "T.vscale"


def intrinsic(r: Reading, path: str, node: s.Call) -> Expr:
    """A call of an intrinsic."""
    args, keywords = arguments(r, node)
    dtype = keywords.pop("dtype", None)
    if keywords:
        wrong = next(iter(keywords))
        raise r.error("E112", f"{path} has no argument {wrong!r}", node, suggest(wrong, ("dtype",)))
    row = INTRINSICS[path]
    if row.result == "given":
        return _typed_intrinsic(r, path, args, dtype, node)
    if path == "T.call_packed" and args:
        args[0] = as_text(r, args[0], node)
    if row.result not in ("same", "second", "bool"):
        args = [arg.data if type(arg) is Buffer else arg for arg in args]
    result = b.intrinsic(path, *[as_operand(r, arg, node) for arg in args], span=r.span(node))
    if dtype is not None and type(result) is Call:
        ty = result_type(r, dtype, node)
        if ty is not result.ty:
            return Call(result.op, result.args, result.attrs, result.ty_args, ty, result.span)
    return result


def typed_argument(r: Reading, path: str, value: Any, result: Type, node: s.Syntax) -> Expr:
    """An argument of a call whose result type the text gives; a float literal has that type, for a registered function all
    its digits. To an external function it is a float32, as in TVM."""
    if type(value) is float and path in ("T.call_packed", "T.call_cpacked"):
        return as_typed(r, value, DataType("float64"), node)
    extern = path in ("T.call_extern", "T.call_pure_extern")
    if type(value) is float and isinstance(result, PrimType) and result.dtype.is_float and not extern:
        return as_typed(r, value, result.dtype, node)
    return as_argument(r, value, node)


def _typed_intrinsic(r: Reading, path: str, args: list[Any], dtype: Any, node: s.Call) -> Expr:
    """A call of an intrinsic whose result type the text gives."""
    minimum, most = INTRINSICS[path].arity
    if dtype is None:
        if path in DTYPE_FIRST:
            if not args:
                raise r.error("E112", f"{path} needs a data type first", node)
            dtype = args.pop(0)
        elif path not in NAME_FIRST and len(args) > minimum and type(args[0]) is str:
            dtype = args.pop(0)
    if dtype is None:
        dtype = DTYPE_DEFAULT.get(path)
    if path == "T.get_active_lane_mask" and type(dtype) is str:
        dtype = dtype.replace("uint1", "bool")  # bool's name up to 2024
    ty: Type
    if dtype is None and path == "T.atomic_add" and len(args) > 1:
        place = args[0].data.ty if type(args[0]) is Buffer else getattr(args[0], "ty", None)
        element = place.element if isinstance(place, PointerType) and type(args[1]) is float else None
        ty = element or as_expr(r, args[1], node).ty
    elif dtype is None:
        raise r.error("E112", f"{path} needs dtype=", node)
    else:
        ty = result_type(r, dtype, node)
    exprs = [typed_argument(r, path, arg, ty, node) for arg in args]
    if path.startswith("T.call_llvm") and len(exprs) > 1:
        count = exprs[1]
        if type(count) is IntImm and count.ty is prim_type("uint32") and count.value == len(exprs) - 2:
            exprs.pop(1)  # the old arity argument
    if path in NAME_FIRST and exprs and type(exprs[0]) is not StringImm:
        raise r.error("E113", f"{path} needs the name of the function as text", node)
    if len(exprs) < minimum or (most >= 0 and len(exprs) > most):
        raise r.error("E112", f"{path} got {len(exprs)} arguments", node)
    return Call(op(path), tuple(exprs), {}, (), ty, r.span(node))
