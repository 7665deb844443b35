"""Expressions common to both levels: names, literals, containers, arithmetic on plain numbers, and dispatch.

A value while reading is an IR expression or a plain Python value (number, text, tuple, list, dict, buffer, type, dotted
name). What arithmetic, calls and subscripts of IR values mean is left to the two level readers. Invariant: nothing here
runs user code; plain numbers are folded with bounded operations only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Call, Expr, GlobalVar, PrimType
from ..parser import syntax as s
from ..spelling.spelling import INFIX_BY_OP, MODULE_ALIASES, UNQUALIFIED
from .base import Reading, Silent, suggest
from .plain import CONVERSIONS, MATH_CONSTANTS, PLAIN_COMPARE, convert, fold_binary, fold_math, is_number
from .scope import (
    KNOWN_NAMES,
    MISSING,
    POISON,
    Dotted,
    Member,
    OutsideScope,
    Scope,
    SymbolName,
    canonical_path,
    outside_value,
)
from .value import MAX_DEPTH, ValueReader

_BUILTINS = frozenset(("range", "len", "sum", "min", "max", "abs", "int", "float", "bool", "print", "tuple", "list"))
_MAX_PATH = 12
_CALLED = frozenset(row.text for row in INFIX_BY_OP.values())
"""Operators that are intrinsics in tensor programs."""
_REFUSED = {
    "f-string": "an f-string: script has no text formatting",
    "bytes": "a bytes literal",
    "walrus": "an assignment inside an expression (`:=`): bind the value on its own line",
    "set": "a set",
    "del": "`del`: a name ends with its block",
    "raise": "`raise`: use `assert condition, message`",
    "global": "`global`: a function reads outer names without it",
    "nonlocal": "`nonlocal`",
    "yield": "`yield`",
    "try": "`try`: script has no exceptions",
    "async": "`async`",
}


class ExprReader(ValueReader):
    """Evaluates syntax to values in a scope. One per function (or per module body)."""

    level = "module"

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self._handlers = {
            s.Name: self._name, s.Number: self._plain, s.String: self._plain, s.Literal: self._plain,
            s.TupleLit: self._tuple, s.ListLit: self._list, s.DictLit: self._dict, s.Attribute: self._attribute,
            s.Call: self._call, s.Subscript: self._subscript, s.BinOp: self._binop, s.Compare: self._compare,
            s.Unary: self._unary, s.IfExp: self._if_exp, s.ListComp: self._list_comp, s.Lambda: self._lambda,
            s.Refused: self._refused, s.Starred: self._starred, s.Slice: self._slice,
        }  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- plumbing

    def _plain(self, node: Any) -> Any:
        if node.value is ...:
            raise self.error("E113", "`...` stands for no value", node)
        return node.value

    def _refused(self, node: s.Refused) -> Any:
        raise self.error("E107", f"script does not have {_REFUSED.get(node.kind, node.kind)}", node)

    def _starred(self, node: s.Starred) -> Any:
        raise self.error("E101", "`*` stands only in arguments, lists and targets", node)

    def _slice(self, node: s.Slice) -> Any:
        raise self.error("E101", "a slice stands only in the index of a buffer", node)

    def _lambda(self, node: s.Lambda) -> Any:
        raise self.error(
            "E107", "a lambda stands only where an operation takes one (T.comm_reducer) or is called at once", node,
            "write the expression, or a @T.macro",
        )  # fmt: skip

    def _name(self, node: s.Name) -> Any:
        value = self.lookup(node.name)
        if value is MISSING:
            return self.unknown_name(node)
        if value is POISON:
            raise Silent
        if type(value) is Member:
            return self.module_member(value.name, node)
        return value

    def module_member(self, name: str, node: s.Syntax) -> Any:
        """A reference to a function of the module."""
        return GlobalVar(name, span=self.reading.span(node))

    def lookup(self, name: str) -> Any:
        """The value of a name: scopes, then script's own namespaces; MISSING if none."""
        value = self.scope.get(name)
        if value is MISSING:
            if name in MODULE_ALIASES:
                return Dotted(MODULE_ALIASES[name] if name not in ("tvm", "unity") else name)
            if name in UNQUALIFIED:
                return Dotted(UNQUALIFIED[name])
            if name in _BUILTINS:
                return Dotted(name)
        elif type(value) is SymbolName:
            return self.symbol(value.name)
        return value

    def symbol(self, name: str) -> Any:
        """The symbol of a name in the function being read."""
        return MISSING

    def unknown_name(self, node: s.Name) -> Any:
        """Raise the error of a name without a value."""
        if node.name in self.reading.lost:
            raise Silent
        outside = self.reading.scope
        if isinstance(outside, OutsideScope) and node.name in outside.mapping:
            kind = type(outside.mapping[node.name]).__name__
            raise self.error(
                "E110", f"{node.name!r} is a {kind} outside of script, which has no meaning here", node,
                "decorate it with @T.macro or @R.macro: its body is read in place of the call" if kind == "function" else
                "script takes numbers, texts, lists, data types, arrays, tensors, and functions and nodes of the IR",
            )  # fmt: skip
        raise self.error("E110", f"unknown name {node.name!r}", node, suggest(node.name, self.scope.all_names()))

    def _tuple(self, node: s.TupleLit) -> Any:
        return tuple(self._items(node.items))

    def _list(self, node: s.ListLit) -> Any:
        return self._items(node.items)

    def _items(self, nodes: list[s.Syntax]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if type(node) is s.Starred:
                items.extend(self.sequence(node.value))
            else:
                items.append(self.evaluate(node))
        return items

    def sequence(self, node: s.Syntax) -> list[Any]:
        """A tuple or list value as list."""
        return self.items(self.evaluate(node), node)

    def _dict(self, node: s.DictLit) -> Any:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                inner = self.evaluate(value)
                if not isinstance(inner, dict):
                    raise self.error("E113", "`**` needs a dict", value)
                made.update(inner)
                continue
            made[self._dict_key(key)] = self.evaluate(value)
        return made

    def _dict_key(self, node: s.Syntax) -> Any:
        key = self.evaluate(node)
        if isinstance(key, (str, int, float, bool, Expr)):
            return key
        raise self.error("E113", "a dict key must be a text or a number", node)

    # -------------------------------------------------------------------------------------------------------- paths

    def path(self, node: s.Syntax) -> str | None:
        """``T.axis.spatial`` of a dotted name whose root is a namespace of script, else None."""
        names: list[str] = []
        at = node
        while type(at) is s.Attribute and len(names) <= _MAX_PATH:
            names.append(at.name)
            at = at.value
        if type(at) is not s.Name or len(names) > _MAX_PATH:
            return None
        root = self.lookup(at.name)
        if type(root) is not Dotted:
            return None
        if not names:
            return root.text
        names.append(root.text)
        return canonical_path(".".join(reversed(names)))

    def _attribute(self, node: s.Attribute) -> Any:
        path = self.path(node)
        if path is not None:
            return self.constant_path(path, node)
        return self.attribute(self.evaluate(node.value), node)

    def constant_path(self, path: str, node: s.Syntax) -> Any:
        """Value of a dotted name that is not called. Raises E111 for a name that script does not have."""
        found = MATH_CONSTANTS.get(path)
        if found is not None:
            return found
        known = KNOWN_NAMES.get(path.partition(".")[0])
        if known is not None and type(node) is s.Attribute and not self.is_name(path):
            names = known()
            if path not in names and not any([name.startswith(path + ".") for name in names]):
                raise self.error("E111", f"unknown name {path}", node, suggest(path, names))
        return Dotted(path)

    def is_name(self, path: str) -> bool:
        """A name without a row in a table: a data type."""
        return False

    def attribute(self, value: Any, node: s.Attribute) -> Any:
        """``value.name`` of a value."""
        raise self.error("E113", f"no attribute {node.name!r} here", node)

    # -------------------------------------------------------------------------------------------------------- calls

    def _call(self, node: s.Call) -> Any:
        path = self.path(node.func)
        if path is not None:
            return self.call_path(path, node)
        if type(node.func) is s.Lambda:
            return self._call_lambda(node.func, node)
        callee: Any
        if type(node.func) is s.Attribute:
            callee = self.evaluate(node.func.value)
            return self.call_method(callee, node.func.name, node)
        callee = self.evaluate(node.func)
        return self.call_value(callee, node)

    def _call_lambda(self, function: s.Lambda, node: s.Call) -> Any:
        args, keywords = self.arguments(node)
        if len(args) != len(function.params) or keywords:
            raise self.error("E112", f"the lambda takes {len(function.params)} arguments, got {len(args)}", node)
        return self.apply_lambda(function, args)

    def apply_lambda(self, function: s.Lambda, args: list[Any]) -> Any:
        """The body of a lambda with its parameters standing for values."""
        outer = self.scope
        self.scope = Scope(outer, {param.name: arg for param, arg in zip(function.params, args)})
        try:
            return self.evaluate(function.body)
        finally:
            self.scope = outer

    def call_path(self, path: str, node: s.Call) -> Any:
        """A call of a dotted name."""
        raise self.error("E111", f"unknown function {path}", node)

    def call_value(self, callee: Any, node: s.Call) -> Any:
        """A call of a value."""
        raise self.error("E113", "this is not a function", node.func)

    def call_method(self, value: Any, name: str, node: s.Call) -> Any:
        """``value.name(...)``."""
        raise self.error("E113", f"no method {name!r} here", node.func)

    def arguments(self, node: s.Call) -> tuple[list[Any], dict[str, Any]]:
        """Evaluated arguments."""
        args = [self.evaluate(arg) for arg in node.args] if not _has_star(node.args) else self._items(node.args)
        if not node.keywords:
            return args, {}
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.name is None:
                if not isinstance(value, dict):
                    raise self.error("E113", "`**` needs a dict", keyword)
                keywords.update(value)
            elif keyword.name in keywords:
                raise self.error("E112", f"argument {keyword.name!r} is given twice", keyword)
            else:
                keywords[keyword.name] = value
        return args, keywords

    def call_builtin(self, path: str, node: s.Call) -> Any:
        """``len``, ``sum``, ``min`` ... of plain values."""
        args, keywords = self.arguments(node)
        if keywords or not args:
            raise self.error("E112", f"{path} takes positional arguments here", node)
        if path.startswith("math."):
            return fold_math(self.reading, path, args, node)
        first = args[0]
        if path == "len" and isinstance(first, (tuple, list, dict, str)):
            return len(first)
        if path in ("tuple", "list") and isinstance(first, (tuple, list)):
            return tuple(first) if path == "tuple" else list(first)
        if path in ("sum", "min", "max"):
            items = list(first) if len(args) == 1 and isinstance(first, (tuple, list)) else args
            if not items:
                raise self.error("E112", f"{path} of nothing", node)
            result = items[0]
            for item in items[1:]:
                result = self._fold(path, result, item, node)
            return result
        if path == "float" and first in ("inf", "-inf", "nan") and len(args) == 1:
            return float(first)
        if is_number(first) and path in CONVERSIONS and len(args) == 1:
            return convert(self.reading, path, first, node)
        if path == "range" and all([type(arg) is int for arg in args]) and len(args) <= 3:
            made = range(*args)
            if len(made) > 100_000:
                raise self.error("E105", "range of more than 100000 elements while reading", node)
            return list(made)
        raise self.error("E107", f"{path}() runs nothing in script", node, "parsing never executes Python")

    def _fold(self, path: str, left: Any, right: Any, node: s.Syntax) -> Any:
        if path == "sum":
            return self.binary("+", left, right, node)
        if is_number(left) and is_number(right):
            return min(left, right) if path == "min" else max(left, right)
        raise self.error("E107", f"{path}() is for plain numbers", node, f"use T.{path}(a, b)")

    # ------------------------------------------------------------------------------------------------------ operators

    def _subscript(self, node: s.Subscript) -> Any:
        path = self.path(node.value)
        if path is not None:
            return self.subscript_path(path, node)
        return self.subscript(self.evaluate(node.value), node)

    def subscript_path(self, path: str, node: s.Subscript) -> Any:
        """``T.Buffer[...]`` and other bracket forms of dotted names."""
        raise self.error("E113", f"{path} takes no index", node)

    def subscript(self, value: Any, node: s.Subscript) -> Any:
        """``value[...]``: plain containers here, IR values in the level readers."""
        if isinstance(value, dict):
            key = self.evaluate(node.items[0])
            if len(node.items) == 1 and isinstance(key, (str, int)) and key in value:
                return value[key]
            raise self.error("E113", "no such key", node)
        if isinstance(value, (tuple, list)) and len(node.items) == 1:
            item = node.items[0]
            if type(item) is s.Slice:
                bounds = [None if part is None else self.integer(part) for part in (item.lower, item.upper, item.step)]
                if bounds[2] == 0:
                    raise self.error("E113", "slice step is zero", item)
                return value[slice(*bounds)]
            index = self.integer(item)
            if not -len(value) <= index < len(value):
                raise self.error("E113", f"index {index} of {len(value)} elements", node)
            return value[index]
        if isinstance(value, np.ndarray) and len(node.items) <= value.ndim:
            at = tuple([self.integer(item) for item in node.items])
            if all([-size <= index < size for index, size in zip(at, value.shape)]):
                return outside_value(value[at])
            raise self.error("E113", f"index {at} of an array of shape {value.shape}", node)
        raise self.error("E113", "this value takes no index", node)

    def _binop(self, node: s.BinOp) -> Any:
        spine = [node]  # long chains `a + b + c` lean to the left: walk them in a loop
        left = node.left
        while type(left) is s.BinOp:
            spine.append(left)
            left = left.left
        value = self.evaluate(left)
        calls = 0
        for at in reversed(spine):
            value = self.binary(at.op, value, self.evaluate(at.right), at)
            if at.op in _CALLED and type(value) is Call and isinstance(value.ty, PrimType):
                calls += 1  # printed as a call around what stands to its left
                if self.depth + calls > MAX_DEPTH:
                    raise self.too_deep(at)
        return value

    def binary(self, op: str, left: Any, right: Any, node: s.Syntax) -> Any:
        """``left op right``: plain numbers here, IR values through ``binary_ir``."""
        if is_number(left) and is_number(right):
            return fold_binary(self.reading, op, left, right, node)
        if op == "+" and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if op == "+" and isinstance(left, list) and isinstance(right, list):
            return left + right
        return self.binary_ir(op, left, right, node)

    def binary_ir(self, op: str, left: Any, right: Any, node: s.Syntax) -> Any:
        """``left op right`` where a side is an IR value."""
        raise self.error("E113", f"operator {op} does not apply here", node)

    def _compare(self, node: s.Compare) -> Any:
        left = self.evaluate(node.first)
        result: Any = None
        for op, right_node in zip(node.ops, node.rest):
            if op in ("in", "is"):
                raise self.error("E107", f"script does not have the operator `{op}`", node)
            right = self.evaluate(right_node)
            if is_number(left) and is_number(right):
                part: Any = PLAIN_COMPARE[op](left, right)
            elif type(left) is str and type(right) is str and op in ("==", "!="):
                part = PLAIN_COMPARE[op](left, right)
            else:
                part = self.binary_ir(op, left, right, node)
            result = part if result is None else self.binary("and", result, part, node)
            left = right
        return result

    def _unary(self, node: s.Unary) -> Any:
        value = self.evaluate(node.value)
        if is_number(value):
            match node.op:
                case "not":
                    return not value
                case "-":
                    return -value
                case "+":
                    return +value
                case _ if isinstance(value, int):
                    return ~value
            raise self.error("E113", "~ needs an integer", node)
        if type(value) is str:
            raise self.error("E113", f"operator {node.op} does not apply to a text", node)
        return self.unary_ir(node.op, value, node)

    def unary_ir(self, op: str, value: Any, node: s.Syntax) -> Any:
        """Prefix operator on an IR value."""
        raise self.error("E113", f"operator {op} does not apply here", node)

    def _if_exp(self, node: s.IfExp) -> Any:
        condition = self.evaluate(node.condition)
        if is_number(condition):
            return self.evaluate(node.then if condition else node.otherwise)
        return self.conditional(condition, node)

    def conditional(self, condition: Any, node: s.IfExp) -> Any:
        """``a if condition else b`` on an IR condition."""
        raise self.error("E113", "the condition must be known while reading", node.condition)

    def _list_comp(self, node: s.ListComp) -> Any:
        items: list[Any] = []
        outer = self.scope
        for value in self.sequence(node.source):
            self.scope = Scope(outer)
            try:
                self.bind_target(node.target, value)
                conditions = [self.evaluate(condition) for condition in node.conditions]
                if not all([is_number(condition) for condition in conditions]):
                    raise self.error("E113", "the condition must be known while reading", node)
                if all(conditions):
                    items.append(self.evaluate(node.item))
            finally:
                self.scope = outer
            if len(items) > 100_000:
                raise self.error("E105", "a list of more than 100000 elements while reading", node)
        return items

    def bind_target(self, target: s.Syntax, value: Any) -> None:
        """Bind names of a target to a value or, for a tuple target, to its parts."""
        if type(target) is s.Name:
            self.scope.names[target.name] = value
            return
        for part, item in self.unpack(target, value):
            self.bind_target(part, item)


def _has_star(nodes: list[s.Syntax]) -> bool:
    return s.Starred in [type(node) for node in nodes]
