"""Types in script: ``R.Tensor``, ``R.Shape``, ``R.Prim``, ``R.Tuple``, ``R.Callable``, ``T.int64``, ``T.handle`` ... and symbols.

Not here: parameters, statements. Invariant: a symbol of a function is one variable per name, made at first sight in the
signature (quoted, declared, or bare as in 2021) and looked up afterwards.
"""

from __future__ import annotations

from typing import Any

from ...ffi.dtype import DataType
from ...ir import (
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
    TupleType,
    Type,
    Var,
    prim_type,
)  # fmt: skip
from ...ir.relation import tensor_type
from ...support.errors import UnityError
from ...support.source import Source
from ..parser import syntax as s
from ..parser.read_text import read_tree
from ..spelling.spelling import DTYPE_ALIASES, DTYPES
from .base import Reading, Silent, bind_arguments
from .expr import ExprReader
from .scope import MISSING, Dotted, Scope

_MAX_NDIM = 1000
_INT64 = prim_type("int64")
_BARE = {
    "R.Tensor": TensorType(), "R.Shape": ShapeType(), "R.Object": OBJECT, "R.Tuple": OBJECT,
    "R.Callable": FuncType(None, OBJECT, False), "R.Prim": OBJECT, "T.handle": prim_type("handle"),
    "T.Ptr": prim_type("handle"), "T.void": VOID_TYPE,
}  # fmt: skip
_FIELDS: dict[str, tuple[str, ...]] = {
    "R.Tensor": ("shape", "dtype", "vdevice", "ndim"),
    "R.Shape": ("values", "ndim"),
    "R.Prim": ("dtype", "value"),
    "R.Object": (),
    "R.Callable": ("params", "ret", "purity", "derive_func"),
    "T.Ptr": ("dtype", "scope"),
    "T.handle": ("dtype", "scope"),
}
TYPE_CALLS = frozenset((*_FIELDS, "R.Tuple"))


def dtype_name(path: str) -> str | None:
    """``float32x4`` of ``T.float32x4``; None when the path names no data type."""
    if not path.startswith("T."):
        return None
    name = path[2:]
    name = DTYPE_ALIASES.get(name, name)
    base, _, lanes = name.partition("x")
    if base in _DTYPE_SET and (not lanes or lanes.removeprefix("vscalex").isdecimal()):
        return name
    return None


_DTYPE_SET = frozenset(DTYPES)


class TypeReader(ExprReader):
    """Evaluates types and keeps the symbols of one function."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self.symbols: dict[str, Expr] = {}
        self.defining = False
        self.hint = ""  # the name that the value being read will get
        self.naming: s.Syntax | None = None  # the expression that gets it
        self.param_name = ""
        self.let_bound: set[Var] = set()  # variables that a T.Let binds already
        self.declared: set[Var] = set()  # variables made by the expression at hand: a name given to one stands for it

    def is_name(self, path: str) -> bool:
        return path in TYPE_CALLS or dtype_name(path) is not None

    # ------------------------------------------------------------------------------------------------------- symbols

    def symbol(self, name: str) -> Any:
        """The symbol of a name, made at first use."""
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = Var(name, _INT64)
        return found

    def unknown_name(self, node: s.Name) -> Any:
        found = self.symbols.get(node.name)
        if found is not None:
            return found
        if self.defining:
            return self.symbol(node.name)
        return super().unknown_name(node)

    def quoted(self, text: str, node: s.Syntax) -> Any:
        """A dimension or type written as text. Unknown names in it are symbols."""
        if text.isidentifier():
            value = self.scope.get(text)
            if isinstance(value, Expr) and isinstance(value.ty, PrimType):
                return value
            return self.symbol(text)
        inner = Source(self.reading.source.name, text)
        tree, errors = read_tree(inner)
        if tree is None or errors or len(tree.body) != 1 or type(tree.body[0]) is not s.ExprStmt:
            raise self.error("E106", f"cannot read {text!r} as an expression", node)
        kept, defining = self.reading, self.defining
        self.reading = Reading(self.reading.source, self.reading.scope)
        self.defining = True
        expression = tree.body[0].value
        _move(expression, node.start, node.end)
        try:
            return self.evaluate(expression)
        finally:
            self.reading, self.defining = kept, defining

    def dimension(self, value: Any, node: s.Syntax) -> Expr:
        """A dimension: integer, integer expression, or quoted text."""
        if type(value) is int:
            return self.whole(value, node)
        if type(value) is str:
            return self.dimension(self.quoted(value, node), node)
        if isinstance(value, Expr):
            ty = value.ty
            if isinstance(ty, PrimType) and ty.dtype.is_integral:
                return value
        raise self.error("E113", "a dimension must be an integer or an integer expression", node)

    def whole(self, value: int, node: s.Syntax) -> Expr:
        """A plain integer as a size or an index. Raises E106 outside int64."""
        if not -(2**63) <= value < 2**63:
            raise self.error("E106", "a size or index outside the range of int64", node)
        return IntImm(value, _INT64, self.reading.span(node))

    def dimensions(self, value: Any, node: s.Syntax) -> tuple[Expr, ...]:
        """Dimensions of a shape: a tuple or list, or one integer."""
        if isinstance(value, (tuple, list)):
            return tuple([self.dimension(item, node) for item in value])
        if isinstance(value, ShapeExpr):
            return value.values
        return (self.dimension(value, node),)

    def extents(self, value: Any, node: s.Syntax) -> tuple[Expr, ...]:
        """Dimensions of the shape of something: none is negative."""
        made = self.dimensions(value, node)
        for index, extent in enumerate(made):
            if type(extent) is IntImm and extent.value < 0:
                raise self.error("E113", f"dimension {index} is {extent.value}: a size is not negative", node)
        return made

    def _ndim(self, bound: dict[str, Any], node: s.Syntax) -> int:
        ndim = self.as_integer(bound.get("ndim", -1), node)
        if not -1 <= ndim <= _MAX_NDIM:
            raise self.error("E113", f"ndim={ndim} is no number of dimensions", node, "ndim=-1 means it is not known")
        return ndim

    # --------------------------------------------------------------------------------------------------------- types

    def annotation(self, node: s.Syntax) -> Any:
        """Value of an annotation: a type, a data type name or a buffer description; ``Annotated[Any, X]`` means X."""
        if type(node) is s.Subscript and len(node.items) >= 2:
            base = node.value
            name = base.name if isinstance(base, (s.Name, s.Attribute)) else ""
            if name == "Annotated":
                return self.annotation(node.items[-1])
        if type(node) is s.String and not node.value.isidentifier():
            return self.quoted(node.value, node)
        return self.evaluate(node)

    def symbol_type(self, param: s.TypeParameter) -> Type:
        """Type of a symbol given in brackets, ``def f[n: T.int64](...)``; int64 after an error, which is recorded."""
        if param.bound is None:
            return _INT64
        try:
            return self.type_of(param.bound)
        except Silent:
            pass
        except UnityError as problem:
            self.reading.record(problem, param)
        return _INT64

    def type_of(self, node: s.Syntax) -> Type:
        """An expression that must be a type."""
        return self.as_type(self.annotation(node), node)

    def as_type(self, value: Any, node: s.Syntax) -> Type:
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
            return TupleType(tuple([self.as_type(item, node) for item in value]))
        if isinstance(value, Expr) and isinstance(value.ty, PrimType) and self.defining:
            return value.ty
        raise self.error("E113", "expected a type", node, 'write for example R.Tensor((n, 4), "float32")')

    def make_type(self, path: str, node: s.Call | s.Subscript, args: list[Any], keywords: dict[str, Any]) -> Type:
        """A type from its constructor and evaluated arguments."""
        if path == "R.Tuple":
            fields = list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
            return TupleType(tuple([self.as_type(field, node) for field in fields]))
        if path in ("T.handle", "T.Ptr"):
            keywords = {"scope" if key == "storage_scope" else key: value for key, value in keywords.items()}
        call = node if type(node) is s.Call else s.Call(node.start, node.end, node, [], [])
        bound = bind_arguments(self.reading, call, path, _FIELDS[path], args, keywords, 0)
        match path:
            case "R.Tensor":
                return self._tensor(bound, node)
            case "R.Shape":
                if bound.get("values") is not None:
                    sizes = self.extents if self.param_name else self.dimensions  # R.shape([-1, 4]) is a value, too
                    values = sizes(bound["values"], node)
                    return ShapeType(values, len(values))
                return ShapeType(None, self._ndim(bound, node))
            case "R.Prim":
                return self._prim(bound, node)
            case "R.Callable":
                params = bound.get("params")
                if params is not None:
                    listed = list(params) if isinstance(params, (tuple, list)) else [params]
                    params = tuple([self.as_type(item, node) for item in listed])
                ret = self.as_type(bound["ret"], node) if "ret" in bound else OBJECT
                pure = bool(bound.get("purity", params is not None))
                rule = bound.get("derive_func")
                return FuncType(
                    params, ret, pure, None if rule is None else self.text(rule, node, "the name of a function")
                )
            case "T.handle" | "T.Ptr":
                if bound.get("dtype") is None:
                    return prim_type("handle")
                element = prim_type(self.dtype(bound["dtype"], node))
                return PointerType(element, self.text(bound.get("scope", "global"), node))
        return OBJECT

    def _prim(self, bound: dict[str, Any], node: s.Syntax) -> Type:
        value = bound.get("value")
        if value is not None:
            if type(value) is str and value.isidentifier() and self.defining and self.param_name:
                known = self.symbols.get(value)
                if known is None:
                    self.symbols[value] = self.param_var(_INT64)
                    return _INT64
            raise self.error(
                "E117", "a primitive type with a known value is read only as a parameter that defines a symbol", node,
                'write R.Prim("int64")',
            )  # fmt: skip
        if "dtype" not in bound:
            raise self.error("E112", "R.Prim needs a data type", node)
        return prim_type(self.dtype(bound["dtype"], node))

    def param_var(self, ty: Type) -> Var:
        """The variable of the parameter being read."""
        found = self.scope.names.get(self.param_name, MISSING)
        if isinstance(found, Var):
            return found
        made = self.scope.names[self.param_name] = Var(self.param_name, ty)
        return made

    def _tensor(self, bound: dict[str, Any], node: s.Syntax) -> Type:
        shape, dtype = bound.get("shape"), bound.get("dtype")
        if dtype is None and (type(shape) is str or type(shape) is DataType):
            shape, dtype = None, shape
        data_type = None if dtype is None or dtype == "" else self.dtype(dtype, node)
        ndim = self._ndim(bound, node)
        vdevice = bound.get("vdevice")
        if isinstance(vdevice, dict):
            vdevice = f"{vdevice['target']}:{vdevice['id']}"
        elif vdevice is not None:
            vdevice = self.text(vdevice, node, 'a device such as "llvm:0"')
        if shape is None:
            return tensor_type(None, data_type, ndim, vdevice)
        if isinstance(shape, Expr) and isinstance(shape.ty, ShapeType) and not isinstance(shape, ShapeExpr):
            return tensor_type(shape, data_type, ndim, vdevice)
        values = self.extents(shape, node)
        if ndim not in (-1, len(values)):
            raise self.error("E113", f"ndim={ndim} for a shape of {len(values)} dimensions", node)
        return tensor_type(ShapeExpr(values, self.reading.span(node)), data_type, -1, vdevice)


def _move(node: Any, start: int, end: int) -> None:
    """Give a parsed text the place of the string it stood in."""
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, s.Syntax):
            at.start, at.end = start, end
            stack.extend([getattr(at, name) for name in type(at).__dataclass_fields__ if name not in ("start", "end")])
        elif isinstance(at, (list, tuple)):
            stack.extend(at)
