"""Tensor-level calls: data types, node forms, intrinsics.

Not here: spellings with a reading rule of their own (``tir_special.py``), operators and buffer accesses (``tir_access.py``),
statements. Invariant: node-name forms (``T.Add``) build the raw
node, ``T.max`` and its like fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ffi.dtype import DataType
from ...ir import (
    Broadcast as BroadcastNode,
    Buffer,
    Call,
    Expr,
    GlobalVar,
    IntImm,
    PointerType,
    PrimType,
    Ramp,
    Shuffle,
    StringImm,
    Type,
    Var,
    build as b,
    op,
    prim_type,
    scalar as scalar_nodes,
)  # fmt: skip
from ...ir.intrinsic import INTRINSICS
from ...ir.types import VOID_TYPE
from ..parser import syntax as s
from ..spelling.spelling import DTYPE_DEFAULT, DTYPE_FIRST, NAME_FIRST, NODE_FORMS
from .base import bind_arguments, suggest
from .buffers import BufferSpec
from .plain import is_number
from .tir_access import TensorValueReader
from .tir_special import TENSOR_FORMS
from .types import TYPE_CALLS, dtype_name

_BUILD: dict[str, Callable[..., Expr]] = {
    "+": b.add, "-": b.sub, "*": b.mul, "/": b.div, "//": b.floordiv, "%": b.floormod, "==": b.eq, "!=": b.ne, "<": b.lt,
    "<=": b.le, ">": b.gt, ">=": b.ge, "and": b.logical_and, "or": b.logical_or,
}  # fmt: skip
_HELPERS: dict[str, Callable[..., Expr]] = {
    "maximum": b.maximum, "minimum": b.minimum, "truncdiv": b.truncdiv, "truncmod": b.truncmod, "floordiv": b.floordiv,
    "floormod": b.floormod, "div": b.div,
}  # fmt: skip
_BUFFER_MAKERS = frozenset(("T.Buffer",))


class TensorExprReader(TensorValueReader):
    """Evaluates expressions of tensor programs."""

    # ----------------------------------------------------------------------------------------------------------- calls

    def subscript_path(self, path: str, node: s.Subscript) -> Any:
        if path in _BUFFER_MAKERS:
            args = [self.evaluate(item) for item in node.items]
            return self.buffer_spec(path, node, args, {})
        if path in TYPE_CALLS:
            return self.make_type(path, node, [self.evaluate(item) for item in node.items], {})
        name = dtype_name(path)
        if name is not None:
            return BufferSpec(
                tuple([self.index(self.evaluate(item), item) for item in node.items]), DataType(name), scope="local"
            )
        return super().subscript_path(path, node)

    def buffer_spec(self, path: str, node: s.Syntax, args: list[Any], keywords: dict[str, Any]) -> BufferSpec:
        """A buffer description from the arguments of ``T.Buffer`` and its kin."""
        return BufferSpec.read(self, path, node, args, keywords)

    def call_path(self, path: str, node: s.Call) -> Any:
        special = TENSOR_FORMS.get(path)
        if special is not None:
            return special(self, path, node)
        if path in TYPE_CALLS and (path != "T.handle" or node.args or node.keywords):
            args, keywords = self.arguments(node)
            made = self.make_type(path, node, args, keywords)
            if isinstance(made, PointerType) and not self.defining and self.hint:
                return self.declare_pointer(made)
            return made
        name = dtype_name(path) if path != "T.handle" else "handle"
        if name is not None:
            return self._dtype_call(name, node)
        form = NODE_FORMS.get(path)
        if form is not None:
            return self._node_form(form, node)
        if path in INTRINSICS:
            return self._intrinsic(path, node)
        if "." not in path or path.startswith("math."):
            return self.call_builtin(path, node)
        known = (*INTRINSICS, *NODE_FORMS, *TENSOR_FORMS)
        raise self.error("E111", f"unknown function {path}", node.func, suggest(path, known))

    def _dtype_call(self, name: str, node: s.Call) -> Any:
        args, keywords = self.arguments(node)
        keywords.pop("is_size_var", None)
        bound = bind_arguments(self.reading, node, f"T.{name}", ("value",), args, keywords, 0)
        dtype = DataType(name)
        if "value" not in bound or bound["value"] is None:
            return self.declare_symbol(dtype, node)
        value = bound["value"]
        if type(value) is str:
            if not dtype.is_float or value.lstrip("+-") not in ("inf", "nan", "infinity"):
                raise self.error("E106", f"T.{name} of the text {value!r}", node, 'texts are "inf", "-inf", "nan"')
            value = float(value)
        span = self.reading.span(node)
        if is_number(value):
            finite = type(value) is not float or math.isfinite(value)
            if dtype.is_integral and finite and b.wrap_int(int(value), dtype) != int(value):
                raise self.error("E106", f"{value} is outside the range of {name}", node)
            return b.const(value, dtype, span)
        return b.cast(self.expr(value, node), dtype, span)

    def declare_symbol(self, dtype: DataType, node: s.Call) -> Expr:
        """``n = T.int64()``: the symbol named by the target of the assignment."""
        if not self.hint or self.naming is not node:
            message = f"T.{dtype.name}() declares a symbol, which needs a name"
            raise self.error("E113", message, node, f"write n = T.{dtype.name}()")
        name = self.hint
        found = self.symbols.get(name)
        if isinstance(found, Var) and found.ty is prim_type(dtype):
            self.declared.add(found)
            return found
        made = Var(name, prim_type(dtype))
        self.declared.add(made)
        if dtype.is_integral:
            self.symbols[name] = made
        return made

    def declare_pointer(self, ty: PointerType) -> Var:
        """``p = T.handle("float32")``: a pointer that comes from outside."""
        made = Var(self.hint, ty)
        self.declared.add(made)
        return made

    def _node_form(self, form: Any, node: s.Call) -> Expr:
        args, keywords = self.arguments(node)
        fields = form.fields
        if form.node == "Select":
            keywords = {"condition" if key == "cond" else key: value for key, value in keywords.items()}
        bound = bind_arguments(self.reading, node, form.name, fields, args, keywords, len(fields))
        values = [bound[field] for field in fields]
        span = self.reading.span(node)
        if form.helper is not None:
            return _HELPERS[form.helper](self.operand(values[0], node), self.operand(values[1], node), span)
        match form.node:
            case "Ramp":
                return self._ramp(values, node)
            case "Broadcast":
                return self._broadcast(values, node)
            case "Shuffle":
                vectors = tuple([self.expr(item, node) for item in self.items(values[0], node)])
                picks = tuple([self.expr(item, node) for item in self.items(values[1], node)])
                if not vectors or not picks:
                    raise self.error("E113", "a shuffle takes vectors and picks some of their lanes", node)
                lanes = len(picks)
                element = b.dtype_of(vectors[0]).element
                return Shuffle(vectors, picks, prim_type(element.with_lanes(lanes)), span)
            case "Not":
                x = self.expr(values[0], node)
                return scalar_nodes.Not(x, b.bool_like(x), span)
            case "Select":
                x, y = b.unify(self.operand(values[1], node), self.operand(values[2], node))
                return scalar_nodes.Select(self.expr(values[0], node), x, y, x.ty, span)  # type: ignore[arg-type]
        x, y = b.unify(self.operand(values[0], node), self.operand(values[1], node))
        made = getattr(scalar_nodes, form.node)
        compares = issubclass(made, scalar_nodes.Compare) or form.node in ("And", "Or")
        ty = b.bool_like(x) if compares else x.ty
        return made(x, y, ty, span)  # type: ignore[no-any-return]

    def _lanes(self, value: Any, node: s.Syntax) -> tuple[int, bool]:
        if type(value) in (int, IntImm):
            lanes = self.as_integer(value, node)
            if 0 < lanes <= 65536:
                return lanes, False
        if type(value) is Call and getattr(value.op, "name", "") == "T.vscale":
            return 1, True
        if isinstance(value, scalar_nodes.Mul):
            for side, other in ((value.a, value.b), (value.b, value.a)):
                if type(other) is IntImm and self._lanes_of_vscale(side):
                    return other.value, True
        raise self.error("E113", "lanes must be a positive constant, or T.vscale() times one", node)

    def _lanes_of_vscale(self, value: Expr) -> bool:
        return type(value) is Call and getattr(value.op, "name", "") == "T.vscale"

    def _ramp(self, values: list[Any], node: s.Call) -> Expr:
        x, y = b.unify(self.index(values[0], node), self.operand(values[1], node))
        lanes, scalable = self._lanes(values[2], node)
        ty = prim_type(b.dtype_of(x).with_lanes(lanes, scalable))
        return Ramp(x, y, lanes, ty, self.reading.span(node))

    def _broadcast(self, values: list[Any], node: s.Call) -> Expr:
        x = self.expr(values[0], node)
        lanes, scalable = self._lanes(values[1], node)
        ty = prim_type(b.dtype_of(x).with_lanes(lanes, scalable))
        return BroadcastNode(x, lanes, ty, self.reading.span(node))

    def _intrinsic(self, path: str, node: s.Call) -> Expr:
        args, keywords = self.arguments(node)
        dtype = keywords.pop("dtype", None)
        if keywords:
            wrong = next(iter(keywords))
            raise self.error("E112", f"{path} has no argument {wrong!r}", node, suggest(wrong, ("dtype",)))
        row = INTRINSICS[path]
        if row.result == "given":
            if path in DTYPE_FIRST and dtype is None:
                if not args:
                    raise self.error("E112", f"{path} needs a data type first", node)
                dtype = args.pop(0)
            elif dtype is None and path not in NAME_FIRST and len(args) > row.arity[0] and type(args[0]) is str:
                dtype = args.pop(0)
            if dtype is None:
                dtype = DTYPE_DEFAULT.get(path)
            if path == "T.get_active_lane_mask" and type(dtype) is str:
                dtype = dtype.replace("uint1", "bool")  # bool's name up to 2024
            if dtype is None and path == "T.atomic_add" and len(args) > 1:
                return self._given(path, args, self.expr(args[1], node).ty, node)
            if dtype is None:
                raise self.error("E112", f"{path} needs dtype=", node)
            return self._given(path, args, self.result_type(dtype, node), node)
        if path in ("T.call_packed",) and args:
            args[0] = self.text(args[0], node)
        if row.result not in ("same", "second", "bool"):
            args = [arg.data if type(arg) is Buffer else arg for arg in args]
        operands = [self.operand(arg, node) for arg in args]
        made = b.intrinsic(path, *operands, span=self.reading.span(node))
        if dtype is not None and self.result_type(dtype, node) is not made.ty and type(made) is Call:
            return Call(made.op, made.args, made.attrs, made.ty_args, self.result_type(dtype, node), made.span)
        return made

    def result_type(self, value: Any, node: s.Syntax) -> Type:
        """A result type: data type or pointer type; ``void`` and ``handle`` as names."""
        if isinstance(value, Type):
            return value
        return prim_type(self.dtype(value if value != "" else "void", node))

    def _given(self, path: str, args: list[Any], ty: Type, node: s.Call) -> Expr:
        row = INTRINSICS[path]
        exprs = [self.argument(arg, node) for arg in args]
        if path.startswith("T.call_llvm") and len(exprs) > 1:
            count = exprs[1]
            if type(count) is IntImm and count.ty is prim_type("uint32") and count.value == len(exprs) - 2:
                exprs.pop(1)  # the old arity argument
        if path in NAME_FIRST and exprs and type(exprs[0]) is not StringImm:
            raise self.error("E113", f"{path} needs the name of the function as text", node)
        least, most = row.arity
        if len(exprs) < least or (most >= 0 and len(exprs) > most):
            raise self.error("E112", f"{path} got {len(exprs)} arguments", node)
        return Call(op(path), tuple(exprs), {}, (), ty, self.reading.span(node))

    def call_value(self, callee: Any, node: s.Call) -> Any:
        if isinstance(callee, GlobalVar):
            args, keywords = self.arguments(node)
            if keywords:
                raise self.error("E112", "a function of the module takes positional arguments", node)
            exprs = tuple([self.argument(arg, node) for arg in args])
            returned = self.returned(callee.name)
            ty = returned if isinstance(returned, PrimType) else prim_type("int32")
            return Call(callee, exprs, {}, (), ty, self.reading.span(node))
        return super().call_value(callee, node)

    def returned(self, name: str) -> Type:
        """The type that a tensor program of the module returns."""
        return VOID_TYPE
