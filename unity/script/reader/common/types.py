"""Types: ``R.Tensor``, ``R.Shape``, ``R.Prim``, ``R.Tuple``, ``R.Callable``, ``T.int64``, ``T.handle``, and annotations; dimensions
of shapes: integers, integer expressions, and text in which unknown names are symbols.

Not here: parameters, statements. Invariant: a symbol of a function is one variable per name, made at first sight in the
signature (quoted, declared, or bare as in 2021) and looked up afterwards.
"""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ffi.targets.kinds import virtual_device
from ....ir import (
    OBJECT,
    VOID_TYPE,
    Expr,
    FuncType,
    IntImm,
    PointerType,
    PrimType,
    ShapeExpr,
    ShapeType,
    TensorType,
    Tuple,
    TupleType,
    Type,
    Var,
    prim_type,
)  # fmt: skip
from ....ir.relation import tensor_type
from ....support.source import Source
from ...parser import syntax as s
from ...parser.read_text import read_tree
from ...parser.syntax import nodes_of
from ...spelling.spelling import TYPE_FIELDS
from .names import path_of, symbol
from .plain import is_number
from .reading import Reading, bind_arguments
from .scope import Dotted, dtype_name
from .values import INT64, as_dtype, as_expr, as_integer, as_size, as_text, read_expr


def quoted(r: Reading, text: str, node: s.Syntax) -> Any:
    """A dimension or type written as text. Unknown names in it are symbols."""
    if text.isidentifier():
        value = r.scope.get(text)
        if isinstance(value, Expr) and isinstance(value.ty, PrimType):
            return value
        return symbol(r, text)
    tree, errors = read_tree(Source(r.source.name, text))
    if tree is None or errors or len(tree.body) != 1 or type(tree.body[0]) is not s.ExprStmt:
        raise r.error("E106", f"cannot read {text!r} as an expression", node)
    expression = tree.body[0].value
    for at in [expression, *nodes_of(expression)]:  # they get the place of the string
        at.start, at.end = node.start, node.end
    defining, r.defining = r.defining, True
    try:
        return read_expr(r, expression)
    finally:
        r.defining = defining


def dimension(r: Reading, value: Any, node: s.Syntax) -> Expr:
    """A dimension: integer, integer expression, or quoted text."""
    if type(value) is int:
        return as_size(r, value, node)
    if type(value) is str:
        return dimension(r, quoted(r, value, node), node)
    if isinstance(value, Expr):
        ty = value.ty
        if isinstance(ty, PrimType) and ty.dtype.is_integral:
            return value
    raise r.error("E113", "a dimension must be an integer or an integer expression", node)


def dimensions(r: Reading, value: Any, node: s.Syntax) -> tuple[Expr, ...]:
    """Dimensions of a shape: a tuple or list, or one integer."""
    if isinstance(value, (tuple, list)):
        return tuple([dimension(r, item, node) for item in value])
    if isinstance(value, ShapeExpr):
        return value.values
    return (dimension(r, value, node),)


def extents(r: Reading, value: Any, node: s.Syntax) -> tuple[Expr, ...]:
    """Dimensions of the shape of something: none is negative."""
    result = dimensions(r, value, node)
    for index, extent in enumerate(result):
        if type(extent) is IntImm and extent.value < 0:
            raise r.error("E113", f"dimension {index} is {extent.value}: a size is not negative", node)
    return result


_MAX_NDIM = 1000
_BARE = {
    "R.Tensor": TensorType(), "R.Shape": ShapeType(), "R.Object": OBJECT, "R.Tuple": OBJECT,
    "R.Callable": FuncType(None, OBJECT, False), "R.Prim": OBJECT, "T.handle": prim_type("handle"),
    "T.Ptr": prim_type("handle"), "T.void": VOID_TYPE,
}  # fmt: skip


def read_type(r: Reading, node: s.Syntax) -> Type:
    """An expression that must be a type."""
    return as_type(r, read_annotation(r, node), node)


def read_annotation(r: Reading, node: s.Syntax) -> Any:
    """Value of an annotation: a type, a data type name or a buffer description; ``Annotated[Any, X]`` means X."""
    if type(node) is s.Subscript and len(node.items) >= 2:
        base = node.value
        if isinstance(base, (s.Name, s.Attribute)) and base.name == "Annotated":
            return read_annotation(r, node.items[-1])
    if type(node) is s.String and not node.value.isidentifier():
        return quoted(r, node.value, node)
    if type(node) is s.Call and not node.args and all([k.name == "is_size_var" for k in node.keywords]):
        path = path_of(r, node.func)
        if path is not None and dtype_name(path) is not None:
            return Dotted(path)  # T.int32(is_size_var=True)
    return read_expr(r, node)


def as_type(r: Reading, value: Any, node: s.Syntax) -> Type:
    """A value as type."""
    if isinstance(value, Type):
        return value
    if type(value) is Dotted:
        bare = _BARE.get(value.text)
        if bare is not None:
            return bare
        dtype = dtype_name(value.text)
        if dtype is not None:
            return prim_type(dtype)
    if value is None:
        return VOID_TYPE
    if isinstance(value, (tuple, list)):
        return TupleType(tuple([as_type(r, item, node) for item in value]))
    if isinstance(value, Expr) and isinstance(value.ty, PrimType) and r.defining:
        return value.ty
    raise r.error("E113", "expected a type", node, 'write for example R.Tensor((n, 4), "float32")')


def make_type(r: Reading, path: str, node: s.Syntax, args: list[Any], keywords: dict[str, Any]) -> Any:
    """A type from its constructor and evaluated arguments; ``R.Tuple`` of values is the tuple of them, as in Python."""
    if path == "R.Tuple":
        fields = list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        are_values = bool(fields) and all([isinstance(field, Expr) or is_number(field) for field in fields])
        if are_values and r.level.letter == "R" and not r.defining:
            return Tuple(tuple([as_expr(r, field, node) for field in fields]), r.span(node))
        return TupleType(tuple([as_type(r, field, node) for field in fields]))
    if path in ("T.handle", "T.Ptr"):
        keywords = {"scope" if key == "storage_scope" else key: value for key, value in keywords.items()}
    bound = bind_arguments(r, node, path, TYPE_FIELDS[path], args, keywords, 0)
    match path:
        case "R.Tensor":
            return _tensor(r, bound, node)
        case "R.Shape":
            if bound.get("values") is not None:
                sizes = extents if r.param_name else dimensions  # R.shape([-1, 4]) is a value, too
                values = sizes(r, bound["values"], node)
                return ShapeType(values, len(values))
            return ShapeType(None, _ndim(r, bound, node))
        case "R.Prim":
            return _prim(r, bound, node)
        case "R.Callable":
            return _callable(r, bound, node)
        case "T.handle" | "T.Ptr":
            if bound.get("dtype") is None:
                return prim_type("handle")
            element = prim_type(as_dtype(r, bound["dtype"], node))
            return PointerType(element, as_text(r, bound.get("scope", "global"), node))
    return OBJECT


def result_type(r: Reading, value: Any, node: s.Syntax) -> Type:
    """A result type: data type or pointer type; ``void`` and ``handle`` as names."""
    if isinstance(value, Type):
        return value
    return prim_type(as_dtype(r, value if value != "" else "void", node))


def _callable(r: Reading, bound: dict[str, Any], node: s.Syntax) -> Type:
    params = bound.get("params")
    if params is not None:
        listed = list(params) if isinstance(params, (tuple, list)) else [params]
        params = tuple([as_type(r, item, node) for item in listed])
    ret = as_type(r, bound["ret"], node) if "ret" in bound else OBJECT
    pure = bool(bound.get("purity", params is not None))
    rule = bound.get("derive_func")
    return FuncType(params, ret, pure, None if rule is None else as_text(r, rule, node, "the name of a function"))


def _prim(r: Reading, bound: dict[str, Any], node: s.Syntax) -> Type:
    value = bound.get("value")
    if value is not None:
        if type(value) is str and value.isidentifier() and r.defining and r.param_name and value not in r.symbols:
            known = r.scope.names.get(r.param_name)
            if not isinstance(known, Var):
                known = r.scope.names[r.param_name] = Var(r.param_name, INT64)
            r.symbols[value] = known
            return INT64
        raise r.error(
            "E117", "a primitive type with a known value is read only as a parameter that defines a symbol", node,
            'write R.Prim("int64")',
        )  # fmt: skip
    if "dtype" not in bound:
        raise r.error("E112", "R.Prim needs a data type", node)
    return prim_type(as_dtype(r, bound["dtype"], node))


def _ndim(r: Reading, bound: dict[str, Any], node: s.Syntax) -> int:
    ndim = as_integer(r, bound.get("ndim", -1), node)
    if not -1 <= ndim <= _MAX_NDIM:
        raise r.error("E113", f"ndim={ndim} is not a number of dimensions", node, "ndim=-1 means it is not known")
    return ndim


def listed_vdevice(r: Reading, given: Any, node: s.Syntax) -> Any:
    """The device that ``"vdevice:1"`` names by its place in the table of the module; another value as it is."""
    kind, _, number = given.partition(":") if isinstance(given, str) else ("", "", "")
    if kind != "vdevice":
        return given
    known = r.text.vdevices
    if not number.isdecimal() or int(number) >= len(known):
        help = 'I.module_global_infos({"vdevice": [I.vdevice("llvm")]}) lists them'
        raise r.error("E113", f"{given!r} is none of the {len(known)} virtual devices of the module", node, help)
    return known[int(number)]


def _tensor(r: Reading, bound: dict[str, Any], node: s.Syntax) -> Type:
    shape, dtype = bound.get("shape"), bound.get("dtype")
    if dtype is None and (type(shape) is str or type(shape) is DataType):
        shape, dtype = None, shape
    data_type = None if dtype is None or dtype == "" else as_dtype(r, dtype, node)
    ndim = _ndim(r, bound, node)
    vdevice = bound.get("vdevice")
    if vdevice is not None:
        vdevice = virtual_device(listed_vdevice(r, vdevice, node))
        if vdevice is None:
            raise r.error("E113", "a tensor lies on no such device", node, 'write a device such as "llvm:0"')
    if shape is None:
        return tensor_type(None, data_type, ndim, vdevice)
    if isinstance(shape, Expr) and isinstance(shape.ty, ShapeType) and not isinstance(shape, ShapeExpr):
        return tensor_type(shape, data_type, ndim, vdevice)
    values = extents(r, shape, node)
    if ndim not in (-1, len(values)):
        raise r.error("E113", f"ndim={ndim} for a shape of {len(values)} dimensions", node)
    return tensor_type(ShapeExpr(values, r.span(node)), data_type, -1, vdevice)
