"""Attributes of functions and statements, and threads, which are attributes too. ``ATTR_FORMS`` is the table."""

from __future__ import annotations

from typing import Any

from ....ir import IterVar, Var, build as b, prim_type
from ...parser import syntax as s
from ..common.calls import arguments, bound_arguments, takes_arguments
from ..common.constants import attribute_value
from ..common.reading import Form, bind_arguments
from ..common.values import as_dtype, as_index, as_text
from .program import ProgramReading, Wrap
from .sequence import attr_wrap, wrap_rest


@takes_arguments
def _func_attr(r: ProgramReading, path: str, node: s.Call, attrs: Any) -> None:
    if not isinstance(attrs, dict):
        raise r.error("E113", f"{path} takes a dict", node)
    for key, item in attrs.items():
        name = as_text(r, key, node, "a string as key")
        r.attrs[f"tir.{name[5:]}" if name.startswith("tirx.") else name] = attribute_value(item)


def _attr(r: ProgramReading, path: str, node: s.Call) -> None:
    for wrap in attr_wraps(r, path, node):
        wrap_rest(r, wrap, node)


def attr_wraps(r: ProgramReading, path: str, node: s.Call) -> list[Wrap]:
    """The wraps of ``T.attr(...)`` and ``T.hint(...)``."""
    if path == "T.hint":
        args, keywords = arguments(r, node)
        if len(args) != 1:
            raise r.error("E112", "T.hint takes a name and keywords", node)
        return [attr_wrap(r, 0, f"hint_{as_text(r, args[0], node)}", attribute_value(keywords), node)]
    args, keywords = arguments(r, node)
    if len(args) == 1 and isinstance(args[0], dict) and not keywords:
        return [attr_wrap(r, 0, as_text(r, key, node), attribute_value(v), node) for key, v in args[0].items()]
    bound = bind_arguments(r, node, path, ("node", "attr_key", "value"), args, keywords, 3)
    target = attribute_value(bound["node"])
    if isinstance(target, Var):
        target = r.iters.get(target, target)
    key, value = as_text(r, bound["attr_key"], node), bound["value"]
    if type(target) is IterVar and key in ("thread_extent", "virtual_thread"):
        return [attr_wrap(r, target, key, b.cast(as_index(r, value, node), b.dtype_of(target.var)), node)]
    return [attr_wrap(r, target, key, attribute_value(value), node)]


@takes_arguments
def _env_thread(r: ProgramReading, path: str, node: s.Call, thread_tag: Any, dtype: Any = "int64") -> IterVar:
    ty = prim_type(as_dtype(r, dtype, node))
    var = Var(r.hint or "t", ty, r.span(node))
    axis = IterVar(var, None, "thread", as_text(r, thread_tag, node), r.span(node))
    r.iters[var] = axis
    return axis


def _launch_thread(r: ProgramReading, path: str, node: s.Call) -> Var:
    var, wrap = launch(r, node, r.hint)
    wrap_rest(r, wrap, node)
    r.declared.add(var)
    return var


def launch(r: ProgramReading, node: s.Call, name: str) -> tuple[Var, Wrap]:
    """The variable of ``T.launch_thread(...)``, and its wrap."""
    bound = bound_arguments(r, "T.launch_thread", node, ("thread", "extent"), 2)
    thread, extent = bound["thread"], as_index(r, bound["extent"], node)
    if type(thread) is str:
        var = Var(name or "t", extent.ty, r.span(node))
        thread = IterVar(var, None, "thread", thread, r.span(node))
        r.iters[var] = thread
    elif isinstance(thread, Var) and thread in r.iters:
        thread = r.iters[thread]
    if type(thread) is not IterVar:
        raise r.error("E113", "expected T.env_thread(...) or the name of a thread axis", node)
    extent = b.cast(extent, b.dtype_of(thread.var))
    key = "virtual_thread" if thread.thread_tag.startswith("vthread") else "thread_extent"
    return thread.var, attr_wrap(r, thread, key, extent, node)


ATTR_FORMS: dict[str, Form] = {
    "T.func_attr": _func_attr, "T.attr": _attr, "T.env_thread": _env_thread, "T.launch_thread": _launch_thread,
}  # fmt: skip
