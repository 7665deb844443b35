"""check_bounds: accesses of tensor programs as the user wrote them, judged before anything is lowered.

Rewrite: ``for i in range(m): B[i] = A[i]`` over ``A: (n,)`` -> the same behind ``assert m <= n``. An access that is outside
whenever it runs is refused with E328. What depends on data stays as it is. ``UNITY_EXPLAIN=1`` prints what was found;
``CHECKED_CPU_PIPELINE`` (``UNITY_BOUNDS=1``) checks at run time instead.
"""

from __future__ import annotations

import sys
from typing import Any

from ...arith.access_proof import Access, AccessVerdict
from ...arith.accesses import judge
from ...ir.buffer import MatchBufferRegion
from ...ir.build import add
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.stmt import AssertStmt, seq
from ...ir.types import Expr
from ...support.errors import Note, VerifyError
from ...support.options import bool_option

HELP = (
    "let the loop end earlier, give the buffer another shape, or guard the access (if, T.if_then_else, T.where);"
    " UNITY_BOUNDS=1 compiles it with checks at run time"
)


def check_bounds(mod: IRModule) -> IRModule:
    """The module with the conditions under which its tensor programs stay inside their buffers. Raises VerifyError E328."""
    changed: dict[str, Any] = {}
    errors: list[VerifyError] = []
    for name, fn in mod.prim_funcs().items():
        verdicts, count = judge(fn)
        errors += [_refused(name, verdict) for verdict in verdicts if verdict.example is not None]
        conditions = _conditions(verdicts)
        if bool_option("UNITY_EXPLAIN"):
            print(f"{name}: {_explained(verdicts, count, list(conditions))}", file=sys.stderr)
        if conditions:
            asserts = [
                AssertStmt(v.condition, f"{access_text(v)} is outside {_whole(v.access)}, "  # type: ignore[arg-type]
                           f"which has {_extent(v.access)}, unless {said}", "IndexError", v.access.node.span)
                for said, v in conditions.items()
            ]  # fmt: skip
            changed[name] = replace(fn, body=seq(*asserts, fn.body))
    if errors:
        first = errors[0]
        raise VerifyError(first.code, first.message, first.span, first.notes, first.help, errors)
    return mod.with_functions(changed)


def text(expr: Expr) -> str:
    """An expression as script."""
    return expr.script().strip()


def access_text(verdict: AccessVerdict) -> str:
    """The access as script."""
    access = verdict.access
    if type(access.node) is MatchBufferRegion:
        inside = [f"{text(r.min)}:{text(add(r.min, r.extent))}" for r in access.node.source.region]
    else:
        inside = [text(index) for index in access.node.indices]
    return f"{access.node.buffer.name if access.axis is None else access.buffer.name}[{', '.join(inside)}]"


def _whole(access: Access) -> str:
    """The axis, or the memory, that the access must stay inside of."""
    return (
        f"the memory of {access.buffer.name}" if access.axis is None else f"axis {access.axis} of {access.buffer.name}"
    )


def _extent(access: Access) -> str:
    return f"{text(access.extent)}{' bytes' if access.axis is None else ''}"


def _refused(name: str, verdict: AccessVerdict) -> VerifyError:
    access = verdict.access
    assert verdict.example is not None
    values, index = verdict.example
    found = ", ".join([f"{var.name} = {value}" for var, value in values.items()])
    what = (
        "the last byte"
        if access.axis is None and index > 0
        else "byte"
        if access.axis is None
        else f"index {access.axis}"
    )
    return VerifyError(
        "E328", f"{name} {access.verb} {access_text(verdict)}, which is outside: {_whole(access)} has {_extent(access)}",
        access.node.span, [Note(f"{f'for {found} ' if found else ''}{what} is {index}")], HELP,
    )  # fmt: skip


def _conditions(verdicts: list[AccessVerdict]) -> dict[str, AccessVerdict]:
    """The different conditions, each with the first access that needs it."""
    found: dict[str, AccessVerdict] = {}
    for verdict in verdicts:
        if verdict.condition is not None:
            found.setdefault(text(verdict.condition), verdict)
    return found


def _explained(verdicts: list[AccessVerdict], count: int, conditions: list[str]) -> str:
    """One line about the accesses of a program."""
    unknown = {access_text(v): v.why for v in verdicts if v.condition is None and v.example is None}
    inside = count - len({id(v.access.node) for v in verdicts})
    said = f"{inside} of {count} accesses are inside their buffers"
    if conditions:
        said += f"; checked when called: {', '.join(conditions)}"
    if unknown:
        said += f"; not known: {', '.join([f'{what} ({why})' for what, why in unknown.items()])}"
    return said
