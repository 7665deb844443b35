"""Parameters of a function become constants: ``bind_params.with_options(func_name="main", params={"w": array})(mod)``.

Rewrite: ``main(x, w)`` -> ``main(x)`` with uses of w as ``R.const(...)``. Parameters are named by their name or by their
variable; the data is shared, not copied. The symbols a bound parameter fixes become numbers everywhere in the function.

``bind_symbolic_vars.with_options(symbols={"n": 16})(mod)`` makes symbols of shapes numbers: ``main(x: R.Tensor(("n", 4)))`` ->
``main(x: R.Tensor((16, 4)))``. Symbols are named by their name or variable; those of ``func_name`` are bound, of every public
function when it is empty. ``update_param_type.with_options(update=fn)(mod)`` changes types: ``update(var)`` gives the new one, or
None to leave it. All types that follow are deduced anew; what the body says itself (results of call_dps) must fit them: the
verifier says where it does not.

``bundle_model_params`` makes the weights one tuple parameter: ``main(x, w, b)`` with ``num_input = 1`` -> ``main(x, model_params)``
and ``w = model_params[0]``, ``b = model_params[1]`` at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....ir.analysis import defined_symbols
from ....ir.expr import BindingBlock, IntImm, SeqExpr, TupleGetItem, Var, VarBinding
from ....ir.function import Function, seq_body
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.relation import Answer, bind_symbols, is_subtype
from ....ir.types import Expr, PrimType, TensorType, TupleType, Type
from ....ir.walk import Rewriter
from ....op.common.table import constant
from ....support.errors import PassError
from ...infra.passes import function_pass, module_pass
from ..rewriting.graph_rewriter import join_blocks
from ..rewriting.reinfer_types import substitute_folded, with_params


def _find(fn: Function, key: Any) -> Var:
    found = [p for p in fn.params if p is key or p.name == key]
    if len(found) != 1:
        known = ", ".join([p.name for p in fn.params])
        how = "names several parameters" if found else "is not a parameter"
        raise PassError("E557", f"{key!r} {how}", help=f"the parameters are: {known}")
    return found[0]


def _graph_function(mod: IRModule, name: str) -> Function:
    fn = mod[name]
    if not isinstance(fn, Function):
        raise PassError("E557", f"{name} is not a graph function")
    return fn


def bind(fn: Function, values: Mapping[Var, Expr]) -> Function:
    """The function without these parameters. Raises PassError E557 for a value that does not fit."""
    mapping: dict[Any, Any] = {}
    for param, value in values.items():
        bind_symbols(param.ty, value.ty, mapping)
    for param, value in values.items():
        target = substitute_folded(param.ty, mapping)
        if is_subtype(value.ty, target) is not Answer.YES:
            raise PassError("E557", f"parameter {param.name} of type {param.ty} cannot be a value of type {value.ty}")
    mapping.update(values)
    attrs = dict(fn.attrs)
    if isinstance(attrs.get("num_input"), int):
        attrs["num_input"] = len([p for p in fn.params[: attrs["num_input"]] if p not in values])
    return with_params(replace(fn, attrs=attrs), [p for p in fn.params if p not in values], mapping)


@module_pass()
def bind_params(
    mod: IRModule, *, func_name: str = "main", params: Mapping[Any, Any] | tuple[tuple[Any, Any], ...] = ()
) -> IRModule:
    """Replace parameters by constants.

    The data is shared; symbols that a bound parameter fixes become numbers.
    ``func_name``: the function; ``params``: values by parameter (name or variable): arrays, Tensors, constants.
    """
    given = dict(params)
    if not given:
        return mod
    fn = _graph_function(mod, func_name)
    values: dict[Var, Expr] = {}
    for key, value in given.items():
        param = _find(fn, key)
        if param in values:
            raise PassError("E557", f"parameter {param.name} is given twice")
        scalar = isinstance(param.ty, PrimType) and isinstance(value, int)
        dtype = param.ty.dtype if isinstance(param.ty, TensorType) and isinstance(value, (int, float)) else None
        values[param] = (
            value if isinstance(value, Expr) else IntImm(value, param.ty) if scalar else constant(value, dtype)  # type: ignore[arg-type]
        )
    return mod.with_functions({func_name: bind(fn, values)})


def _bind(fn: Function, sizes: Mapping[Any, int], used: set[Any]) -> Function:
    mapping: dict[Any, Any] = {}
    for symbol in defined_symbols(fn):
        for key, size in sizes.items():
            if (symbol is key or symbol.name == key) and isinstance(symbol.ty, PrimType):
                used.add(key)
                mapping[symbol] = IntImm(int(size), symbol.ty)
    return with_params(fn, fn.params, mapping) if mapping else fn


@module_pass()
def bind_symbolic_vars(
    mod: IRModule, *, symbols: Mapping[Any, int] | tuple[tuple[Any, int], ...] = (), func_name: str = ""
) -> IRModule:
    """Replace symbols of shapes by numbers.

    ``symbols``: sizes by symbol (name or variable); ``func_name``: the one function, all public ones when empty.
    """
    sizes = dict(symbols)
    for key, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise PassError("E557", f"the size of {getattr(key, 'name', key)} must be a number from 0 up, got {size!r}")
    changes: dict[str, Any] = {}
    used: set[Any] = set()
    for name, fn in mod.graph_functions().items():
        chosen = name == func_name if func_name else "global_symbol" in fn.attrs
        if chosen:
            changes[name] = _bind(fn, sizes, used)
    unknown = [getattr(k, "name", k) for k in sizes if k not in used]
    if unknown:
        raise PassError("E557", f"no function has the symbols {', '.join(map(str, unknown))}")
    return mod.with_functions(changes)


@function_pass()
def update_param_type(fn: Function, *, update: Callable[[Var], Type | None] | None = None) -> Function:
    """Change types of parameters by the function ``update(var)``, and deduce all types that follow.

    ``update``: parameter to its new type or None.
    """
    if update is None:
        return fn
    mapping: dict[Any, Any] = {}
    for param in fn.params:
        ty = update(param)
        if ty is not None and ty is not param.ty:
            mapping[param] = Var(param.name, ty, param.span)
    if not mapping:
        return fn
    return with_params(fn, fn.params, mapping)


def with_head(heads: tuple[VarBinding, ...], body: SeqExpr) -> SeqExpr:
    """The sequence with bindings before its own."""
    return SeqExpr(join_blocks((BindingBlock(heads), *body.blocks)), body.body, body.span)


@function_pass()
def bundle_model_params(fn: Function, *, param_tuple_name: str = "model_params") -> Function:
    """Pass the parameters after ``num_input`` as one tuple. Functions without the attribute ``num_input`` stay.

    ``param_tuple_name``: name of the tuple parameter.
    """
    count = fn.attrs.get("num_input")
    if not isinstance(count, int) or count >= len(fn.params):
        return fn
    inputs, weights = fn.params[:count], fn.params[count:]
    bundle = Var(param_tuple_name, TupleType(tuple([w.ty for w in weights])))
    fields: dict[Any, Any] = {w: Var(w.name, w.ty, w.span) for w in weights}
    body = seq_body(replace(fn, body=Rewriter(mapping=fields)(fn.body)))
    heads = tuple([VarBinding(fields[w], TupleGetItem(bundle, i)) for i, w in enumerate(weights)])
    return replace(fn, params=(*inputs, bundle), body=with_head(heads, body))
