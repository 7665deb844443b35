"""Names in expressions: variables, symbols, dotted names of script.

Not here: scopes and the values a name may stand for (``scope.py``). Invariant: a symbol of a function is one variable per name.
"""

from __future__ import annotations

from typing import Any

from ....ir import BufferLoad, PrimType, Var, prim_type
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.spelling import MODULE_ALIASES, TYPE_FIELDS, UNQUALIFIED
from .plain import MATH_CONSTANTS
from .reading import Reading, Silent
from .scope import (
    KNOWN_NAMES,
    MISSING,
    POISON,
    Cell,
    Dotted,
    Member,
    OutsideScope,
    SymbolName,
    canonical_path,
    dtype_name,
)
from .values import INT64

_BUILTINS = frozenset(("range", "len", "sum", "min", "max", "abs", "int", "float", "bool", "print", "tuple", "list"))
_MAX_PATH = 12


def read_name(r: Reading, node: s.Name) -> Any:
    """The value of a name."""
    value = lookup(r, node.name)
    if value is MISSING:
        return r.level.unknown(r, node)
    if value is POISON:
        raise Silent
    kind = type(value)
    if kind is Member:
        return r.module.member(r, value.name, node)
    if kind is Cell:
        return BufferLoad(value.buffer, (), prim_type(value.buffer.dtype), None, r.span(node))
    return value


def lookup(r: Reading, name: str) -> Any:
    """The value of a name: scopes, then script's own namespaces; MISSING if none."""
    value = r.scope.get(name)
    if value is MISSING:
        if name in MODULE_ALIASES:
            return Dotted(MODULE_ALIASES[name] if name not in ("tvm", "unity") else name)
        if name in UNQUALIFIED:
            return Dotted(UNQUALIFIED[name])
        if name in _BUILTINS:
            return Dotted(name)
    elif type(value) is SymbolName:
        return symbol(r, value.name, value.type)
    return value


def symbol(r: Reading, name: str, ty: PrimType = INT64) -> Any:
    """The symbol of a name, made at first use; or of the type that the function declares."""
    found = r.symbols.get(name)
    if found is None:
        found = r.symbols[name] = Var(name, r.symbol_types.get(name, ty))
    return found


def unknown_name(r: Reading, node: s.Name) -> Any:
    """A name without value: a symbol, or an error."""
    found = r.symbols.get(node.name)
    if found is not None:
        return found
    if r.defining:
        return symbol(r, node.name)
    if node.name in r.text.lost:
        raise Silent
    outside = r.text.outside
    if isinstance(outside, OutsideScope) and node.name in outside.mapping:
        kind = type(outside.mapping[node.name]).__name__
        raise r.error(
            "E110", f"{node.name!r} is a {kind} outside of script, which has no meaning here", node,
            "decorate it with @T.macro or @R.macro: its body is read in place of the call" if kind == "function" else
            "script takes numbers, strings, lists, data types, arrays, tensors, and functions and nodes of the IR",
        )  # fmt: skip
    raise r.error("E110", f"unknown name {node.name!r}", node, suggest(node.name, r.scope.all_names()))


def path_of(r: Reading, node: s.Syntax) -> str | None:
    """``T.axis.spatial`` of a dotted name whose root is a namespace of script, else None."""
    names: list[str] = []
    at = node
    while type(at) is s.Attribute and len(names) <= _MAX_PATH:
        names.append(at.name)
        at = at.value
    if type(at) is not s.Name or len(names) > _MAX_PATH:
        return None
    root = lookup(r, at.name)
    if type(root) is not Dotted:
        return None
    if not names:
        return root.text
    names.append(root.text)
    return canonical_path(".".join(reversed(names)))


def dotted_value(r: Reading, path: str, node: s.Syntax) -> Any:
    """Value of a dotted name that is not called. Raises E111 for a name that script does not have."""
    found = MATH_CONSTANTS.get(path)
    if found is not None:
        return found
    known = KNOWN_NAMES.get(path.partition(".")[0])
    if known is not None and type(node) is s.Attribute and path not in TYPE_FIELDS and dtype_name(path) is None:
        names = known()
        if path not in names and not any([name.startswith(path + ".") for name in names]):
            raise r.error("E111", f"unknown name {path}", node, suggest(path, names))
    return Dotted(path)
