"""``T``: what is written in tensor programs. ``from unity.script import tir as T``. Names come from the intrinsic table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..ir import PrimFunc
from ..ir.intrinsic import INTRINSICS
from .decorator import decorate, decorate_later, macro_decorator
from .names import namespace
from .reader.tir.forms import VALUE_FORMS
from .reader.tir.frames import FRAMES
from .reader.tir.statement_forms import STATEMENT_FORMS
from .spelling.spelling import AXES, CANONICAL, DTYPES, LOOPS, NODE_FORMS


@overload
def prim_func(fn: Callable[..., Any]) -> PrimFunc: ...
@overload
def prim_func(
    *, private: bool = False, check_well_formed: bool = True, s_tir: bool = True
) -> Callable[[Callable[..., Any]], PrimFunc]: ...
def prim_func(
    fn: Callable[..., Any] | None = None, *, private: bool = False, check_well_formed: bool = True, s_tir: bool = True
) -> Any:
    """Read ``fn`` as a tensor program.

    ``private``: without a global symbol. ``check_well_formed``: verify it. ``s_tir``: accepted for TVM.
    """
    if fn is not None:
        return decorate(fn)
    return decorate_later


function = prim_func


def macro(fn: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """A macro of tensor programs: its calls are replaced by its body. A name that is not a parameter is the one at the
    definition; with ``hygienic=False`` the one at the call."""
    return macro_decorator(fn, "T", hygienic)


def inline(fn: Callable[..., Any]) -> Any:
    """A macro whose free names are those of the place it is called from."""
    return macro_decorator(fn, "T", False)


def _known() -> dict[str, str]:
    aliases = {
        old: f"TVM's name of ``{new}`` in another version." for old, new in CANONICAL.items() if old.startswith("T.")
    }
    written = (*VALUE_FORMS, *STATEMENT_FORMS, *FRAMES, "T.Then", "T.Else", *AXES, *LOOPS, "T.grid")
    plain = {name: f"``{name}`` of script." for name in written}
    forms = {name: f"``{name}({', '.join(fields)})``." for name, fields in NODE_FORMS.items()}
    types = {
        f"T.{name}": f"``T.{name}(value)``: a {name} scalar; ``T.{name}`` its type."
        for name in (*DTYPES, "handle", "void")
    }
    rows = {name: row.doc for name, row in INTRINSICS.items()}
    return aliases | rows | plain | forms | types


__getattr__, __dir__ = namespace("T", __name__, _known, prim_func, macro, inline)
