"""Printing of graph functions: bindings, dataflow blocks, control flow, operator calls.

Invariant: operator arguments follow the operator's row; attributes equal to the default are left out, so the text reads
back to the same call.
"""

from __future__ import annotations

from typing import Any

from ...ir import types as ty
from ...ir.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    GlobalVar,
    If,
    IntImm,
    MatchCast,
    Op,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ...ir.function import Function, PrimFunc
from ...ir.op import OPS, REQUIRED, OpInfo
from ...ir.types import Expr
from ...ir.walk import used_vars
from ...op.building.call_inputs import call_cost
from ...op.common.table import R
from ..spelling.spelling import TVM_ATTRIBUTES
from .attr import attr
from .comments import comments
from .core import EXPRS, INDEX, VALUE, Printer, closing, quote
from .intrinsic import intrinsic
from .tir import costs, declarations, open_body, prim_func
from .types import same_type

LEAVES = (Var, Constant, ShapeExpr, Tuple, StringImm, DataTypeImm, GlobalVar, ExternFunc, IntImm, FloatImm)
"""Values that end a branch without a binding of their own."""
_CALL_DPS = {o.name for o in (R.call_dps, R.call_inplace, R.call_dps_with_grad)}
_PACKED = {o.name for o in (R.call_packed, R.call_pure_packed, R.call_inplace_packed, R.call_builtin_with_ctx)}
_EVIDENT = (Var, Constant, ShapeExpr, Tuple, StringImm, DataTypeImm, GlobalVar, ExternFunc, Function)


# ------------------------------------------------------------------------------------------------------- expressions


def graph_value(p: Printer, node: Expr) -> None:
    """An argument or bound value: scalar expressions other than variables stand in ``R.prim_value``."""
    kind = type(node)
    scalar = type(node.ty) is ty.PrimType and kind not in (Var, If, TupleGetItem, SeqExpr)
    if scalar and not (type(node) is Call and not _is_intrinsic(node)):
        p.put("R.prim_value(", (node, INDEX), ")")
    else:
        p.expr(node, VALUE)


def _is_intrinsic(node: Call) -> bool:
    return node.op_name.startswith("T.")


def _global_var(p: Printer, node: GlobalVar, where: str) -> None:
    if p.dialect.tvm and node.name in p.module_names:
        if p.level == "T":
            p.put(f"{p.class_name}.{node.name}")
        else:
            p.put(f"cls.{node.name}")
            p.free[node] = None
    elif node.name in p.module_names or p.loose:
        p.put(node.name)
    else:
        p.put(f"I.GlobalVar({quote(node.name)})")


def _tuple(p: Printer, node: Tuple, where: str) -> None:
    if not node.fields:
        p.put("R.tuple()")
        return
    if all([type(field.ty) is ty.PrimType for field in node.fields]):  # (n, m) alone would read as a shape
        p.put("R.tuple(")
        p.joined(node.fields, graph_value)
        p.put(")")
        return
    p.put("(")
    p.joined(node.fields, graph_value)
    p.put(closing(node.fields))


def _call(p: Printer, node: Call, where: str) -> None:
    op = node.op
    if type(op) is Op:
        if op.name.startswith("T."):
            intrinsic(p, node)
        elif op.name in _CALL_DPS:
            _call_dps(p, node, op.name)
        else:
            _call_op(p, node, op.name)
        return
    if type(op) is Function:
        p.put("<Function>")
    else:
        p.expr(op, VALUE)
    p.put("(")
    if p.level == "T":
        p.exprs(node.args, VALUE)
    else:
        p.joined(node.args, graph_value)
    _keywords(p, node, node.attrs, bool(node.args))
    p.put(")")


def _keywords(p: Printer, node: Call, attrs: dict[str, Any], comma: bool) -> None:
    for name, value in attrs.items():
        p.put(f", {name}=" if comma else f"{name}=")
        attr(p, value)
        comma = True
    if node.ty_args:
        p.put(", ty_args=(" if comma else "ty_args=(")
        p.joined(node.ty_args, Printer.type)
        p.put(closing(node.ty_args))


def _call_dps(p: Printer, node: Call, name: str) -> None:
    callee = node.args[0]
    if p.dialect.tvm and name == R.call_dps.name:
        p.put("R.call_dps_packed(" if type(callee) is ExternFunc else "R.call_tir(")
    else:
        p.put(f"{p.word(name)}(")
    if type(callee) is ExternFunc:
        p.put(quote(callee.name))
    else:
        p.expr(callee, VALUE)
    p.put(", ")
    graph_value(p, node.args[1])
    p.put(", out_ty=" if p.dialect.tvm else ", ")
    if len(node.ty_args) == 1 and type(node.ty_args[0]) is not ty.TupleType:
        p.type(node.ty_args[0])
    else:
        p.put("[")
        p.joined(node.ty_args, Printer.type)
        p.put("]")
    if len(node.args) > 2:
        p.put(", tir_vars=", node.args[2])
    for key, value in node.attrs.items():
        p.put(f", {key}=")
        attr(p, value)
    p.put(")")


def _call_op(p: Printer, node: Call, name: str) -> None:
    info = OPS.get(name)
    p.put(f"{p.word(name)}(")
    names = _keyword_arguments(info, len(node.args)) if info is not None else {}
    for number, arg in enumerate(node.args):
        p.put(", " if number else "")
        if number in names:
            p.put(f"{names[number]}=")
        if number == 0 and type(arg) is ExternFunc and name in _PACKED:
            p.put(quote(arg.name))
        else:
            graph_value(p, arg)
    _keywords(p, node, _printed_attrs(p, node.attrs, info), bool(node.args))
    p.put(")")


def _keyword_arguments(info: OpInfo, count: int) -> dict[int, str]:
    """Names of the arguments that cannot stand by position, because an attribute comes before them in the row."""
    names: dict[int, str] = {}
    passed_attr = False
    number = 0
    for param in info.params:
        if param.kind == "exprs":
            return names
        if param.kind == "attr":
            passed_attr = True
        else:
            if passed_attr and number < count:
                names[number] = param.name
            number += 1
    return names


def _printed_attrs(p: Printer, attrs: dict[str, Any], info: OpInfo | None) -> dict[str, Any]:
    if info is None or not attrs:
        return attrs
    other = TVM_ATTRIBUTES.get(info.name, ()) if p.dialect.tvm else ()
    defaults = {param.name: param.default for param in info.params if param.kind == "attr" and param.name not in other}
    return {k: v for k, v in attrs.items() if k not in defaults or not _is_default(v, defaults[k])}


def _is_default(value: Any, default: Any) -> bool:
    if default is REQUIRED or isinstance(value, Expr) or isinstance(default, Expr):
        return False
    return type(value) is type(default) and repr(value) == repr(default)


EXPRS.update({
    GlobalVar: _global_var, Tuple: _tuple, Call: _call, Op: lambda p, node, _: p.put(p.word(node.name)),
    ExternFunc: lambda p, node, _: p.put(f"R.ExternFunc({quote(node.name)})"),
    DataTypeImm: lambda p, node, _: p.put(f'R.dtype("{node.value.name}")'),
    TupleGetItem: lambda p, node, _: p.put(node.tuple_value, f"[{node.index}]"),
    ShapeExpr: lambda p, node, _: p.put("R.shape([", (node.values, INDEX), "])"),
})  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- bindings


def _binding(p: Printer, binding: Any, target: str | None = None) -> None:
    """One binding; ``target`` is the name that the last binding of a branch gives its value."""
    comments(p, binding)
    if p.place is not None and binding.span is not None:
        place = binding.span.place
        if place != p.place:
            p.place = place
            p.line(f"# {place}")
    if p.costs and type(binding.value) is Call:
        work = call_cost(binding.value)
        if work is not None:
            costs(p, work)
    if p.underline and (id(binding) in p.underline or id(binding.value) in p.underline):
        start = len(p.out)
        _write_binding(p, binding, target)
        p.marks.append((start, len(p.out)))
    else:
        _write_binding(p, binding, target)


def _write_binding(p: Printer, binding: Any, target: str | None) -> None:
    var, value = binding.var, binding.value
    if type(binding) is MatchCast:
        p.bound.add(var)
        p.line(target or p.name_of(var))
        if not same_type(var.ty, binding.target):
            p.put(": ", var.ty)
        p.put(" = R.match_cast(")
        graph_value(p, value)
        p.put(", ", binding.target, ")")
        return
    kind = type(value)
    if kind is If:
        name = target or p.name_of(var)
        p.bound.add(var)
        _if(p, value, name)
        return
    if kind is Function:
        p.bound.add(var)
        function(p, value, target or p.name_of(var), nested=True)
        return
    if (
        target is None
        and var.name == "_"
        and var not in p.names.by_node
        and kind is Call
        and same_type(var.ty, value.ty)
    ):
        p.line("_ = " if p.dialect.tvm else "")
        if not p.dialect.tvm:
            p.pending[var] = len(p.out) - 1
        else:
            p.names.by_node[var] = "_"
        p.bound.add(var)
        graph_value(p, value)
        return
    p.bound.add(var)
    p.line(target or p.name_of(var))
    if not _is_evident(var, value):
        p.put(": ", var.ty)
    p.put(" = ")
    graph_value(p, value)


def _is_evident(var: Var, value: Expr) -> bool:
    """True when the type of a binding need not be written: reading the value gives it."""
    kind = type(value)
    if type(var.ty) is ty.PrimType:
        return var.ty is value.ty
    if type(value) is Call:
        name = value.op_name
        if name not in _CALL_DPS and not (name in _PACKED and value.ty_args):
            return False
    elif kind not in _EVIDENT:
        return False
    return same_type(var.ty, value.ty)


def _block(p: Printer, block: BindingBlock, last: str | None = None) -> None:
    if type(block) is not DataflowBlock:
        for number, binding in enumerate(block.bindings):
            _binding(p, binding, last if number == len(block.bindings) - 1 else None)
        return
    p.line("with R.dataflow():")
    p.indent += 1
    for binding in block.bindings:
        _binding(p, binding)
    outputs = [b.var for b in block.bindings if not b.var.dataflow]
    p.line(f"R.output({', '.join([p.name_of(v) for v in outputs])})")
    p.dedent()


def _if(p: Printer, node: If, target: str) -> None:
    word = "if "
    while True:
        p.line(word)
        graph_value(p, node.cond)
        p.put(":")
        _branch(p, node.then_branch, target)
        binding = _only_binding(node.else_branch)
        if binding is None or type(binding.value) is not If:
            break
        p.bound.add(binding.var)
        node, word = binding.value, "elif "
    p.line("else:")
    _branch(p, node.else_branch, target)


def _only_binding(branch: Expr) -> VarBinding | None:
    """The binding that is all of a branch."""
    blocks = branch.blocks if type(branch) is SeqExpr else ()
    found = blocks[0].bindings if len(blocks) == 1 and type(blocks[0]) is BindingBlock else ()
    alone = len(found) == 1 and type(found[0]) is VarBinding and found[0].var is branch.body  # type: ignore[attr-defined]
    return found[0] if alone else None  # type: ignore[return-value]


def _value_of(binding: Any) -> Expr:
    value: Expr = binding.value
    return value


def _branch(p: Printer, node: Expr, target: str) -> None:
    p.indent += 1
    blocks = node.blocks if type(node) is SeqExpr else ()
    body = node.body if type(node) is SeqExpr else node
    last = blocks[-1] if blocks else None
    ends = False
    if last is not None and type(last) is not DataflowBlock and last.bindings and last.bindings[-1].var is body:
        ends = not isinstance(_value_of(last.bindings[-1]), LEAVES) or type(last.bindings[-1]) is MatchCast
    for block in blocks:
        _block(p, block, target if ends and block is last else None)
    if not ends:
        p.line(f"{target} = ")
        graph_value(p, body)
    p.dedent()


# --------------------------------------------------------------------------------------------------------- functions


def function(p: Printer, fn: Function, name: str, nested: bool = False) -> None:
    """A graph function with its decorator."""
    before, p.level = p.level, "R"
    symbol = fn.attrs.get("global_symbol")
    options = []
    if not nested and symbol is None:
        options.append("private=True")
    if not fn.pure:
        options.append("pure=False")
    if not fn.checked:
        options.append("check_well_formed=False")
    comments(p, fn)
    p.line(f"@R.function({', '.join(options)})" if options else "@R.function")
    p.line(f"def {name}(")
    p.bound.update(fn.params)
    outer_quoting, p.quoting = p.quoting, True
    p.joined(fn.params, lambda p, param: p.put(f"{p.name_of(param)}: ", param.ty))
    p.put(")")
    if not p.dialect.tvm or _bound_by_params(fn):  # TVM refuses symbols that only the body binds
        p.put(" -> ", fn.ret_ty)
    p.quoting = False
    slot = open_body(p, fn, name)
    outer_free, p.free = p.free, {}
    body = fn.body
    if type(body) is SeqExpr:
        for block in body.blocks:
            _block(p, block)
        body = body.body
    comments(p, fn.body)
    p.line("return ")
    graph_value(p, body)
    used, p.free = p.free, outer_free
    if nested:
        p.free.update({v: None for v in used if v not in p.bound})
    else:
        p.free = used
        lines = declarations(p)
        if p.dialect.tvm and any([type(v) is GlobalVar for v in used]):
            lines = "\n" + "    " * p.indent + f"cls = {p.class_name}" + lines
        p.out[slot] = lines
        p.free = outer_free
    p.dedent()
    p.quoting = outer_quoting
    p.level = before


def _bound_by_params(fn: Function) -> bool:
    known = {v for param in fn.params for v in used_vars(param.ty)}
    return all([v in known for v in used_vars(fn.ret_ty)])


def any_function(p: Printer, fn: Any, name: str) -> None:
    """A function of either level, or an external one as a module member."""
    if type(fn) is PrimFunc:
        prim_func(p, fn, name)
    elif type(fn) is Function:
        function(p, fn, name)
    else:
        p.line(f"{name} = R.ExternFunc({quote(fn.name)})")
