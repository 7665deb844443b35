"""The parser of a grammar; its tables are kept between processes, for making them takes a second.

They are kept as JSON of lark's own plain form, and not in lark's cache, which is a pickle: nothing in the file is code or names any
but classes of lark's tables. Not here: the folder, and whose files are believed (`ffi/cache/object_cache.py`).
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lark import LarkOptions, PostLex
from lark.lexer import TerminalDef

from ...ffi.cache.cache_key import Key
from ...ffi.cache.object_cache import cached

_OPTIONS: dict[str, Any] = {"parser": "lalr", "lexer": "contextual", "maybe_placeholders": False}


def parser_of(grammar: str, layout: PostLex, tree: object) -> Lark:
    """A parser of a grammar: ``layout`` rewrites its tokens, ``tree`` builds what it gives."""
    key = Key("grammar", tools=lark.__version__, options=repr(_OPTIONS), grammar=grammar)
    make = partial(Lark, grammar, postlex=layout, transformer=tree, **_OPTIONS)
    return cached(key, make, _dump, partial(_load, layout, tree))


def _dump(parser: Lark) -> bytes:
    """The tables of a parser. A row of the parse table is: token, action, token, action, ...; to shift is the next state, to reduce
    the inverted number of a rule."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    table = data["parser"]["parser"]
    rows = [[state, [n for t, (reduce, to) in row.items() for n in (t, ~to["@"] if reduce else to)]]
            for state, row in table.pop("states").items()]  # fmt: skip
    del data["options"]
    return json.dumps(
        [data, list(memo.items()), list(table.pop("tokens").items()), rows], separators=(",", ":")
    ).encode()


def _load(layout: PostLex, tree: object, kept: bytes) -> Lark:
    """A parser from its tables."""
    data, memo, tokens, rows = json.loads(kept)
    reduce = {~number: (1, {"@": number}) for number, _ in memo}
    data["options"] = LarkOptions(_OPTIONS).serialize()
    data["parser"]["parser"] |= {
        "tokens": dict(tokens),
        "states": {
            state: {t: reduce[n] if n < 0 else (0, n) for t, n in zip(row[::2], row[1::2])} for state, row in rows
        },
    }
    read: Lark = Lark._load_from_dict(data, dict(memo), postlex=layout, transformer=tree)  # type: ignore[no-untyped-call]
    return read
