"""From lark reductions to concrete syntax: one row of ``RULES`` per grammar rule, called while the parser runs.

Not here: grammar, layout, meaning. Invariant: rules look at tokens and finished nodes only and never recurse, so the
cost of a text is linear in its length; nesting is bounded by ``layout.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lark import Token

from ..spelling.spelling import INFIX, LEVEL_COMPARE, LEVEL_NOT, LEVEL_UNARY
from . import syntax as s
from .layout import TextError, error_at

_LEVELS = {text: row.level for text, row in INFIX.items()} | {"in": LEVEL_COMPARE, "is": LEVEL_COMPARE}
_RIGHT = frozenset(text for text, row in INFIX.items() if row.right)
_RESERVED = frozenset((
    "for", "while", "if", "elif", "else", "with", "as", "in", "is", "and", "or", "not", "def", "class", "return",
    "assert", "pass", "break", "continue", "lambda", "True", "False", "None", "import", "from", "del", "raise",
    "global", "nonlocal", "yield", "try", "except", "finally", "async", "await",
))  # fmt: skip
_MAX_PREFIX = 100
MAX_BITS = 4096
"""Integers while reading: wider ones are refused, so that no text makes the reader compute for long."""
_ESCAPE = re.compile(r"\\(\r?\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.S)
_SIMPLE_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "\n": "", "\r\n": "",
}  # fmt: skip
_LITERALS = {"True": True, "False": False, "None": None, "...": ...}


def _unescape(match: re.Match[str]) -> str:
    text = match.group(1)
    simple = _SIMPLE_ESCAPES.get(text)
    if simple is not None:
        return simple
    if text[0] in "01234567":
        return chr(int(text, 8))
    if text[0] in "xuU" and len(text) > 1:
        code = int(text[1:], 16)
        return chr(code) if code < 0x110000 else match.group(0)
    return match.group(0)


def _check_name(token: Token) -> str:
    name: str = token.value
    if name in _RESERVED:
        raise error_at(token, "E101", f"unexpected {name!r}", f"{name!r} is a reserved word")
    return name


def _plain(children: list[Any]) -> list[Any]:
    return [child for child in children if child.__class__ is not Token]


def _flatten(children: list[Any]) -> list[s.Syntax]:
    if list not in [child.__class__ for child in children]:
        return children
    flat: list[s.Syntax] = []
    for child in children:
        if child.__class__ is list:
            flat.extend(child)
        else:
            flat.append(child)
    return flat


def _apply(operands: list[Any], entry: tuple[int, str, Any], chained: set[int]) -> None:
    level, text, offset = entry
    if offset >= 0:
        value = operands.pop()
        if text == "-" and value.__class__ is s.Number:
            operands.append(s.Number(offset, value.end, -value.value))
        else:
            operands.append(s.Unary(offset, value.end, text, value))
        return
    right = operands.pop()
    left = operands.pop()
    if level == LEVEL_COMPARE:
        if left.__class__ is s.Compare and id(left) in chained:
            left.ops.append(text)
            left.rest.append(right)
            left.end = right.end
            operands.append(left)
            return
        node = s.Compare(left.start, right.end, left, [text], [right])
        chained.add(id(node))
        operands.append(node)
        return
    operands.append(s.BinOp(left.start, right.end, text, left, right))


def _of_word(kind: Callable[..., s.Syntax], *values: str) -> Callable[[list[Any]], s.Syntax]:
    """The rule of a node that stands where its first word does."""
    return lambda c: kind(c[0].start_pos, c[0].end_pos, *values)


def _name(c: list[Any]) -> s.Syntax:
    token = c[0]
    value = token.value
    if value in _RESERVED:
        _check_name(token)
    return s.Name(token.start_pos, token.end_pos, value)


def _number(c: list[Any]) -> s.Syntax:
    token = c[0]
    text = token.value
    value: int | float
    try:
        if text.isdigit():
            value = int(text)
            if text[0] == "0" and value:
                raise ValueError("leading zeros")
        elif text[:2] in ("0x", "0X", "0o", "0O", "0b", "0B"):
            value = int(text, 0)
        else:
            value = float(text) if "." in text or "e" in text or "E" in text else int(text, 0)
    except ValueError:
        shown = text if len(text) < 40 else text[:40] + "..."
        raise error_at(token, "E106", f"bad number {shown}") from None
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise error_at(token, "E106", "this number is too large")
    return s.Number(token.start_pos, token.end_pos, value)


def _string(c: list[Any]) -> s.Syntax:
    parts: list[str] = []
    for token in c:
        text = token.value
        if token.type == "FSTRING":
            return s.Refused(c[0].start_pos, c[-1].end_pos, "f-string")
        position = 0
        while text[position] not in "\"'":
            position += 1
        prefix = text[:position].lower()
        if "b" in prefix:
            return s.Refused(c[0].start_pos, c[-1].end_pos, "bytes")
        width = 3 if token.type == "LONG_STRING" else 1
        inner = text[position + width : -width]
        parts.append(inner if "r" in prefix or "\\" not in inner else _ESCAPE.sub(_unescape, inner))
    return s.String(c[0].start_pos, c[-1].end_pos, parts[0] if len(parts) == 1 else "".join(parts))


def _call(c: list[Any]) -> s.Syntax:
    func, last = c[0], c[-1]
    args: list[s.Syntax] = []
    keywords: list[s.Keyword] = []
    for child in c[1:-1]:
        if child.__class__ is s.Keyword:
            keywords.append(child)
        elif keywords and child.__class__ is not s.Starred and keywords[-1].name is not None:
            raise TextError("E101", "positional argument after a keyword argument", child.start, child.end, None)
        else:
            args.append(child)
    return s.Call(func.start, last.end_pos, func, args, keywords)


def _subscript(c: list[Any]) -> s.Syntax:
    value, last = c[0], c[-1]
    items = _plain(c[1:-1])
    return s.Subscript(value.start, last.end_pos, value, items)


def _slice_item(c: list[Any]) -> s.Syntax:
    parts: list[Any] = [None, None, None]
    position = 0
    for child in c:
        if child.__class__ is Token:
            position += 1
        else:
            parts[position] = child
    first, last = c[0], c[-1]
    start: Any = first.start_pos if first.__class__ is Token else first.start
    end: Any = last.end_pos if last.__class__ is Token else last.end
    return s.Slice(start, end, parts[0], parts[1], parts[2])


def _paren(c: list[Any]) -> s.Syntax:
    if len(c) == 3 and c[1].__class__ is not s.Starred and c[1].__class__ is not Token:
        inner: s.Syntax = c[1]
        return inner
    return s.TupleLit(c[0].start_pos, c[-1].end_pos, _plain(c))


def _list_lit(c: list[Any]) -> s.Syntax:
    items = _plain(c)
    if len(items) == 1 and items[0].__class__ is s.ListComp:
        only: s.Syntax = items[0]
        return only
    return s.ListLit(c[0].start_pos, c[-1].end_pos, items)


def _dict_lit(c: list[Any]) -> s.Syntax:
    keys: list[s.Syntax | None] = []
    values: list[s.Syntax] = []
    for child in c[1:-1]:
        if child.__class__ is tuple:
            keys.append(child[0])
            values.append(child[1])
        elif child.__class__ is s.Keyword:
            keys.append(None)
            values.append(child.value)
        else:
            return s.Refused(c[0].start_pos, c[-1].end_pos, "set")
    return s.DictLit(c[0].start_pos, c[-1].end_pos, keys, values)


def _lambda_parameter(c: list[Any]) -> s.Syntax:
    first, second = c
    if second.__class__ is Token:
        return s.Parameter(first.start_pos, second.end_pos or 0, second.value, None, None, first.value)
    return s.Parameter(first.start_pos, first.end_pos, _check_name(first), None, second, "")


def _operators(c: list[Any]) -> s.Syntax:
    """Build the operator tree of a flat chain by levels (shunting yard)."""
    operands: list[Any] = []
    pending: list[tuple[int, str, Any]] = []  # level, text, offset of a prefix operator or -1
    chained: set[int] = set()
    prefixes, after_operand = 0, False
    for item in c:
        if item.__class__ is not Token:
            operands.append(item)
            after_operand, prefixes = True, 0
            continue
        text = item.value
        if not after_operand:
            prefixes += 1
            if prefixes > _MAX_PREFIX:
                raise error_at(item, "E105", "too many prefix operators")
            pending.append((LEVEL_NOT if text == "not" else LEVEL_UNARY, text, item.start_pos))
            continue
        level = _LEVELS[text]
        while pending and (pending[-1][0] > level or (pending[-1][0] == level and text not in _RIGHT)):
            _apply(operands, pending.pop(), chained)
        pending.append((level, text, -1))
        after_operand = False
    while pending:
        _apply(operands, pending.pop(), chained)
    result: s.Syntax = operands[0]
    return result


def _testlist(c: list[Any]) -> s.Syntax:
    first = c[0]
    if len(c) == 1 and first.__class__ is not s.Starred:
        only: s.Syntax = first
        return only
    items = _plain(c)
    return s.TupleLit(first.start, items[-1].end, items)


def _return_stmt(c: list[Any]) -> s.Syntax:
    value = c[1] if len(c) > 1 else None
    return s.Return(c[0].start_pos, c[0].end_pos if value is None else value.end, value)


def _import_from(c: list[Any]) -> s.Syntax:
    names = [(c[1], "*", "*") if n.__class__ is Token else (c[1], n[0], n[1]) for n in c[2:]]
    return s.Import(c[0].start_pos, c[0].end_pos, names)


def _if_stmt(c: list[Any]) -> s.Syntax:
    clauses = [(c[1], c[2])]
    otherwise: list[s.Syntax] | None = None
    for child in c[3:]:
        if child.__class__ is tuple:
            clauses.append(child)
        else:
            otherwise = child
    return s.If(c[0].start_pos, c[1].end, clauses, otherwise)


def _parameter(c: list[Any]) -> s.Syntax:
    last = c[2] or c[1]
    return s.Parameter(c[0].start_pos, last.end if last else c[0].end_pos, _check_name(c[0]), c[1], c[2], "")


def _star_parameter(c: list[Any]) -> s.Syntax:
    name = c[1].value if len(c) > 1 else ""
    return s.Parameter(
        c[0].start_pos, c[min(1, len(c) - 1)].end_pos, name, c[2] if len(c) > 2 else None, None, c[0].value
    )


def _function(c: list[Any]) -> s.Syntax:
    type_params = c[2] if len(c) == 6 else []
    params, returns, body = c[-3:]
    name = _check_name(c[1])
    return s.FunctionDef(c[0].start_pos, c[1].end_pos, name, [], type_params, params, returns, body)


def _decorated(c: list[Any]) -> s.Syntax:
    definition: s.FunctionDef | s.ClassDef | s.Skipped | Token = c[-1]
    if isinstance(definition, Token):
        return s.Skipped(definition.start_pos or 0, definition.end_pos or 0)
    if isinstance(definition, s.Skipped):
        return definition
    definition.decorators = c[:-1]
    return definition


def _start(c: list[Any]) -> s.File:
    body = _flatten(c)
    return s.File(0, body[-1].end if body else 0, body, frozenset())


RULES: dict[str, Callable[[list[Any]], Any]] = {
    "name": _name, "number": _number, "string": _string, "call": _call, "subscript": _subscript, "slice_item": _slice_item,
    "paren": _paren, "list_lit": _list_lit, "dict_lit": _dict_lit, "operators": _operators, "testlist": _testlist,
    "return_stmt": _return_stmt, "import_from": _import_from, "if_stmt": _if_stmt, "parameter": _parameter,
    "star_parameter": _star_parameter, "lambda_parameter": _lambda_parameter, "function": _function,
    "decorated": _decorated, "suite": _flatten, "start": _start,
    "literal": lambda c: s.Literal(c[0].start_pos, c[0].end_pos, _LITERALS[c[0].value]),
    "attribute": lambda c: s.Attribute(c[0].start, c[1].end_pos, c[0], c[1].value),
    "keyword": lambda c: s.Keyword(c[0].start_pos, c[1].end, _check_name(c[0]), c[1]),
    "double_starred": lambda c: s.Keyword(c[0].start_pos, c[1].end, None, c[1]),
    "starred": lambda c: s.Starred(c[0].start_pos, c[1].end, c[1]),
    "walrus": lambda c: s.Refused(c[0].start, c[-1].end, "walrus"),
    "generator": lambda c: s.ListComp(c[0].start, c[-1].end, c[0], c[1], c[2], c[3:]),
    "if_exp": lambda c: s.IfExp(c[0].start, c[2].end, c[1], c[0], c[2]),
    "lambda_exp": lambda c: s.Lambda(c[0].start_pos, c[-1].end, c[1:-1], c[-1]),
    "expr_stmt": lambda c: s.ExprStmt(c[0].start, c[0].end, c[0]),
    "assign": lambda c: s.Assign(c[0].start, c[-1].end, c[:-1], c[-1]),
    "ann_assign": lambda c: s.AnnAssign(c[0].start, c[-1].end, c[0], c[1], c[2] if len(c) > 2 else None),
    "aug_assign": lambda c: s.AugAssign(c[0].start, c[2].end, c[0], c[1].value[:-1], c[2]),
    "assert_stmt": lambda c: s.Assert(c[0].start_pos, c[-1].end, c[1], c[2] if len(c) > 2 else None),
    "refused_stmt": lambda c: s.Refused(c[0].start_pos, c[0].end_pos, c[0].value),
    "dotted": lambda c: ".".join(token.value for token in c),
    "import_as": lambda c: (c[0], "", c[1].value if len(c) > 1 else c[0].partition(".")[0]),
    "import_name": lambda c: (c[0].value, c[-1].value),
    "import_stmt": lambda c: s.Import(c[0].start_pos, c[0].end_pos, c[1:]),
    "for_stmt": lambda c: s.For(c[0].start_pos, c[2].end, c[1], c[2], c[3]),
    "while_stmt": lambda c: s.While(c[0].start_pos, c[1].end, c[1], c[2]),
    "entry": tuple, "elif_clause": tuple,
    "with_item": lambda c: s.WithItem(c[0].start, c[-1].end, c[0], c[1] if len(c) > 1 else None),
    "with_stmt": lambda c: s.With(c[0].start_pos, c[-2].end, c[1:-1], c[-1]),
    "type_param": lambda c: s.TypeParameter(c[0].start_pos, c[0].end_pos, _check_name(c[0]), c[1] if len(c) > 1 else None),
    "class_def": lambda c: s.ClassDef(c[0].start_pos, c[1].end_pos, _check_name(c[1]), [], c[2], c[3]),
    "pass_stmt": _of_word(s.Pass), "break_stmt": _of_word(s.Break), "continue_stmt": _of_word(s.Continue),
    "try_stmt": _of_word(s.Refused, "try"), "async_stmt": _of_word(s.Refused, "async"),
    **dict.fromkeys(("skipped", "skipped_block"), _of_word(s.Skipped)), "target": _testlist, "handler": lambda c: None,
    **dict.fromkeys(("simple_line", "parameters", "type_params", "bases"), lambda c: c),
    **dict.fromkeys(("else_clause", "decorator"), lambda c: c[0]),
    **dict.fromkeys(("annotation", "default", "returns"), lambda c: c[0] if c else None),
}  # fmt: skip
"""Rule of the grammar -> the function that makes its node, of its parts."""
