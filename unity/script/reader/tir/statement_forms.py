"""Forms that are statements, and the table of all forms of tensor programs: ``PROGRAM_FORMS``.

Not here: forms with a value (``forms.py``), forms that hold a body (``frames.py``). Invariant: a form appends its statements to
the open sequence, or wraps what follows.
"""

from __future__ import annotations

from typing import Any

from ....ir import AssertStmt, Evaluate, Expr, GlobalVar, Return
from ...parser import syntax as s
from ..common.calls import takes_arguments
from ..common.reading import Form, Reading
from ..common.values import as_dtype, as_expr, as_text, as_typed, read_scalar
from .assign import bind
from .attr_forms import ATTR_FORMS
from .blocks import AXIS_FORMS, BLOCK_FORMS
from .calls import EXPRESSION_FORMS
from .expr import as_condition
from .intrinsics import intrinsic
from .memory_forms import MEMORY_FORMS
from .program import ProgramReading


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


@takes_arguments
def _global_var(r: ProgramReading, path: str, node: s.Call, name: Any) -> GlobalVar:
    return GlobalVar(as_text(r, name, node), span=r.span(node))


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
    "T.bind": _bind, "I.GlobalVar": _global_var,
}  # fmt: skip
PROGRAM_FORMS: dict[str, Form] = {
    **EXPRESSION_FORMS,
    **dict.fromkeys(_REFUSED, _refused),
    **AXIS_FORMS,
    **STATEMENT_FORMS,
}
