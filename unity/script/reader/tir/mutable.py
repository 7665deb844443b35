"""The mutable scalar names of a tensor program: those assigned again while they are visible, or declared without value.

Not here: reading. Rule: ``x = e`` binds ``x`` once (an immutable ``Bind``); where the text assigns ``x`` a second time in
the same or an inner block, or declares ``x: T.float32`` without a value, ``x`` is a scalar kept in a local buffer. Two
blocks beside each other that both bind ``x`` have two immutable names.
"""

from __future__ import annotations

from ...parser import syntax as s


def mutable_names(body: list[s.Syntax], outer: list[str]) -> set[int]:
    """``start`` offsets of the assignments that declare a mutable scalar."""
    found: set[int] = set()
    scope: dict[str, int] = dict.fromkeys(outer, -1)
    _block(body, scope, found)
    return found


def _block(body: list[s.Syntax], outer: dict[str, int], found: set[int]) -> None:
    scope = dict(outer)
    for stmt in body:
        if type(stmt) is s.Assign:
            for target in stmt.targets:
                if type(target) is s.Name:
                    _assign(target.name, stmt.start, scope, found)
        elif type(stmt) is s.AnnAssign:
            target = stmt.target
            if type(target) is s.Name:
                scope[target.name] = stmt.start
                if stmt.value is None:
                    found.add(stmt.start)
        elif type(stmt) is s.AugAssign:
            target = stmt.target
            if type(target) is s.Name:
                _assign(target.name, stmt.start, scope, found)
        elif isinstance(stmt, (s.For, s.While, s.With)):
            _block(stmt.body, scope, found)
        elif type(stmt) is s.If:
            for _, clause in stmt.clauses:
                _block(clause, scope, found)
            _block(stmt.otherwise or [], scope, found)


def _assign(name: str, start: int, scope: dict[str, int], found: set[int]) -> None:
    known = scope.get(name)
    if known is None:
        scope[name] = start
    elif known >= 0:
        found.add(known)
