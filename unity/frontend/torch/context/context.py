"""The context of a translation: the block builder, the metadata torch inferred for the result, and conversions of values.

The entries of the table, in ``frontend/torch/operators/``, are functions ``(c: Context, a: Args) -> Expr | list[Expr]``
registered with ``aten``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .... import op
from ....ffi.dtype import DataType
from ....ffi.tensor import Tensor
from ....ir import build
from ....ir.builder import BlockBuilder
from ....ir.expr import Constant, GlobalVar, IntImm, ShapeExpr, Var
from ....ir.relation import dims, tensor_type
from ....ir.types import Expr, PrimType, TensorType, TupleType, Type
from ....support.errors import UnityError
from ....support.optional import require
from .report import Gap
from .symbols import Symbols

Result = Any
"""An expression, or a list with one entry (or None: not available) per output of the torch operator."""
Args = SimpleNamespace
"""Arguments by the names of torch's schema: tensors and symbolic sizes as expressions, the rest as Python values."""
Translate = Callable[["Context", Args], Result]

ATEN: dict[str, Translate] = {}
"""THE table: overload name ("aten.add.Tensor") to its translation."""


def overload(name: str) -> str:
    """The whole name of an overload: ``aten.`` and ``.default`` may be left out (the former only where it is meant)."""
    return f"aten.{name}.default" if "." not in name else f"aten.{name}" if name.count(".") == 1 else name


def torch_converter(*names: str) -> Callable[[Translate], Translate]:
    """Enter a translation ``(context, arguments) -> expression`` under overload names.

    Names: ``"add.Tensor"`` and ``"silu"`` of ATen, ``"mylib.hardswish2.default"`` of a library. The arguments have the names of
    torch's schema. Raises UnityError E901 for a name that has a translation.
    """

    def enter(fn: Translate) -> Translate:
        for key in [overload(name) for name in names]:
            if key in ATEN:
                raise UnityError("E901", f"{key} stands twice in the torch table")
            ATEN[key] = fn
        return fn

    return enter


aten = torch_converter


def dtype_name(torch_dtype: Any) -> str:
    """Our name of a torch dtype. Raises Gap for complex, quantised and other types we do not have."""
    name = str(torch_dtype).removeprefix("torch.")
    if name.startswith(("complex", "q", "bits")):
        raise Gap(f"tensors of {name} are not supported")
    return DataType(name).name


def bind(target: Any, args: list[Any], kwargs: dict[str, Any]) -> Args:
    """Arguments by the names of the operator's schema, defaults filled in."""
    bound = {}
    given = iter(args)
    for argument in target._schema.arguments:
        if argument.kwarg_only or argument.name in kwargs:
            bound[argument.name] = kwargs.get(argument.name, argument.default_value)
        else:
            bound[argument.name] = next(given, argument.default_value)
    return Args(**bound)


class Context:
    """One import: symbols and builder; ``value`` is the metadata of the node being translated."""

    def __init__(self, builder: BlockBuilder, symbols: Symbols) -> None:
        self.builder = builder
        self.symbols = symbols
        self.torch = require("torch")
        self.value: Any = None
        self.node_target = ""
        self.used: set[int] = set()
        self.node: Any = None
        self.values: dict[Any, Any] = {}
        """The translations of the nodes so far; ``frontend/torch/translate/graph.py`` fills it."""
        self.pairs: dict[Any, Any] = {}
        self.numbers: set[Expr] = set()
        """Tensors of rank 0 that stand for Python floats; see ``control.float_number``."""
        self.programs: dict[Any, GlobalVar] = {}
        """Tensor programs that were put into the module, by what they do."""

    # ---- the result torch inferred

    @property
    def dtype(self) -> str:
        """dtype of the (first) result."""
        return dtype_name(self._first().dtype)

    def uses(self, index: int) -> bool:
        """True if an output of the operator is used."""
        return index in self.used

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Dimensions of the (first) result."""
        return self.symbols.dims(self._first().shape)

    def translated(self, entry: Translate, a: Args) -> Result:
        """The result of an entry of the table: of any where it is one tensor known to have no element, which are zeros."""
        sizes = getattr(self.value, "shape", ())
        if any([type(size) is int and size == 0 for size in sizes]) and self.symbols.knows(sizes):
            return op.zeros(self.shape, self.dtype)
        return entry(self, a)

    def _first(self) -> Any:
        return self.value[0] if isinstance(self.value, (list, tuple)) else self.value

    def type_of(self, value: Any) -> Type:
        """Type of metadata: tensors, integers, lists of them. Raises Gap."""
        if isinstance(value, (list, tuple)):
            return TupleType(tuple([self.type_of(v) for v in value]))
        if isinstance(value, self.torch.Tensor):
            return tensor_type(self.symbols.dims(value.shape), dtype_name(value.dtype))
        raise Gap(f"a result of type {type(value).__name__} has no type")

    def open_type_of(self, value: Any) -> Type:
        """As ``type_of``, but a shape with sizes only the data knows is left open."""
        if isinstance(value, (list, tuple)):
            return TupleType(tuple([self.open_type_of(v) for v in value]))
        if isinstance(value, self.torch.Tensor) and not self.symbols.knows(value.shape):
            for size in value.shape:
                refuse(
                    not self.symbols.knows([size]) and not size.node.expr.is_Symbol,
                    f"the size {size} depends on the data",
                )
            return tensor_type(None, dtype_name(value.dtype), value.dim())
        return self.type_of(value)

    # ---- values

    def holds_number(self, value: Any) -> bool:
        """True if nested arguments contain a float that only the data knows."""
        return any([isinstance(v, Expr) and v in self.numbers for v in leaves(value)])

    def emit(self, expr: Expr) -> Expr:
        """Bind an expression that is used more than once."""
        return expr if isinstance(expr, (Var, Constant)) else self.builder.emit(expr)

    def constant(self, value: Any) -> Constant:
        """A torch tensor as a constant over its memory."""
        return op.constant(Tensor.from_torch(value))

    def cast(self, x: Any, dtype: str) -> Expr:
        """A tensor of a dtype from a tensor, a number or a scalar expression."""
        if isinstance(x, Expr):
            if isinstance(x.ty, PrimType):
                return op.full(ShapeExpr(()), build.cast(x, dtype), dtype)
            return x if dtype_of(x) == dtype else op.astype(self._within(x, dtype), dtype)
        return number(x, dtype)

    def _within(self, x: Expr, dtype: str) -> Expr:
        """The tensor that is converted in place of ``x`` for torch's numbers: newer versions take numbers that are too large for
        float8_e4m3fn as its largest one; powers of two, which have no sign and no 0, stand for the magnitude."""
        if dtype == "float8_e4m3fn":
            largest = self.torch.finfo(self.torch.float8_e4m3fn).max
            kept = self.torch.tensor(2 * largest).to(self.torch.float8_e4m3fn).float() == largest
            return op.clip(self.cast(x, "float32"), -largest, largest) if kept else x
        if dtype == "float8_e8m0fnu":
            return op.maximum(op.abs(self.cast(x, "float32")), number(2.0**-127, "float32"))
        return x

    def promoted(self, *values: Any) -> str:
        """dtype torch computes in for these operands."""
        result = [self._sample(v) for v in values]
        found = result[0].dtype if len(result) == 1 else self.torch.result_type(result[0], result[1])
        for other in result[2:]:
            found = self.torch.promote_types(found, getattr(other, "dtype", found))
        return dtype_name(found)

    def _sample(self, value: Any) -> Any:
        if not isinstance(value, Expr):
            return value
        if isinstance(value.ty, PrimType):
            return 1
        if value in self.numbers:
            return 1.0
        kind = getattr(self.torch, dtype_of(value))
        return self.torch.empty((1,) * min(rank_of(value), 1), dtype=kind, device="meta")

    def reshape(self, x: Expr, shape: Sequence[Any] | None = None) -> Expr:
        """``x`` in another shape (default: that of the result); itself where nothing changes."""
        wanted = ShapeExpr(tuple([to_dim(d) for d in (self.shape if shape is None else shape)]))
        return op.reshape(x, wanted)

    def broadcast(self, x: Expr, shape: Sequence[Any] | None = None) -> Expr:
        """``x`` broadcast to a shape (default: that of the result)."""
        return op.broadcast_to(x, ShapeExpr(tuple([to_dim(d) for d in (self.shape if shape is None else shape)])))


def mapped(fn: Callable[[Any], Any], value: Any) -> Any:
    """Nested arguments, in lists, tuples and dicts, with what a function makes of each."""
    if isinstance(value, (list, tuple)):
        return [mapped(fn, v) for v in value]
    return {k: mapped(fn, v) for k, v in value.items()} if isinstance(value, dict) else fn(value)


def leaves(value: Any) -> list[Any]:
    """Nested arguments in a row."""
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return leaves([*value.values()]) if isinstance(value, dict) else [value]


def is_node(value: Any) -> bool:
    """True if an argument of a node is another node."""
    return isinstance(value, require("torch").fx.Node)


def number(value: Any, dtype: str) -> Expr:
    """A Python number as a rank-0 constant. Raises TypeError for one that only the data knows."""
    if isinstance(value, Expr):
        raise TypeError(f"a number known beforehand is needed, got {value}")
    if dtype == "bool":
        value = bool(value)
    return op.constant(np.array(value).astype(DataType(dtype).numpy))


def to_dim(value: Any) -> Expr:
    """A size as an expression."""
    return value if isinstance(value, Expr) else build.const(int(value), "int64")


def shape_of(x: Expr) -> tuple[Expr, ...]:
    """Dimensions of a tensor. Raises Gap where they are unknown."""
    found = dims(x.ty)
    if found is None:
        raise Gap("the shape is unknown")
    return found


def has_none(x: Expr | Sequence[Any]) -> bool:
    """True if a tensor, or one of such sizes, is known to have no element."""
    return any([build.is_int(to_dim(d), 0) for d in (shape_of(x) if isinstance(x, Expr) else x)])


def rank_of(x: Expr) -> int:
    """Rank of a tensor."""
    return x.ty.ndim  # type: ignore[attr-defined, no-any-return]


def dtype_of(x: Expr) -> str:
    """dtype of a tensor by name."""
    assert isinstance(x.ty, TensorType) and x.ty.dtype is not None
    return x.ty.dtype.name


def is_float(x: Expr) -> bool:
    """True if a tensor has floats."""
    return isinstance(x.ty, TensorType) and x.ty.dtype is not None and x.ty.dtype.is_float


def axis_of(axis: int, of: Expr | int) -> int:
    """Axis of a tensor, or of so many axes, counted from the front; torch lets scalars have an axis 0."""
    return axis % max(rank_of(of) if isinstance(of, Expr) else of, 1)


def static(dim: Expr, what: str = "the size") -> int:
    """A size as a number. Raises Gap."""
    if type(dim) is not IntImm:
        raise Gap(f"{what} must be known, it is {dim}")
    return dim.value


def pair(value: Any, count: int) -> tuple[int, ...]:
    """One number per spatial axis from torch's shorthand. Raises Gap for symbolic values."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if any([not isinstance(v, int) for v in values]):
        raise Gap("sizes of windows must be known")
    return values * count if len(values) == 1 else values


def refuse(condition: bool, reason: str) -> None:
    """Raise Gap where a form of an operator is not expressible."""
    if condition:
        raise Gap(reason)
