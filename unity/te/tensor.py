"""Tensors of tensor expressions: placeholders, computed tensors, opaque tensors, and ``compute`` itself.

``A[i, j]`` is a ProducerLoad as a Value: which memory holds the tensor is decided by ``prim_func.py``, which turns
a set of tensors into a PrimFunc. ProducerLoads never leave this room.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, overload

import numpy as np

from ..ffi.dtype import DataType
from ..ir import build
from ..ir.buffer import Buffer
from ..ir.constant import size
from ..ir.expr import IntImm, ShapeExpr, Var
from ..ir.node import node
from ..ir.scalar import Reduce
from ..ir.stmt import Stmt
from ..ir.types import Expr, PrimType, prim_type
from ..ir.walk import collect
from ..support.arguments import checked, guarded_class
from ..support.errors import TypeRuleError
from ..support.lazy import load
from .reduction import ReduceAxis
from .value import Operand, Scalar, Value, to_scalar, unwrap

Shape = Scalar | Sequence[Scalar]
"""The dimensions of a tensor, or the one."""
Emit = Callable[[list[Buffer], list[Buffer]], Stmt]
DTypes = str | DataType | Sequence[str | DataType]


@node
class ProducerLoad(Expr):
    """Element of a te.Tensor."""

    tensor: Any
    indices: tuple[Expr, ...]
    ty: PrimType


@dataclass(slots=True, eq=False)
class Compute:
    """Computation of tensors: ``axes`` index an element, ``bodies`` give its value, one per tensor.

    With ``reduce_axes`` every body is a Reduce of one combiner.
    """

    name: str
    axes: tuple[Var, ...]
    reduce_axes: tuple[ReduceAxis, ...]
    bodies: tuple[Expr, ...]
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    tag: str = ""
    """A word for those who look at the tensor; it means nothing here."""


@dataclass(slots=True, eq=False)
class Extern:
    """Tensors computed by a statement over whole buffers: ``emit(input buffers, output buffers)`` gives it."""

    name: str
    inputs: tuple[Tensor, ...]
    emit: Emit
    outputs: tuple[Tensor, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)


OPERATIONS: dict[str, Callable[..., Tensor]] = {}
"""The functions behind Python's operators on whole tensors: filled by topi, which is loaded when one is first used."""


def operate(name: str, *operands: Any) -> Tensor:
    """``A + B`` of tensors, a new tensor; NotImplemented for other operands than tensors and scalars."""
    for value in operands:
        if not isinstance(value, (Tensor, Value, str, int, float, Expr)):
            raise TypeRuleError("E217", f"{name} of a te.Tensor and a {type(value).__name__}",
                                help="operands are te.Tensors, scalars and numbers; arrays come in as te.placeholder")  # fmt: skip
    load("names")
    return OPERATIONS[name](*operands)


Method = Callable[["Tensor", "Tensor | Scalar"], "Tensor"]


def _both(name: str) -> tuple[Method, Method]:
    """The methods of an operator with the tensor on the left and on the right."""
    return lambda tensor, other: operate(name, tensor, other), lambda tensor, other: operate(name, other, tensor)


@guarded_class
class Tensor:
    """A tensor with a shape (int64 expressions) and dtype; ``op`` is None for placeholders."""

    __slots__ = ("data_type", "name", "op", "shape")

    @checked
    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: DataType, op: Compute | Extern | None = None) -> None:
        self.name = name
        self.shape = shape
        self.data_type = DataType(dtype)
        self.op = op

    @property
    def dtype(self) -> str:
        """Name of the data type."""
        return self.data_type.name

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Value:
        """An element; with fewer indices than axes what takes the others, ``A[i][j]``."""
        found = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        if 0 < len(found) < len(self.shape):
            return TensorSlice(self, found)  # type: ignore[return-value]  # the type is that of an element
        if len(found) != len(self.shape):
            raise TypeRuleError("E217", f"{self.name} has {len(self.shape)} axes, indexed with {len(found)}")
        exprs = tuple([to_scalar(i, "int64") for i in found])
        return Value(ProducerLoad(self, exprs, prim_type(self.data_type)))

    def __iter__(self) -> NoReturn:
        raise TypeRuleError(
            "E217", f"{self.name} has no end to go through it in Python", help="te.compute goes through its axes"
        )

    def __call__(self, *indices: Scalar) -> Value:
        return self[indices]

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("subtract")
    __mul__, __rmul__ = _both("multiply")
    __truediv__, __rtruediv__ = _both("divide")

    def __neg__(self) -> Tensor:
        return operate("negative", self)

    def astype(self, dtype: str) -> Tensor:
        """Return the tensor with every element cast to ``dtype``."""
        return operate("astype", self, dtype)

    def __repr__(self) -> str:
        return f"te.Tensor({self.name}, {list(self.shape)}, {self.dtype})"


class TensorSlice:
    """A tensor with the first of its indices."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: Any) -> Any:
        more = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        return self.tensor[(*self.indices, *more)]

    def __iter__(self) -> NoReturn:
        self.tensor.__iter__()

    def _is_no_scalar(self, *_: object) -> Any:
        raise TypeRuleError("E217", f"{self.tensor.name} has {self.tensor.ndim} axes, indexed with {len(self.indices)}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _is_no_scalar
    __lt__ = __le__ = __gt__ = __ge__ = astype = _is_no_scalar

    def __repr__(self) -> str:
        return f"{self.tensor!r} with {len(self.indices)} of {self.tensor.ndim} indices"


_SIZES: dict[int, Expr] = {}
"""The one int64 constant of each size, so that ``A.shape[1] == B.shape[0]`` of two tensors says what it should."""


def shape_of(dims: Shape) -> tuple[Expr, ...]:
    """Dimensions as expressions: numbers become int64 constants, equal ones the same object. Raises TypeRuleError E691."""
    if isinstance(dims, ShapeExpr):
        dims = dims.values
    several = hasattr(dims, "__iter__") and not isinstance(dims, (Operand, Expr, str))
    given: Sequence[Any] = dims if several else (dims,)  # type: ignore[assignment]
    return tuple([_one_size(unwrap(d)) for d in given])


def _one_size(given: object) -> Expr:
    dim = given if isinstance(given, Expr) else size(given)
    if type(dim) is IntImm and dim.ty.dtype.name == "int64":
        return _SIZES.get(dim.value) or _SIZES.setdefault(dim.value, IntImm(dim.value, dim.ty))
    return dim


def placeholder(shape: Shape, dtype: str | DataType = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor of ``shape`` and ``dtype``; ``name`` is that of the parameter."""
    return Tensor(name, shape_of(shape), DataType(dtype))


def _axis_names(fn: Callable[..., Any], count: int) -> list[str]:
    names: list[str] = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"i{n}" for n in range(count - len(names))]
        elif parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    if len(names) != count:
        raise TypeRuleError("E217", f"the function takes {len(names)} indices, the shape has {count} axes")
    return names


@overload
def compute(
    shape: Shape, fcompute: Callable[..., Scalar], name: str = ..., tag: str = ..., attrs: dict[str, Any] | None = ...
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fcompute: Callable[..., Sequence[Scalar]],
    name: str = ...,
    tag: str = ...,
    attrs: dict[str, Any] | None = ...,
) -> tuple[Tensor, ...]: ...
def compute(
    shape: Shape,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Tensor of ``shape`` whose element at given indices is ``fcompute(*indices)``; a tuple of values gives a tuple of tensors.

    ``name`` names the block of the tensor program, ``attrs`` and ``tag`` are its annotations. Raises TypeRuleError E217 for a
    function of another number of indices, or that gives anything but scalars or one reduction.

    >>> C = compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    """
    dims = shape_of(shape)
    axes = tuple([Var(n, d.ty) for n, d in zip(_axis_names(fcompute, len(dims)), dims)])
    made = fcompute(*[Value(v) for v in axes])
    several = isinstance(made, (tuple, list))
    bodies = tuple([_body(v) for v in (made if several else (made,))])
    reduces = [b for b in bodies if type(b) is Reduce]
    if reduces and (
        len(reduces) != len(bodies)
        or any([r.axis != reduces[0].axis or r.combiner is not reduces[0].combiner for r in reduces])
    ):
        raise TypeRuleError("E217", "the fields of a tuple must come from one reduction")
    reduce_axes = tuple([ReduceAxis(iv) for iv in reduces[0].axis]) if reduces else ()
    for body in bodies:
        _check_no_inner_reduce(body)
    loads = [load for body in bodies for load in collect(body, ProducerLoad)]
    inputs = tuple(dict.fromkeys([load.tensor for load in loads]))
    op = Compute(name, axes, reduce_axes, bodies, inputs, attrs=dict(attrs or {}), tag=tag)
    names = [f"{name}_v{i}" for i in range(len(bodies))] if several and len(bodies) > 1 else [name]
    op.outputs = tuple([Tensor(n, dims, build.dtype_of(b), op) for n, b in zip(names, bodies)])
    return op.outputs if several else op.outputs[0]


def _body(value: Any) -> Expr:
    """The result of a compute's function, as a scalar. Raises TypeRuleError E217 for anything else."""
    if not isinstance(unwrap(value), (Expr, bool, int, float, np.number)):
        raise TypeRuleError("E217", f"the function of a te.compute gives scalars, this one a {type(value).__name__}",
                            help="return A[i, j], a number, or an expression of them")  # fmt: skip
    return to_scalar(value)


def _check_no_inner_reduce(body: Expr) -> None:
    inner = collect(body, Reduce)
    if any([r is not body for r in inner]):
        raise TypeRuleError(
            "E217", "a reduction must be the whole value of a compute", help="compute the rest in a second te.compute"
        )


@overload
def extern(
    shapes: Sequence[Sequence[Scalar]],
    inputs: Sequence[Tensor],
    fcompute: Emit,
    name: str = ...,
    dtype: DTypes | None = ...,
) -> tuple[Tensor, ...]: ...
@overload
def extern(
    shapes: Shape, inputs: Sequence[Tensor], fcompute: Emit, name: str = ..., dtype: DTypes | None = ...
) -> Tensor: ...
def extern(
    shapes: Any, inputs: Sequence[Tensor], fcompute: Emit, name: str = "extern", dtype: DTypes | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Tensors computed by a statement, ``fcompute(buffers of inputs, output buffers)``; several shapes give a tuple.

    ``name`` names the outputs. ``dtype`` is one for all outputs or one each; without it the first input's.
    """
    several = bool(shapes) and isinstance(shapes[0], (tuple, list))
    all_shapes = [shape_of(s) for s in shapes] if several else [shape_of(shapes)]
    if dtype is None:
        dtype = inputs[0].data_type
    dtypes = [dtype] * len(all_shapes) if isinstance(dtype, (str, DataType)) else dtype
    op = Extern(name, tuple(inputs), fcompute)
    names = [f"{name}_v{i}" for i in range(len(all_shapes))] if several and len(all_shapes) > 1 else [name]
    op.outputs = tuple([Tensor(n, s, DataType(d), op) for n, s, d in zip(names, all_shapes, dtypes)])
    return op.outputs if several else op.outputs[0]
