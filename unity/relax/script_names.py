"""Values of the names of script in Python: ``R.Tensor((n, 4), "float32")`` a type, ``R.const(1.0)`` a value, ``R.add(x, y)`` a
call, ``T.max(n, 1)`` a scalar, ``I.dynamic("n")`` a symbol.

As TVM has it, programs that build functions in Python write types and operators with the names of script. Invariant: what stands
in the annotation of a decorated function does nothing, whatever is written there (``script/names.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from .. import relax as build, tir
from ..ir.buffer import Buffer
from ..ir.types import Expr, Type
from ..script.names import IN_PYTHON
from ..support.arguments import public
from ..support.errors import TypeRuleError


def _tensor(shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = -1) -> Type:
    if isinstance(shape, str):
        shape, dtype = None, shape
    return build.TensorType(shape, dtype, vdevice, ndim)  # type: ignore[no-any-return]


def _tuple(*fields: Any) -> Type:
    return build.TupleType(list(fields[0]) if len(fields) == 1 and isinstance(fields[0], (list, tuple)) else fields)  # type: ignore[no-any-return]


_TYPES: dict[str, Callable[..., Any]] = {
    "R.Tensor": _tensor, "R.Shape": build.ShapeType, "R.Prim": build.PrimType, "R.Object": build.ObjectType,
    "R.Any": build.ObjectType, "R.Tuple": _tuple, "R.Callable": build.FuncType,
}  # fmt: skip
_VALUES: dict[str, Callable[..., Any]] = {
    "R.const": build.const, "R.shape": build.ShapeExpr, "R.prim_value": build.PrimValue, "R.str": build.StringImm,
    "R.dtype": build.DataTypeImm, "R.ExternFunc": build.ExternFunc, "R.tuple": lambda *fields: build.Tuple(fields),
}  # fmt: skip


@public
def dynamic(name: str, dtype: str = "int64") -> Any:
    """A symbol."""
    return tir.Var(name, dtype)


_VALUES |= {"I.dynamic": dynamic, "T.dynamic": dynamic, "T.Var": tir.Var}
_FUNCTIONS = {"R": build.op, "T": tir}


def call(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of a call of a name of script in Python.

    NotImplemented for a type in a script's annotation, where symbols are texts, and for a function that is given no expression.
    """
    if path in _TYPES:
        try:
            return _TYPES[path](*args, **kwargs)
        except (TypeRuleError, TypeError):
            return NotImplemented
    if path in _VALUES:
        return _VALUES[path](*args, **kwargs)
    given = [*args, *kwargs.values()]
    parts = [part for value in given for part in (value if isinstance(value, (list, tuple)) else (value,))]
    if not any([isinstance(part, Expr) for part in parts]):
        return NotImplemented
    try:
        function = attrgetter(path[2:])(_FUNCTIONS[path[0]])
    except (AttributeError, KeyError):
        return NotImplemented
    return NotImplemented if function is Buffer else function(*args, **kwargs)


IN_PYTHON |= {"R": call, "T": call, "I": call}
