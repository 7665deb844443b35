"""The printer's entry: any node to canonical script, in one of the dialects, with underlines where asked.

Importing this module fills the printer hooks of the ``ir`` room. Invariant: printed functions and modules read back
structurally equal, and the text of what was read back is the same text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...ffi.tensor import Tensor
from ...ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from ...ir.common_subtrees import check_size
from ...ir.expr import BindingBlock, DataflowBlock, ExternFunc, If, MatchCast, SeqExpr, VarBinding
from ...ir.function import Function, PrimFunc
from ...ir.module import IRModule
from ...ir.node import SCRIPT_HOOKS, Node
from ...ir.scalar import CommReducer, IterVar
from ...ir.stmt import Stmt
from ...ir.types import Expr, Type
from ...support.errors import OptionError, VerifyError
from ...support.recursion import deep_recursion
from . import block as show_block, relax as show_relax
from .attr import METADATA_KEY, attr, attr_dict
from .comments import Comments, comments_above, comments_at_end, comments_below
from .core import DIALECTS, RAW, Dialect, Names, Printer, excerpt, is_name
from .highlight import ansi, html_block, wants_color
from .scalar import bounds, comm_reducer, iter_var, region
from .tir import buffer_arguments


def dialect_of(name: str) -> Dialect:
    """A dialect by name. Raises OptionError E003."""
    found = DIALECTS.get(name) if isinstance(name, str) else None
    if found is None:
        raise OptionError("E003", f"no script dialect {name!r}", help=f"one of: {', '.join(DIALECTS)}")
    return found


def script(
    node: Any,
    dialect: str = "unity",
    *,
    name: str | None = None,
    underline: Node | Sequence[Node] | None = None,
    note: str | None = None,
    context: int | None = None,
    places: bool = False,
    show_meta: bool = True,
    costs: bool = False,
    comments: bool = False,
) -> str:
    """Return a node as script text. Raises VerifyError E348 if it is too large.

    ``dialect``: "unity" or "tvm". ``name``: name of a function that stands alone. ``underline``: nodes to mark with ``^^^^``, with
    ``note`` beside the first; ``context`` keeps only that many lines around them. ``places``: write where bindings come from as
    comments. ``show_meta=False``: replace large constants by ``metadata["relax.expr.Constant"][0]``, ...; ``metadata(node)`` holds
    them. ``costs``: write the work of operator calls and tensor programs as comments. ``comments``: keep the comments of the source
    text.
    """
    marked: tuple[Node, ...] = ()
    if underline is not None:
        marked = (underline,) if isinstance(underline, Node) else tuple(underline)
    p = Printer(dialect_of(dialect), marked)
    p.place = "" if places else None
    p.costs = costs
    p.comments = Comments() if comments else None
    p.metadata = None if show_meta else []
    if isinstance(node, Node):
        check_size(node)
    with deep_recursion():
        _top(p, node, name)
    comments_at_end(p)
    _name_omitted(p)
    text = p.marked(note)
    return excerpt(text, context) if context is not None and p.marks else text


def metadata(node: Node) -> dict[str, list[Tensor]]:
    """The constants that ``script(node, show_meta=False)`` leaves out: what its text needs to be read,
    ``parse(text, scope={"metadata": metadata(node)})``."""
    p = Printer()
    p.metadata = []
    check_size(node)
    with deep_recursion():
        _top(p, node, None)
    return {METADATA_KEY: p.metadata}


def _name_omitted(p: Printer) -> None:
    if p.metadata:
        count, size = len(p.metadata), sum([data.numpy().nbytes for data in p.metadata])
        p.put(
            f"\n# Metadata omitted: {count} constant{'s' if count > 1 else ''}, {size} bytes. ",
            "Use show_meta=True in script() to write them.",
        )


def show(node: Any, **options: Any) -> str:
    """A node as script: the name used by error messages; options as in ``script``."""
    return script(node, **options)


def print_node(node: Node) -> str:
    """The ``repr`` of a node: script, with ``<Type>`` for values that have no spelling."""
    p = Printer()
    p.strict = False
    p.metadata = []
    try:
        check_size(node)
    except VerifyError as error:
        return f"<{type(node).__name__}: {error.message}>"
    with deep_recursion():
        _top(p, node, None)
    _name_omitted(p)
    return p.text()


def show_module(node: Any, *, dialect: str = "unity", color: bool | None = None, **options: Any) -> None:
    """Write a node to standard output, highlighted when that is a terminal (``color`` decides otherwise).

    Options as in ``script``; large constants are left out unless ``show_meta=True``.
    """
    options.setdefault("show_meta", False)
    text = script(node, dialect, **options)
    colored = wants_color(sys.stdout) if color is None else color
    sys.stdout.write((ansi(text) if colored else text) + "\n")


def html(node: Any) -> str:
    """A node as highlighted HTML for notebooks."""
    return html_block(script(node, show_meta=False))


# ---------------------------------------------------------------------------------------------------------- dispatch


def _function_name(fn: Any) -> str:
    symbol = fn.attrs.get("global_symbol") if isinstance(fn, (Function, PrimFunc)) else None
    return symbol if isinstance(symbol, str) and is_name(symbol) else "main"


def _module(p: Printer, mod: IRModule) -> None:
    p.class_name = mod.name if is_name(mod.name) else "Module"
    p.module_names = frozenset(mod.functions)
    if p.dialect.tvm:
        p.line("# from tvm.script import ir as I")
        p.line("# from tvm.script import tirx as T")
        p.line("# from tvm.script import relax as R")
        p.line()
    spans = [fn.span for fn in mod.functions.values() if getattr(fn, "span", None) is not None]
    source = spans[0].source if spans else None
    comments_above(p, source)
    p.line("@I.ir_module" if mod.checked else "@I.ir_module(check_well_formed=False)")
    p.line(f"class {p.class_name}:")
    p.indent = 1
    empty = True
    for key, values in (("I.module_attrs", mod.attrs), ("I.module_global_infos", mod.global_infos)):
        if values:
            p.line(f"{key}(")
            attr_dict(p, {name: list(rows) for name, rows in values.items()} if values is mod.global_infos else values)
            p.put(")")
            empty = False
    for name, fn in mod.functions.items():
        if not empty:
            p.put("\n")
        empty = False
        _new_scope(p, {p.class_name, *mod.functions})
        show_relax.any_function(p, fn, name)
    if empty:
        p.line("pass")
    p.dedent()
    comments_below(p, source)


def _new_scope(p: Printer, taken: set[str]) -> None:
    p.names = Names(taken)
    p.bound, p.free, p.pending = set(), {}, {}
    p.loops, p.data_of = {}, {}


def _top(p: Printer, node: Any, name: str | None) -> None:
    kind = type(node)
    if kind is IRModule:
        _module(p, node)
    elif kind is Function or kind is PrimFunc:
        function_name = name or _function_name(node)
        p.names = Names({function_name})
        show_relax.any_function(p, node, function_name)
    else:
        p.loose = True
        _standalone(p, node)


def _standalone(p: Printer, node: Any) -> None:
    """A node outside any function."""
    kind = type(node)
    if isinstance(node, Type):
        p.type(node)
    elif isinstance(node, Stmt):
        p.level = "T"
        p.stmt(node)
    elif kind in _STANDALONE:
        _STANDALONE[kind](p, node)
    elif isinstance(node, Expr):
        p.level = "R" if kind in _GRAPH else "T"
        if kind is ExternFunc:
            p.expr(node)
        else:
            p.expr(node, RAW)
    else:
        attr(p, node)


_GRAPH = frozenset(show_relax.LEAVES)


def _standalone_seq(p: Printer, node: SeqExpr) -> None:
    for block in node.blocks:
        show_relax._block(p, block)
    p.line()
    show_relax.graph_value(p, node.body)


def _standalone_if(p: Printer, node: If) -> None:
    show_relax._if(p, node, p.names.fresh("v"))


def _standalone_buffer(p: Printer, node: Buffer) -> None:
    p.level = "T"
    p.put(f"{p.name_of(node)}: T.Buffer(")
    buffer_arguments(p, node)
    p.put(")")


def _standalone_range(p: Printer, node: Range) -> None:
    p.level = "T"
    p.put("T.Range(")
    bounds(p, node, ", ")
    p.put(")")


def _standalone_match(p: Printer, node: MatchBufferRegion) -> None:
    p.level = "T"
    p.put(f"{p.name_of(node.buffer)} = T.match_buffer(")
    region(p, node.source)
    p.put(", ")
    buffer_arguments(p, node.buffer)
    p.put(")")


_STANDALONE: dict[type, Any] = {
    BindingBlock: show_relax._block, DataflowBlock: show_relax._block, VarBinding: show_relax._binding,
    MatchCast: show_relax._binding, SeqExpr: _standalone_seq, If: _standalone_if, Buffer: _standalone_buffer, BufferRegion: region,
    Range: _standalone_range, MatchBufferRegion: _standalone_match, IterVar: iter_var, CommReducer: comm_reducer,
}  # fmt: skip

_FORMS = (show_block, show_relax)  # importing them fills the tables
SCRIPT_HOOKS["print"] = print_node
SCRIPT_HOOKS["script"] = script
SCRIPT_HOOKS["show"] = show_module
SCRIPT_HOOKS["html"] = html
