"""Forms that are statements, attributes and threads among them, and the table of all forms of tensor programs: ``PROGRAM_FORMS``.

Not here: forms with a value (``forms.py``), forms that hold a body (``frames.py``). Invariant: a form appends its statements to
the open sequence, or wraps what follows.
"""

from __future__ import annotations

from typing import Any

from ....ir import AssertStmt, Evaluate, Expr, GlobalVar, IterVar, Return, Var, build as b, prim_type
from ...parser import syntax as s
from ..common.calls import arguments, bound_arguments, takes_arguments
from ..common.constants import attribute_value
from ..common.reading import Form, Reading, bind_arguments
from ..common.values import as_dtype, as_expr, as_index, as_text, as_typed, read_scalar
from .assign import bind
from .blocks import AXIS_FORMS, BLOCK_FORMS
from .calls import EXPRESSION_FORMS
from .expr import as_condition
from .intrinsics import intrinsic
from .memory_forms import MEMORY_FORMS
from .program import ProgramReading, Wrap, attr_wrap, wrap_rest


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


def _evaluate(r: ProgramReading, path: str, node: s.Call) -> None:
    if len(node.args) != 1 or node.keywords:
        raise r.error("E112", "T.evaluate takes one value", node)
    r.out.append(Evaluate(read_scalar(r, node.args[0]), r.span(node)))


@takes_arguments
def _ret(r: ProgramReading, path: str, node: s.Call, value: Any) -> None:
    r.out.append(Return(as_expr(r, value, node), r.span(node)))


@takes_arguments
def assert_form(r: ProgramReading, path: str, node: s.Call, condition: Any, message: Any) -> None:
    """``T.Assert(condition, message)``."""
    condition = as_condition(r, condition, node)
    r.out.append(AssertStmt(condition, as_text(r, message, node), span=r.span(node)))


@takes_arguments
def _bind(r: ProgramReading, path: str, node: s.Call, value: Any, dtype: Any = None, var: Any = None) -> Expr:
    name = r.hint or "v"
    scalar = as_expr(r, value, node) if dtype is None else as_typed(r, value, as_dtype(r, dtype, node), node)
    result = bind(r, name, scalar, node)
    r.declared.add(result)
    return result


_REFUSED: dict[str, str] = {
    "T.realize": "realization regions belong to the tensor-expression era; allocate with T.alloc_buffer",
    "T.prefetch": "prefetch statements are not part of this language",
    "T.store": "a raw store through a pointer; declare a buffer with T.decl_buffer and assign to it",
    "T.load": "a raw load through a pointer; declare a buffer with T.decl_buffer and read it",
    "T.preflattened_buffer": "a flat view of a parameter; give the parameter its shape and use T.decl_buffer(data=A.data)",
    "T.tvm_stack_make_array": "calling conventions are not part of a program; give buffers to T.call_packed as they are",
    "T.tvm_stack_make_shape": "calling conventions are not part of a program; give buffers to T.call_packed as they are",
    "T.tvm_struct_get": "calling conventions are not part of a program; take the program from before it was lowered",
    "T.tvm_struct_set": "calling conventions are not part of a program; take the program from before it was lowered",
}


def _refused(r: Reading, path: str, node: s.Call) -> Any:
    if path == "T.prefetch" and node.args and type(node.args[0]) is s.Call:  # the intrinsic, of an address
        return intrinsic(r, path, node)
    raise r.error("E117", f"{path}: {_REFUSED[path]}", node)


STATEMENT_FORMS: dict[str, Form] = {
    **BLOCK_FORMS, **MEMORY_FORMS, **ATTR_FORMS, "T.evaluate": _evaluate, "T.ret": _ret, "T.Assert": assert_form,
    "T.bind": _bind, "I.GlobalVar": takes_arguments(
        lambda r, path, node, name: GlobalVar(as_text(r, name, node), span=r.span(node))),
}  # fmt: skip
PROGRAM_FORMS: dict[str, Form] = {
    **EXPRESSION_FORMS,
    **dict.fromkeys(_REFUSED, _refused),
    **AXIS_FORMS,
    **STATEMENT_FORMS,
}
