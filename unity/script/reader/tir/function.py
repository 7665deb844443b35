"""A tensor program as a whole: parameters, buffers behind them, symbols, result.

Invariant: a symbol used in a signature before the parameter of its name is that parameter.
"""

from __future__ import annotations

from ....ffi.dtype import DataType
from ....ir import VOID_TYPE, PrimFunc, PrimType, TensorType, Type, Var, prim_type, substitute
from ...parser import syntax as s
from ..common.expr import EXPRESSIONS
from ..common.names import dotted_value, path_of, unknown_name
from ..common.reading import Level, Module, Reading, Text
from ..common.scope import Dotted, Scope, dtype_name
from ..common.signature import annotation_of, read_result, read_signature
from ..common.types import as_type, read_annotation
from . import expr
from .access import attribute, method, subscript
from .assign import mutable_names
from .buffers import BufferSpec
from .calls import call, call_value
from .program import ProgramReading, read_body
from .statement_forms import PROGRAM_FORMS
from .statements import STATEMENTS


def _unknown(r: Reading, node: s.Name) -> object:
    """A name without value: perhaps that of a block that has ended."""
    assert isinstance(r, ProgramReading)
    if node.name in r.ended and node.name not in r.symbols:
        raise r.error(
            "E110", f"unknown name {node.name!r}", node,
            f"it ended with its block: declare it before the block, `{node.name}: T.float32`",
        )  # fmt: skip
    return unknown_name(r, node)


TENSOR = Level(
    letter="T", expressions=EXPRESSIONS, statements=STATEMENTS, forms=PROGRAM_FORMS, convert=expr.convert, unknown=_unknown,
    binary=expr.binary, unary=expr.unary, conditional=expr.conditional, subscript=subscript, attribute=attribute,
    method=method, path=dotted_value, call=call, call_value=call_value,
)  # fmt: skip
"""The meaning of syntax in tensor programs."""


def read_prim_func(text: Text, scope: Scope, module: Module, node: s.FunctionDef) -> PrimFunc | None:
    """Read a whole tensor program; None when an error leaves nothing to build."""
    r = ProgramReading(text, Scope(scope), TENSOR, module)
    before = len(r.errors)
    specs: dict[str, tuple[Var, BufferSpec]] = {}
    r.symbol_types = _declared(r, node)
    ret_ty = read_signature(r, node, lambda _, param: _parameter(r, param, specs)) or VOID_TYPE
    r.symbols = {name: value for name, value in r.symbols.items() if value not in r.params}
    for name, (var, spec) in specs.items():
        r.scope.names[name] = r.buffer_map[var] = spec.make(name, r.span(node))
    r.mutable = mutable_names(node.body, list(r.scope.names))
    body = read_body(r, node.body)
    if len(r.errors) > before:
        return None
    ordered = {param: r.buffer_map[param] for param in r.params if param in r.buffer_map}
    return PrimFunc(tuple(r.params), ordered, body, ret_ty, r.attrs, r.span(node))


def _declared(r: ProgramReading, node: s.FunctionDef) -> dict[str, PrimType]:
    """Types of the symbols that parameters, or lines ``n, m = T.int32(), T.int32()`` of the body, declare."""
    found: dict[str, PrimType] = {}

    def note(name: str, written: s.Syntax | None) -> None:
        dtype = None if written is None else dtype_name(path_of(r, written) or "")
        if dtype is not None and DataType(dtype).is_integral:
            found.setdefault(name, prim_type(dtype))

    for param in node.params:
        note(param.name, param.annotation)
    for line in node.body:
        if type(line) is not s.Assign:
            continue
        target, value = line.targets[0], line.value
        pairs = [(target, value)]
        if isinstance(target, s.TupleLit) and isinstance(value, s.TupleLit):
            pairs = list(zip(target.items, value.items))
        for part, made in pairs:
            if type(part) is s.Name and type(made) is s.Call and not made.args:
                note(part.name, made.func)
    return found


def returned_type(text: Text, scope: Scope, module: Module, node: s.FunctionDef) -> Type:
    """The type that a tensor program says it gives back."""
    return read_result(ProgramReading(text, scope, TENSOR, module), node) or VOID_TYPE


def _parameter(r: ProgramReading, param: s.Parameter, specs: dict[str, tuple[Var, BufferSpec]]) -> None:
    known = [*specs, *[p.name for p in r.params]]
    annotation = annotation_of(r, param, known, 'T.Buffer((16,), "float32") or T.handle')
    span = r.span(param)
    value = read_annotation(r, annotation)
    if type(value) is Dotted and value.text == "T.Buffer":
        raise r.error("E112", "T.Buffer needs a shape", annotation)
    if type(value) is BufferSpec:
        if value.data is not None:
            raise r.error("E114", "the memory of a parameter is given by the caller", param, "leave data= out")
        var = Var(f"{param.name}_handle", prim_type("handle"), span)
        specs[param.name] = (var, value)
        r.scope.names[param.name] = value  # the buffer is made when all symbols are known
    else:
        ty = as_type(r, value, annotation)
        if isinstance(ty, TensorType):
            help = 'write T.Buffer((16,), "float32")'
            raise r.error("E114", "a tensor program takes buffers, not tensors", annotation, help)
        found = r.symbols.get(param.name)
        var = found if isinstance(found, Var) and found.ty is ty else Var(param.name, ty, span)
        if isinstance(found, Var) and found is not var:  # seen before its parameter, whose type it takes
            for _, spec in specs.values():
                spec.shape = tuple([substitute(dim, {found: var}) for dim in spec.shape])
                spec.strides = tuple([substitute(dim, {found: var}) for dim in spec.strides])
                if spec.elem_offset is not None:
                    spec.elem_offset = substitute(spec.elem_offset, {found: var})
        r.symbols[param.name] = r.scope.names[param.name] = var
    r.params.append(var)
