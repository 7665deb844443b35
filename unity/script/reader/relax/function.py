"""Graph functions: signature, body, statements of their own, nested functions.

Not here: bindings, blocks, branches (``bindings.py``, ``branches.py``). Invariant: what is built is in A-normal form with a type on
every binding.
"""

from __future__ import annotations

from typing import Any

from ....ir import Expr, Function, PrimType, Tuple, Type, Var, VarBinding, replace
from ....ir.infer import find_impure_call
from ....ir.relation import Answer, erase, is_subtype
from ....ir.types import FuncType
from ....ir.walk import free_vars, used_vars
from ....support.errors import Note
from ...parser import syntax as s
from ..common.calls import arguments
from ..common.constants import attribute_value
from ..common.expr import ignored, refused, refusing
from ..common.names import path_of, unknown_name
from ..common.reading import Level, Reading, Silent, Table
from ..common.scope import Scope
from ..common.signature import annotation_of, macro_of, options_of, read_signature
from ..common.types import as_type, read_annotation
from ..common.values import INT64, as_expr, read_expr
from .bindings import bind, read_annotated, read_assign, read_augmented, read_match_cast
from .branches import read_if, read_with
from .expr import GRAPH_EXPRESSIONS, attribute, binary, conditional, convert, method, operator_or_name, subscript, unary
from .forms import GRAPH_FORMS
from .graph import GraphReading, read_statements
from .operators import call, call_value

# ----------------------------------------------------------------------------------------------------------- statements


_NOT_IN_GRAPH: dict[type, tuple[str, str | None]] = {
    s.Import: ("script does not have `import` inside a function", None),
    s.For: ("`for` has no place in a graph function", "write a recursive function, or a loop in a @T.prim_func"),
    s.While: ("`while` has no place in a graph function", "write a recursive function"),
    s.Assert: ("`assert` has no place in a graph function", "use R.assert_op(condition, format=...)"),
    s.Break: ("`break` has no place in a graph function", None),
    s.Continue: ("`continue` has no place in a graph function", None),
    s.ClassDef: ("a class stands only at the top of a text", None),
}


def _expr_stmt(r: GraphReading, node: s.ExprStmt) -> None:
    value_node = node.value
    r.hint = ""
    if isinstance(value_node, (s.String, s.Literal)):
        return
    if type(value_node) is s.Call:
        match path_of(r, value_node.func):
            case "R.func_attr":
                (value,) = arguments(r, value_node)[0][:1] or (None,)
                if not isinstance(value, dict):
                    raise r.error("E113", "R.func_attr takes a dict", node)
                r.attrs.update(attribute_value(value))
                return
            case "R.match_cast" | "R.match_shape":
                read_match_cast(r, None, value_node)
                return
            case "R.output":
                raise r.error("E120", "R.output stands at the end of `with R.dataflow()`", node)
    value = read_expr(r, value_node)
    if value is None:
        return
    if not isinstance(value, Expr):
        raise r.error("E113", "this line has no effect", node)
    bind(r, "_", value, None, node)


def _return(r: GraphReading, node: s.Return) -> None:
    r.return_node = node
    place = node.value or node
    value = None if node.value is None else read_expr(r, node.value)
    if value is None or isinstance(value, tuple):
        r.result = Tuple(tuple([as_expr(r, item, place) for item in value or ()]), r.span(node))
    else:
        r.result = as_expr(r, value, place)


def _nested(r: GraphReading, node: s.FunctionDef) -> None:
    macro = macro_of(r, node)
    if macro is not None:
        r.scope.names[node.name] = macro
        return
    options = options_of(r, node, "R.function")
    if options is None:
        raise r.error("E107", "only @R.function can be nested in a graph function", node)
    span = r.span(node)
    inner = GraphReading(r.text, Scope(r.scope), r.level, r.module, node, options)
    inner.source = r.source
    inner.symbols = dict(r.symbols)
    inner.outer_symbols = [v for v in r.symbols.values() if isinstance(v, Var)]
    signature(inner)
    annotated = function_type(inner)
    own: Var | None = None
    if annotated is not None:  # the body may call the function itself
        own = Var(node.name, annotated, span)
        inner.scope.names.setdefault(node.name, own)
    inner_body = body(inner)
    if inner_body is None:
        raise Silent
    inside = r.is_dataflow_local(node.name)
    var = own if own is not None and not inside else Var(node.name, inner_body.ty, span, inside)
    r.builder.emit_binding(VarBinding(var, inner_body, span))
    r.scope.names[node.name] = var


STATEMENTS: Table = {
    s.Assign: read_assign, s.AnnAssign: read_annotated, s.AugAssign: read_augmented, s.ExprStmt: _expr_stmt, s.If: read_if,
    s.With: read_with, s.Return: _return, s.FunctionDef: _nested, s.Pass: ignored, s.Skipped: ignored,
    s.Refused: refused, **refusing(_NOT_IN_GRAPH),
}  # fmt: skip


def _unknown(r: Reading, node: s.Name) -> Any:
    """A name without value: perhaps that of a dataflow block, or of a metadata section."""
    name = node.name
    if isinstance(r, GraphReading) and name in r.hidden and name not in r.symbols:
        raise r.error(
            "E120", f"{name!r} is visible only inside its dataflow block", node, f"add it to R.output({name})",
            [Note("defined here", r.hidden[name].span)],
        )  # fmt: skip
    if name == "metadata":
        raise r.error(
            "E124", "the constants of a metadata section are not part of this text", node,
            'print it with script(show_meta=True), or lend them: parse(text, scope={"metadata": metadata(mod)})',
        )  # fmt: skip
    return unknown_name(r, node)


GRAPH = Level(
    letter="R", expressions=GRAPH_EXPRESSIONS, statements=STATEMENTS, forms=GRAPH_FORMS, convert=convert, unknown=_unknown,
    binary=binary, unary=unary, conditional=conditional, subscript=subscript, attribute=attribute, method=method,
    path=operator_or_name, call=call, call_value=call_value,
)  # fmt: skip
"""The meaning of syntax in graph functions, and in the lines of a module."""

# ------------------------------------------------------------------------------------------------------------ functions


def signature(r: GraphReading) -> None:
    """Read the parameters and the result type."""
    r.ret_ty = read_signature(r, r.node, _parameter)
    r.builder.get_unique_name("_")
    for param in r.params:
        r.builder.get_unique_name(param.name)


def _parameter(r: GraphReading, param: s.Parameter) -> None:
    annotation = annotation_of(r, param, [known.name for known in r.params], 'R.Tensor((n, 4), "float32")')
    r.param_name = param.name
    try:
        value = read_annotation(r, annotation)
    finally:
        r.param_name = ""
    if isinstance(value, Var) and isinstance(value.ty, PrimType):
        raise r.error("E113", "expected a type", annotation)
    ty = as_type(r, value, annotation)
    known = r.scope.names.get(param.name)
    if known is None and ty is INT64:  # a symbol that a type before shows already
        known = r.symbols.get(param.name)
    var = known if isinstance(known, Var) else Var(param.name, ty, r.span(param))
    r.scope.names[param.name] = var
    r.params.append(var)


def function_type(r: GraphReading) -> FuncType | None:
    """Type of the function while its body is not read: known when the result is annotated."""
    if r.ret_ty is None:
        return None
    return FuncType(tuple([p.ty for p in r.params]), r.ret_ty, bool(r.options.get("pure", True)))


def body(r: GraphReading) -> Function | None:
    """Read the statements; None when an error leaves nothing to build."""
    before = len(r.errors)
    node = r.node
    r.builder.begin_sequence()
    read_statements(r, node.body, top=True)
    if len(r.errors) > before:
        return None
    result = r.result if r.result is not None else Tuple((), r.span(node))
    end = r.return_node or node
    made = replace(r.builder.end_sequence(r.builder.normalize(result)), span=r.span(end))
    pure = r.options.get("pure")
    impure = find_impure_call(made)
    forced = bool(r.attrs.get("force_pure") or r.attrs.get("relax.force_pure"))
    if pure and impure is not None and not forced:
        name = getattr(impure.op, "name", "this call")
        problem = r.error(
            "E119", f"{name} has an effect, but the function is written pure=True", node,
            "write @R.function(pure=False), or leave pure out",
        )  # fmt: skip
        problem.span = impure.span or problem.span
        raise problem
    if r.ret_ty is not None and is_subtype(made.ty, r.ret_ty) is Answer.NO:
        note = Note(f"the function is declared to return {r.ret_ty}", r.span(node.returns or node))
        raise r.error("E118", f"the function returns {made.ty}", end, notes=[note])
    ret = _result_type(r, made.ty if r.ret_ty is None else r.ret_ty, made)
    purity = bool(pure) if pure is not None else impure is None or forced
    return Function(tuple(r.params), made, ret, purity, r.attrs, r.span(node))


def _result_type(r: GraphReading, ret: Type, value: Expr) -> Type:
    """The type callers see: symbols that only the body binds are unknown to them."""
    known = set(r.outer_symbols)
    for param in r.params:
        known.update(free_vars(param.ty), [param])
    loose = [var for var in free_vars(ret) if var not in known]
    if not loose:
        return ret
    used = set(used_vars(value))
    for var in loose:
        if var not in used:
            message = f"the symbol {var.name!r} of the result is bound by no parameter"
            raise r.error("E110", message, r.node.returns or r.node)
    return erase(ret, known)
