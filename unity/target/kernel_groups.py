"""Tensor programs that call each other, which are compiled together; and code that programs bring along.

Not here: code generation (a folder for each target).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ir.expr import Call, GlobalVar, StringImm
from ..ir.function import PrimFunc
from ..ir.node import Node
from ..ir.scalar import Let
from ..ir.stmt import AttrStmt, Bind, BufferStore, For
from ..ir.walk import collect
from ..support.errors import CodegenError
from ..support.graph import strongly_connected

Group = dict[str, PrimFunc]
"""Programs that call each other, by name."""
Importer = AttrStmt | For
"""The statements that carry imported code."""
KEY = "pragma_import_llvm"
"""The loop annotation or attribute with LLVM IR as its value."""


def special_nodes(func: PrimFunc) -> list[Any]:
    """The nodes that matter to questions about a whole program, gathered in one walk: calls, stores, names of values, loops,
    attributes."""
    return collect(func.body, (Call, BufferStore, Bind, Let, For, AttrStmt))


def callees(nodes: Iterable[Node], functions: Mapping[str, PrimFunc]) -> list[str]:
    """Functions of the module that a tensor program with these nodes calls."""
    found = []
    for call in nodes:
        if type(call) is not Call:
            continue
        name = call.op.name if type(call.op) is GlobalVar else ""
        if call.op_name.startswith("T.call_") and call.args and type(call.args[0]) is StringImm:
            name = call.args[0].value
        if name in functions:
            found.append(name)
    return found


def imported_texts(nodes: Iterable[Node]) -> dict[str, Importer]:
    """The texts that programs with these nodes import, each once, with the first place that does. Raises CodegenError E450."""
    found: dict[str, Importer] = {}
    for stmt in nodes:
        value: Any = None
        if isinstance(stmt, For):
            value = (stmt.annotations or {}).get(KEY)
        elif isinstance(stmt, AttrStmt) and stmt.key == KEY:
            value = stmt.value
        if value is None:
            continue
        text = value.value if type(value) is StringImm else value
        if type(text) is not str:
            raise CodegenError("E450", f"{KEY} takes LLVM IR as text, got {text!r}", stmt.span)  # type: ignore[attr-defined]
        found.setdefault(text, stmt)  # type: ignore[arg-type]
    return found


def kernel_groups(functions: Mapping[str, PrimFunc]) -> list[Group]:
    """The programs, those together that call each other; all together where one imports code for the others to call."""
    nodes = {name: special_nodes(func) for name, func in functions.items()}
    if imported_texts([node for found in nodes.values() for node in found]):
        return [dict(functions)]
    called = {name: callees(held, functions) for name, held in nodes.items()}
    neighbours: dict[str, set[str]] = {name: set(others) for name, others in called.items()}
    for name, others in called.items():
        for other in others:
            neighbours[other].add(name)
    return [{name: functions[name] for name in part} for part in strongly_connected(functions, neighbours.__getitem__)]
