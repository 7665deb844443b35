"""``R.call_dps`` and its kin: calls of functions that write their results to memory they are given, in every era's spelling."""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ir import Expr, ShapeExpr, TensorType, Tuple, TupleType, Type, make_call, op
from ....ir.relation import tensor_type
from ...parser import syntax as s
from ...spelling.spelling import DPS_KEYWORDS
from ..common.calls import arguments
from ..common.constants import attribute_value
from ..common.reading import Form, Reading, bind_arguments
from ..common.scope import Dotted
from ..common.types import as_type, extents
from ..common.values import as_dtype, as_expr
from .operators import as_callee, operands_of

_GRADIENT = ("te_grad_name", "te_grad_kwargs")
_EXAMPLE = 'R.Tensor((n, m), "float32")'


def _call_dps(r: Reading, path: str, node: s.Call) -> Expr:
    args, keywords = arguments(r, node)
    keywords = {DPS_KEYWORDS.get(key, key): value for key, value in keywords.items()}
    dtype = keywords.pop("dtype", None)
    if args and (isinstance(args[0], (tuple, list)) or type(args[0]) is ShapeExpr):
        shape = args.pop(0)  # 2021: (shape, function, arguments)
        args = [*args[:2], shape, *args[2:]]
    fields = ["func", "args", "out_ty", "tir_vars", "inplace_indices"]
    if path == "R.call_inplace":
        types_third = len(args) == 3 and (not isinstance(args[2], (list, int)) or "inplace_indices" in keywords)
        fields.insert(3 if types_third else 2, fields.pop())
    attrs = {key: attribute_value(keywords.pop(key)) for key in _GRADIENT if key in keywords}
    bound = bind_arguments(r, node, path, fields, args, keywords, 2)
    func, given = as_callee(r, bound["func"], node), bound["args"]
    values = given if isinstance(given, (tuple, list)) else (given,)
    exprs = operands_of(r, func, values, node)
    whole = values is not given and isinstance(exprs[0].ty, TupleType)
    operands = exprs[0] if whole else Tuple(exprs, r.span(node))
    if bound.get("out_ty") is None:
        raise r.error("E112", f"{path} needs the type of its result", node, f"write it last: {_EXAMPLE}")
    ty_args = _out_types(r, bound["out_ty"], dtype, operands, node)
    call_args = [func, operands]
    if bound.get("tir_vars") is not None:
        call_args.append(as_expr(r, bound["tir_vars"], node))
    if path == "R.call_inplace":
        indices = bound.get("inplace_indices")
        if indices is None:
            raise r.error("E112", f"{path} needs inplace_indices", node)
        attrs["inplace_indices"] = attribute_value(indices if isinstance(indices, (tuple, list)) else [indices])
    if path == "R.call_dps_with_grad":
        attrs.setdefault("te_grad_kwargs", None)
    return make_call(op(path), call_args, attrs, ty_args, r.span(node))


def _out_types(r: Reading, value: Any, dtype: Any, operands: Expr, node: s.Syntax) -> tuple[Type, ...]:
    """Types of the outputs; a bare shape (2021, 2022) takes ``dtype=`` or the first tensor argument's type."""
    if isinstance(value, Type):
        return value.fields if isinstance(value, TupleType) else (value,)
    if type(value) is Dotted:
        return (as_type(r, value, node),)
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    if items and all([isinstance(item, Type) for item in items]):
        return tuple(items)
    shapes = items if items and all([isinstance(item, (tuple, list, ShapeExpr)) for item in items]) else [value]
    dtypes = dtype if isinstance(dtype, (tuple, list)) else [dtype] * len(shapes)
    if len(dtypes) != len(shapes):
        raise r.error("E113", f"{len(dtypes)} data types for {len(shapes)} outputs", node)
    result: list[Type] = []
    for shape, wanted in zip(shapes, dtypes):
        data_type = as_dtype(r, wanted, node) if wanted is not None else _first_dtype(operands)
        if data_type is None:
            raise r.error("E112", "the data type of the result is not known", node, f"write {_EXAMPLE}")
        result.append(tensor_type(extents(r, shape, node), data_type))
    return tuple(result)


def _first_dtype(operands: Expr) -> DataType | None:
    ty = operands.ty
    for field in ty.fields if isinstance(ty, TupleType) else ():
        if isinstance(field, TensorType) and field.dtype is not None:
            return field.dtype
    return None


DPS_FORMS: dict[str, Form] = dict.fromkeys(("R.call_dps", "R.call_inplace", "R.call_dps_with_grad"), _call_dps)
