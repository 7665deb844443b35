"""The verifier: ``verify(mod, level)`` checks the rules every module keeps between passes, and collects all violations.

Level 0: fields hold what their annotations say. Level 1: well-formed (scopes, normal form, types, purity, data types, loops,
blocks, calls, memory that calls take). Level 2: also declared regions, parallel loops and copying. Each level includes those below.
"""

from __future__ import annotations

from ...support.errors import VerifyError
from ...support.recursion import deep_recursion
from ..expr import ExternFunc
from ..function import Function, PrimFunc
from ..module import IRModule
from ..names import is_function_name
from .declared import check_deep
from .fields import check_fields
from .graph import GraphVerifier
from .in_place import check_in_place
from .prim_func import PrimVerifier
from .report import Report


def violations(mod: IRModule | Function | PrimFunc, level: int = 1) -> list[VerifyError]:
    """All violations up to a level, in order of the functions; an empty list for a valid module."""
    report = Report()
    with deep_recursion():
        check_fields(mod, report)
        if report.errors or level < 1:
            return report.errors
        module = mod if isinstance(mod, IRModule) else None
        members = mod.functions if isinstance(mod, IRModule) else {str(mod.attrs.get("global_symbol", "function")): mod}
        symbols: dict[str, str] = {}
        takes = False
        for name, fn in members.items():
            with report.at(name):
                if not is_function_name(name):
                    report.add("E349", f"no function can be called {name!r}: script has no way to write it", None,
                               "take a Python name that is not a keyword, and not I, R or T")  # fmt: skip
                symbol = fn.attrs.get("global_symbol") if isinstance(fn, (Function, PrimFunc)) else None
                if isinstance(symbol, str) and symbols.setdefault(symbol, name) != name:
                    report.add(
                        "E337", f"functions {symbols[symbol]} and {name} have the global symbol {symbol!r} both", fn
                    )
                if isinstance(fn, Function):
                    graph = GraphVerifier(report, module)
                    graph.function(fn, set())
                    takes = takes or graph.takes
                elif isinstance(fn, PrimFunc):
                    PrimVerifier(report, module).function(fn)
                elif not isinstance(fn, ExternFunc):
                    report.add("E330", f"{type(fn).__name__} cannot be a member of a module", None)
        if takes and not report.errors:
            for name, fn in members.items():
                if isinstance(fn, Function):
                    with report.at(name):
                        check_in_place(module, name, fn, report)
        if level >= 2 and not report.errors:
            for name, fn in members.items():
                with report.at(name):
                    check_deep(fn, report)
    return report.errors


def verify(mod: IRModule | Function | PrimFunc, level: int = 1) -> None:
    """Raise VerifyError with every violation in ``errors``; return nothing for a valid module."""
    errors = violations(mod, level)
    if errors:
        first = errors[0]
        raise VerifyError(first.code, first.message, first.span, first.notes, first.help, errors)


def is_well_formed(mod: IRModule | Function | PrimFunc, level: int = 1) -> bool:
    """True when ``verify`` would not raise."""
    return not violations(mod, level)
