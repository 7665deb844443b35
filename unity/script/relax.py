"""``R``: what is written in graph functions. ``from unity.script import relax as R``. Names come from the operator table."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import Any as _Any, overload as _overload

from .. import op as _operators  # noqa: F401 - fills the operator table
from ..ir import OPS, Function
from ..op.composite import COMPOSITES
from .decorator import decorate, decorate_later, macro_decorator
from .names import namespace
from .spelling.spelling import CANONICAL


@_overload
def function(fn: _Callable[..., _Any]) -> Function: ...
@_overload
def function(
    *, pure: bool | None = None, private: bool = False, check_well_formed: bool = True
) -> _Callable[[_Callable[..., _Any]], Function]: ...
def function(
    fn: _Callable[..., _Any] | None = None,
    *,
    pure: bool | None = None,
    private: bool = False,
    check_well_formed: bool = True,
) -> _Any:
    """Read ``fn`` as a graph function.

    ``pure``: checked if given, else inferred from the body. ``private``: without a global symbol. ``check_well_formed``: verify it.
    """
    if fn is not None:
        return decorate(fn)
    return decorate_later


def macro(fn: _Callable[..., _Any] | None = None, *, hygienic: bool = True) -> _Any:
    """A macro of graph functions: its calls are replaced by its body. A name that is not a parameter is the one at the
    definition; with ``hygienic=False`` the one at the call."""
    return macro_decorator(fn, "R", hygienic)


NAMES: dict[str, str] = {
    "R.Tensor": '``R.Tensor((n, 4), "float32")``: a tensor type.',
    "R.Shape": "``R.Shape([n, 4])``: the type of a shape value.",
    "R.Prim": '``R.Prim("int64")``: the type of a scalar.',
    "R.Object": "``R.Object``: any value.",
    "R.Any": "``R.Any``: any value (the name of 2026).",
    "R.Tuple": "``R.Tuple(a, b)``: a tuple type.",
    "R.Callable": "``R.Callable((a, b), result)``: a function type.",
    "R.dataflow": "``with R.dataflow():`` bindings without effects.",
    "R.output": "``R.output(y)``: names of a dataflow block visible after it.",
    "R.func_attr": "``R.func_attr({...})``: attributes of the function.",
    "R.match_cast": "``R.match_cast(x, type)``: check at run time, binding new symbols.",
    "R.const": '``R.const(1.0, "float32")``: a constant tensor; without a dtype Python numbers are int32, float32 or bool.',
    "R.const_bytes": "A constant tensor from base64 text, shape, dtype.",
    "R.shape": "``R.shape([n, 4])``: a shape value.",
    "R.tuple": "``R.tuple(a, b)``: a tuple.",
    "R.prim_value": "``R.prim_value(n + 1)``: a scalar value.",
    "R.str": '``R.str("text")``: a text value.',
    "R.dtype": '``R.dtype("float32")``: a data type value.',
    "R.ExternFunc": '``R.ExternFunc("name")``: a registered function.',
    "R.cpu": "``R.cpu()``: a device.",
    "R.cuda": "``R.cuda()``: a device.",
    "R.gpu": "``R.gpu()``: a device.",
    "R.device": '``R.device("cuda", 0)``: a device.',
}


def _known() -> dict[str, str]:
    rows = {name: info.doc for name, info in OPS.items()}
    rows |= {name: function.__doc__ or "" for name, function in COMPOSITES.items()}
    aliases = {old: f"Earlier name of ``{new}``." for old, new in CANONICAL.items() if old.startswith("R.")}
    return aliases | rows | NAMES


__getattr__, __dir__ = namespace("R", __name__, _known, function, macro)
