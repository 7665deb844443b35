"""Graph-level expressions: operators from the table, calls across levels, constants, shapes, tuples.

Not here: statements (``relax.py``), values with a spelling of their own (``relax_forms.py``). Invariant: a call read
here carries its inferred type; nothing is bound to a variable yet (the block builder does that).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.dtype import DataType
from ...ffi.tensor import Tensor
from ...ir import (
    OPS,
    Call,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    IRModule,
    Op,
    PrimFunc,
    PrimType,
    ShapeExpr,
    ShapeType,
    StringImm,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    build as b,
    make_call,
    op,
    prim_type,
)  # fmt: skip
from ...ir.op import similar_ops
from ...ir.relation import tensor_type
from ...op.common.table import bind_arguments as bind_operator, call_arguments, constant
from ..parser import syntax as s
from ..spelling.spelling import INFIX, KEYWORDS, PREFIX_GRAPH
from .base import bind_arguments, suggest
from .constants import attribute_value
from .plain import is_number
from .relax_forms import GRAPH_FORMS
from .scope import Dotted, Macro
from .tir_expr import TensorExprReader

_INT64 = prim_type("int64")
_GRADIENT = ("te_grad_name", "te_grad_kwargs")
_CALL_DPS = frozenset(("R.call_dps", "R.call_inplace", "R.call_dps_with_grad"))
_TYPE_FIELDS: dict[type, tuple[str, ...]] = {
    TensorType: ("shape", "dtype", "ndim"), ShapeType: ("values", "ndim"), TupleType: ("fields",), PrimType: ("dtype",),
    ShapeExpr: ("values",),
}  # fmt: skip
"""The fields of the type ``x.ty``, where the text asks for a part of it."""
_PACKED = frozenset(("R.call_packed", "R.call_pure_packed", "R.call_inplace_packed", "R.call_py_func"))
_REFUSED = {
    "R.emit_te": "calls a Python function while reading; build the function with BlockBuilder.emit_te, or write the operator",
    "R.dist": "distributed tensors are not part of this compiler",
    "I.pyfunc": "a Python function inside a module cannot be read as data; register it with register_func and use R.call_packed",
}


@dataclass(slots=True, frozen=True)
class RunTimeDtype:
    """``x.dtype`` of a tensor whose data type only running knows; ``x.dtype.bits`` asks for it."""

    tensor: Expr


class GraphExprReader(TensorExprReader):
    """Evaluates expressions of graph functions."""

    level = "R"

    # ------------------------------------------------------------------------------------------------------ conversion

    def expr(self, value: Any, node: s.Syntax) -> Expr:
        """A value as graph expression."""
        if type(value) is Function:
            return self.adopt(value, node)
        if isinstance(value, Expr):
            return value
        if isinstance(value, (tuple, list)):
            parts = [self.expr(item, node) for item in value]
            if parts and all([isinstance(part.ty, PrimType) for part in parts]):
                return ShapeExpr(tuple([self.dimension(item, node) for item in value]), self.reading.span(node))
            return Tuple(tuple(parts), self.reading.span(node))
        if is_number(value):
            default = "bool" if type(value) is bool else "int64" if type(value) is int else "float32"
            return b.const(value, default, self.reading.span(node))
        if type(value) is str:
            return StringImm(value, self.reading.span(node))
        if type(value) is DataType:
            return DataTypeImm(value, self.reading.span(node))
        if type(value) is Tensor or isinstance(value, np.ndarray):
            return constant(value if type(value) is Tensor else Tensor(np.ascontiguousarray(value)))
        if type(value) is Dotted:
            if value.text in OPS:
                return op(value.text)
            raise self.error("E111", f"unknown operator {value.text}", node, _similar(value.text))
        if type(value) is PrimFunc:
            return self.adopt(value, node)
        raise self.error("E113", "expected an expression", node)

    def adopt(self, fn: Any, node: s.Syntax) -> Expr:
        """A function of the enclosing scope as a reference: it becomes part of the module."""
        raise self.error("E113", "a function from outside is possible only inside a module", node)

    def _is_scalar(self, value: Any) -> bool:
        return is_number(value) or (isinstance(value, Expr) and isinstance(value.ty, PrimType))

    # ------------------------------------------------------------------------------------------------------- operators

    def binary_ir(self, op_text: str, left: Any, right: Any, node: s.Syntax) -> Any:
        if self._is_scalar(left) and self._is_scalar(right):
            return super().binary_ir(op_text, left, right, node)
        row = INFIX.get(op_text)
        if row is None or row.graph is None:
            raise self.error("E107", f"operator {op_text} has no meaning for tensors", node)
        return self.operator(row.graph, [left, right], {}, node)

    def unary_ir(self, op_text: str, value: Any, node: s.Syntax) -> Any:
        if self._is_scalar(value):
            return super().unary_ir(op_text, value, node)
        if op_text == "+":
            return value
        return self.operator(PREFIX_GRAPH[op_text], [value], {}, node)

    def conditional(self, condition: Any, node: s.IfExp) -> Any:
        if self._is_scalar(condition):
            then, otherwise = self.evaluate(node.then), self.evaluate(node.otherwise)
            if self._is_scalar(then) and self._is_scalar(otherwise):
                return b.if_then_else(condition, then, otherwise, self.reading.span(node))
        raise self.error("E107", "a conditional expression on tensors", node, "write if/else statements")

    def subscript(self, value: Any, node: s.Subscript) -> Any:
        if isinstance(value, Expr):
            ty = value.ty
            if isinstance(ty, TupleType) and len(node.items) == 1:
                return self.field(value, self.integer(node.items[0]), node)
            if isinstance(ty, ShapeType) and len(node.items) == 1 and ty.values is not None:
                index = self.integer(node.items[0])
                if -len(ty.values) <= index < len(ty.values):
                    return ty.values[index]
            if type(value) is Call and value.op is op("R.shape_of"):  # of a tensor whose rank only running knows
                return self.operator(
                    "R.inspect.tensor_shape_i", [value.args[0], self.evaluate(node.items[0])], {}, node
                )
            if isinstance(ty, TensorType):
                raise self.error(
                    "E113", "a tensor takes no index in a graph function", node, "use R.strided_slice or R.take"
                )
            if not isinstance(ty, (PrimType, ShapeType, TupleType)) and len(node.items) == 1:
                return self.field(value, self.integer(node.items[0]), node)
        return super().subscript(value, node)

    def field(self, value: Expr, index: int, node: s.Syntax) -> Expr:
        """A field of a tuple; of a value whose type is not known, by its number alone."""
        if isinstance(value.ty, TupleType):
            if not -len(value.ty.fields) <= index < len(value.ty.fields):
                raise self.error("E113", f"field {index} of a tuple with {len(value.ty.fields)}", node)
            index %= len(value.ty.fields)
            if type(value) is Tuple:
                return value.fields[index]
        return TupleGetItem(value, index, self.reading.span(node))

    def attribute(self, value: Any, node: s.Attribute) -> Any:
        if type(value) is IRModule:
            found = value.functions.get(node.name)
            if found is None:
                raise self.error(
                    "E110", f"the module has no function {node.name!r}", node, suggest(node.name, value.functions)
                )
            return found
        if isinstance(value, Expr) and isinstance(value.ty, TensorType):
            if node.name == "shape":
                return self.operator("R.shape_of", [value], {}, node)
            if node.name == "dtype":
                return value.ty.dtype or RunTimeDtype(value)
            if node.name in ("ndim", "byte_offset", "elem_offset"):
                return self.operator(f"R.inspect.tensor_{node.name}", [value], {}, node)
        if isinstance(value, Expr) and node.name in ("ty", "struct_info"):
            return value.ty
        if isinstance(value, (Type, ShapeExpr)) and node.name in _TYPE_FIELDS.get(type(value), ()):
            found = getattr(value, node.name)
            if found is None:
                raise self.error("E113", f"{node.name} of {value} is not known here", node)
            return found
        if type(value) is RunTimeDtype and node.name in ("bits", "lanes", "code"):
            return self.operator(f"R.inspect.tensor_dtype_{node.name}", [value.tensor], {}, node)
        return super().attribute(value, node)

    def call_method(self, value: Any, name: str, node: s.Call) -> Any:
        if isinstance(value, Expr) and not self._is_scalar(value):
            if name == "astype":
                args, keywords = self.arguments(node)
                return self.operator("R.astype", [value, *args], keywords, node)
            raise self.error(
                "E111", f"no method {name!r} here", node.func, f"use R.{name}(...)" if f"R.{name}" in OPS else None
            )
        return super().call_method(value, name, node)

    # ----------------------------------------------------------------------------------------------------------- calls

    def constant_path(self, path: str, node: s.Syntax) -> Any:
        if path in OPS:
            return op(path)
        return super().constant_path(path, node)

    def _name(self, node: s.Name) -> Any:
        if node.name == "_":
            raise self.error("E113", "`_` stands for a value that is not used: give it a name", node)
        return super()._name(node)

    def unknown_name(self, node: s.Name) -> Any:
        if node.name == "metadata":
            raise self.error(
                "E124", "the constants of a metadata section are not part of this text", node,
                'print it with script(show_meta=True), or lend them: parse(text, scope={"metadata": metadata(mod)})',
            )  # fmt: skip
        return super().unknown_name(node)

    def call_path(self, path: str, node: s.Call) -> Any:
        special = GRAPH_FORMS.get(path)
        if special is not None:
            return special(self, path, node)
        if path.startswith("R."):
            if path in _CALL_DPS:
                return self._call_dps(path, node)
            for prefix, reason in _REFUSED.items():
                if path == prefix or path.startswith(prefix + "."):
                    raise self.error("E117", f"{path}: {reason}", node)
            if path[2:].split(".")[0] in ("Tensor", "Shape", "Prim", "Object", "Tuple", "Callable"):
                return super().call_path(path, node)
            args, keywords = self.arguments(node)
            return self.operator(path, args, keywords, node)
        return super().call_path(path, node)

    def operator(self, path: str, args: list[Any], keywords: dict[str, Any], node: s.Syntax) -> Expr:
        """A call of an operator of the table, arguments bound by its row."""
        info = OPS.get(path)
        if info is None:
            place = node.func if type(node) is s.Call else node
            raise self.error("E111", f"unknown operator {path}", place, _similar(path))
        span = self.reading.span(node)
        keywords = {KEYWORDS.get(key, key): value for key, value in keywords.items()}
        ty_args = self._type_arguments(keywords.pop("ty_args", None), node)
        if path == "R.call_py_func" and "out_ty" in keywords:
            ty_args = self._type_arguments(keywords.pop("out_ty"), node)
        known = {param.name for param in info.params}
        extra = {} if path not in _PACKED else {k: keywords.pop(k) for k in list(keywords) if k not in known}
        if info.variadic and len(args) > 1 and all([isinstance(arg, Expr) for arg in args]):
            args = [tuple(args)]
        values, attrs = bind_operator(info, args, keywords, span)
        if info.params and info.params[0].name == "func":
            values[0] = self.callee(values[0], node)
        if [(p.name, p.kind) for p in info.params[1:2]] == [("args", "expr")] and isinstance(values[1], (tuple, list)):
            values[1] = Tuple(
                tuple([self.expr(item, node) for item in values[1]]), span
            )  # scalars among them are no shape
        exprs = call_arguments(info, [self.expr(value, node) for value in values])
        made = {key: attribute_value(value) for key, value in (attrs | extra).items()}
        return make_call(op(path), exprs, made, ty_args, span)

    def make_type(self, path: str, node: s.Call | s.Subscript, args: list[Any], keywords: dict[str, Any]) -> Any:
        """A type; ``R.Tuple`` of values is the tuple of them, as in Python."""
        given = args[0] if path == "R.Tuple" and len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if path == "R.Tuple" and not self.defining and given and all([isinstance(field, Expr) for field in given]):
            return Tuple(tuple(given), self.reading.span(node))
        return super().make_type(path, node, args, keywords)

    def _type_arguments(self, value: Any, node: s.Syntax) -> tuple[Type, ...]:
        if value is None:
            return ()
        items = value if isinstance(value, (tuple, list)) else (value,)
        return tuple([self.as_type(item, node) for item in items])

    def callee(self, value: Any, node: s.Syntax) -> Expr:
        """The function of a call: text names a registered one."""
        if type(value) is str:
            return ExternFunc(value, self.reading.span(node))
        if isinstance(value, (PrimFunc, Function)):
            return self.adopt(value, node)
        if isinstance(value, Expr):
            return value
        raise self.error("E113", "expected a function of the module or the name of a registered one", node)

    def _call_dps(self, path: str, node: s.Call) -> Expr:
        args, keywords = self._dps_arguments(node)
        keywords = {KEYWORDS.get(key, key): value for key, value in keywords.items()}
        dtype = keywords.pop("dtype", None)
        if args and (isinstance(args[0], (tuple, list)) or type(args[0]) is ShapeExpr):
            shape = args.pop(0)  # 2021: (shape, function, arguments)
            args = [*args[:2], shape, *args[2:]]
        fields = ("func", "args", "out_ty", "tir_vars") if path != "R.call_inplace" else (
            "func", "args", "inplace_indices", "out_ty", "tir_vars")  # fmt: skip
        if (path == "R.call_inplace" and len(args) == 3 and not isinstance(args[2], (list, int))) or (
            path == "R.call_inplace" and len(args) == 3 and "inplace_indices" in keywords
        ):
            fields = ("func", "args", "out_ty", "inplace_indices", "tir_vars")
        extra: dict[str, Any] = {key: keywords.pop(key) for key in _GRADIENT if key in keywords}
        bound = bind_arguments(self.reading, node, path, (*fields, "inplace_indices"), args, keywords, 2)
        func = self.callee(bound["func"], node)
        span = self.reading.span(node)
        given = bound["args"]
        if isinstance(given, (tuple, list)):
            operands: Expr = Tuple(tuple([self.expr(item, node) for item in given]), span)
        else:
            operands = self.expr(given, node)
            if not isinstance(operands.ty, TupleType):
                operands = Tuple((operands,), span)
        if bound.get("out_ty") is None:
            raise self.error(
                "E112", f"{path} needs the type of its result", node, 'write it last: R.Tensor((n, m), "float32")'
            )
        ty_args = self._out_types(bound["out_ty"], dtype, operands, node)
        call_args = [func, operands]
        if bound.get("tir_vars") is not None:
            call_args.append(self.expr(bound["tir_vars"], node))
        attrs = {key: attribute_value(value) for key, value in extra.items()}
        if path == "R.call_inplace":
            indices = bound.get("inplace_indices")
            if indices is None:
                raise self.error("E112", f"{path} needs inplace_indices", node)
            attrs["inplace_indices"] = attribute_value(indices if isinstance(indices, (tuple, list)) else [indices])
        if path == "R.call_dps_with_grad":
            attrs.setdefault("te_grad_kwargs", None)
        return make_call(op(path), call_args, attrs, ty_args, span)

    def _dps_arguments(self, node: s.Call) -> tuple[list[Any], dict[str, Any]]:
        return self.arguments(node)

    def _out_types(self, value: Any, dtype: Any, operands: Expr, node: s.Syntax) -> tuple[Type, ...]:
        """Types of the outputs; a bare shape (2021, 2022) takes ``dtype=`` or the first tensor argument's type."""
        if isinstance(value, Type):
            return value.fields if isinstance(value, TupleType) else (value,)
        if type(value) is Dotted:
            return (self.as_type(value, node),)
        items = list(value) if isinstance(value, (tuple, list)) else [value]
        if items and all([isinstance(item, Type) for item in items]):
            return tuple(items)
        shapes = items if items and all([isinstance(item, (tuple, list, ShapeExpr)) for item in items]) else [value]
        dtypes = dtype if isinstance(dtype, (tuple, list)) else [dtype] * len(shapes)
        if len(dtypes) != len(shapes):
            raise self.error("E113", f"{len(dtypes)} data types for {len(shapes)} outputs", node)
        made: list[Type] = []
        for shape, wanted in zip(shapes, dtypes):
            data_type = self.dtype(wanted, node) if wanted is not None else self._first_dtype(operands)
            if data_type is None:
                raise self.error(
                    "E112", "the data type of the result is not known", node, 'write R.Tensor((n, m), "float32")'
                )
            made.append(tensor_type(self.extents(shape, node), data_type))
        return tuple(made)

    def _first_dtype(self, operands: Expr) -> DataType | None:
        ty = operands.ty
        for field in ty.fields if isinstance(ty, TupleType) else ():
            if isinstance(field, TensorType) and field.dtype is not None:
                return field.dtype
        return None

    def call_value(self, callee: Any, node: s.Call) -> Any:
        if type(callee) is Macro:
            return self.expand_macro(callee, node)
        if isinstance(callee, (GlobalVar, Var, ExternFunc, Call, TupleGetItem, If)):
            args, keywords = self.arguments(node)
            ty_args = self._type_arguments(keywords.pop("ty_args", keywords.pop("sinfo_args", None)), node)
            exprs = [self.expr(arg, node) for arg in args]
            attrs = {key: attribute_value(value) for key, value in keywords.items()}
            return make_call(callee, exprs, attrs, ty_args, self.reading.span(node))
        if type(callee) in (PrimFunc, Function):
            return self.call_value(self.adopt(callee, node), node)
        if type(callee) is Op:
            args, keywords = self.arguments(node)
            return self.operator(callee.name, args, keywords, node)
        raise self.error("E113", "this is not a function", node.func)

    def expand_macro(self, macro: Macro, node: s.Call) -> Any:
        """A call of an R.macro."""
        raise self.error("E113", "macros stand in functions", node)


def _similar(path: str) -> str | None:
    close = similar_ops(path)
    if close:
        return f"did you mean {', '.join(close)}?"
    return suggest(path, GRAPH_FORMS)
