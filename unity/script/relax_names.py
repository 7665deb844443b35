"""Values of the names of ``R`` in Python: ``R.Tensor((n, 4), "float32")`` a type, ``R.const(1.0)`` a value, ``R.add(x, y)`` a
call.

As TVM has it, programs that build functions in Python write types and operators with the names of script. Invariant: what stands
in the annotation of a decorated function does nothing, whatever is written there (``names.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.types import Expr, Type
from ..op.building import relax as build
from ..support.errors import TypeRuleError
from .names import ScriptName


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


class TypeName(ScriptName):
    """A type of script. Where symbols are texts (an annotation of script) a call of it gives the name itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return _TYPES[self._path](*args, **kwargs)
        except (TypeRuleError, TypeError):
            return self


class ValueName(ScriptName):
    """A value of script."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _VALUES[self._path](*args, **kwargs)


class OperatorName(ScriptName):
    """An operator of script: called on expressions of the graph it gives the call, else it raises ScriptError E123."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        parts = [part for value in given for part in (value if isinstance(value, (list, tuple)) else (value,))]
        if not any([isinstance(part, Expr) for part in parts]):
            return super().__call__(*args, **kwargs)
        return getattr_path(build.op, self._path[2:])(*args, **kwargs)

    def __getattr__(self, name: str) -> ScriptName:
        if name.startswith("__"):
            raise AttributeError(name)
        made = name_of(f"{self._path}.{name}", "")
        setattr(self, name, made)
        return made


def getattr_path(found: Any, path: str) -> Any:
    """The object that dotted names lead to from an object."""
    for part in path.split("."):
        found = getattr(found, part)
    return found


def name_of(path: str, doc: str) -> ScriptName:
    """The object of a name of ``R``."""
    kind = TypeName if path in _TYPES else ValueName if path in _VALUES else OperatorName
    return kind(path, doc)


__all__ = ["name_of"]
