"""KernelSignature of a tensor program: parameters, where its symbols are read, formulas of its shapes."""

from __future__ import annotations

from collections.abc import Iterable

from ..arith.formula import NoFormula, to_formula
from ..ffi.abi import BufferParam, Dim, KernelSignature, ScalarParam, SymbolSource
from ..ffi.native.runtime_table import DTYPE_INDEX
from ..ir.buffer import Buffer
from ..ir.build import dtype_of, mul
from ..ir.expr import Call, IntImm, Var
from ..ir.function import PrimFunc
from ..ir.node import Node
from ..ir.scalar import BufferLoad, Let, Select
from ..ir.stmt import Bind, BufferStore
from ..ir.types import Expr, PrimType, TupleType, prim_type
from ..ir.walk import collect
from ..support.errors import CodegenError
from .kernel_groups import special_nodes


def formula(expr: Expr, symbols: dict[Var, int]) -> Dim:
    """A scalar expression as data. Raises CodegenError E528 for what a formula cannot say."""

    def number_of(var: Var) -> int:
        number = symbols.get(var)
        if number is None:
            raise CodegenError("E528", f"symbol {var.name} stands in a shape but no parameter gives it", var.span)
        return number

    try:
        return to_formula(expr, number_of)
    except NoFormula as problem:
        raise CodegenError(
            "E528", f"{problem} cannot stand in the shape of a parameter", getattr(problem.expr, "span", None)
        ) from None


def result_dtype(func: PrimFunc) -> str | None:
    """Name of the type of the value a tensor program returns, None where it returns none."""
    ty = func.ret_ty
    if type(ty) is PrimType and ty.dtype.code not in ("void", "handle") and ty.dtype.lanes == 1:
        return ty.dtype.name
    if ty is None or (type(ty) is PrimType and ty.dtype.code == "void") or (type(ty) is TupleType and not ty.fields):
        return None
    raise CodegenError("E528", f"a tensor program cannot return {ty!r}", func.span)


def find_symbols(func: PrimFunc) -> dict[Var, SymbolSource]:
    """Symbols in the order of the raw entry: variables that stand alone in shapes, then in strides, parameter by parameter;
    scalar parameters only where a shape needs them in a formula and no dimension is the parameter itself."""
    found: dict[Var, SymbolSource] = {}
    for number, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            continue
        for field, extents in (("shape", buffer.shape), ("strides", buffer.strides)):
            for axis, extent in enumerate(extents):
                if type(extent) is Var and extent not in found:
                    found[extent] = SymbolSource(extent.name, number, axis, field)
    scalars = {p: i for i, p in enumerate(func.params)}
    for buffer in func.buffer_map.values():
        for extent in (*buffer.shape, *buffer.strides):
            for var in collect(extent, Var):
                if var in scalars and var not in found:
                    found[var] = SymbolSource(var.name, scalars[var], 0, "value")
    return found


_SOURCES = {
    "T.ptx_cp_async": 2, "T.ptx_cp_async_bulk": 2, "T.ptx_cp_async_bulk_tensor": 2,
    "T.ptx_cp_async_bulk_tensor_im2col": 2, "T.ptx_ldmatrix": 5, "T.tvm_load_matrix_sync": 5,
}  # fmt: skip
"""Instructions that only read behind a pointer, by its place."""


def written_pointers(nodes: Iterable[Node]) -> set[Var]:
    """Data pointers that a body with these nodes may write through: stored to, called by another name, or passed on as a pointer
    that is not only read."""
    written: set[Var] = set()
    taken: dict[int, Var] = {}
    fetched, passed = set[int](), set[int]()
    for found in nodes:
        if isinstance(found, BufferStore):
            written.add(found.buffer.data)
        if isinstance(found, (Bind, Let)):
            written.update(_named(found.value))
        if not isinstance(found, Call):
            continue
        name = found.op_name
        if name == "T.tvm_access_ptr" and len(found.args) == 5 and _only_reads(found.args[4]):
            continue
        for position, argument in enumerate(found.args):
            reads = name == "T.prefetch" or _SOURCES.get(name) == position
            (fetched if reads else passed).add(id(argument))
            if type(argument) is Var and not reads:
                written.add(argument)
            elif name == "T.address_of" and type(argument) is BufferLoad:
                taken[id(found)] = argument.buffer.data
    return written | {data for call, data in taken.items() if call in passed or call not in fetched}


def _named(value: Expr) -> list[Var]:
    """The variables of which one is the value."""
    found, values = list[Var](), [value]
    while values:
        value = values.pop()
        if isinstance(value, Select):
            values += [value.true_value, value.false_value]
        elif isinstance(value, Var):
            found.append(value)
    return found


def _only_reads(mask: Expr) -> bool:
    """True if an access mask (1: read, 2: write) is that of a reader."""
    return type(mask) is IntImm and mask.value == 1


def kernel_signature(name: str, func: PrimFunc, nodes: Iterable[Node] | None = None) -> KernelSignature:
    """Return the signature of the tensor program ``func``, called ``name``.

    ``nodes``: the stores and calls of its body, and maybe more, if they are known already. Raises CodegenError E521 for elements
    that no array has, E528 for a shape that no formula of its parameters gives.
    """
    nodes = special_nodes(func) if nodes is None else nodes
    sources = find_symbols(func)
    symbols = {var: number for number, var in enumerate(sources)}
    written = written_pointers(nodes)
    params: list[BufferParam | ScalarParam] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            params.append(ScalarParam(param.name, dtype_of(param).name))
            continue
        element = buffer.dtype.element
        if element.name not in DTYPE_INDEX and element.code != "handle":
            raise CodegenError("E521", f"parameter {buffer.name} of {name} holds {element.name}, which no array does",
                               buffer.span or param.span, help="hold it in whole bytes: int8 or uint8")  # fmt: skip
        shape = tuple([formula(e, symbols) for e in _element_shape(buffer, sources)])
        strides = tuple([formula(e, symbols) for e in buffer.strides])
        is_written = buffer.data in written or param in written
        params.append(BufferParam(buffer.name, element.name, shape, strides, is_written))
    return KernelSignature(name, tuple(params), tuple(sources.values()), (), result_dtype(func), ())


def _element_shape(buffer: Buffer, sources: dict[Var, SymbolSource]) -> tuple[Expr, ...]:
    """Shape of the array given for a buffer: of vectors, the last axis counts elements. Raises CodegenError E528."""
    lanes = buffer.dtype.lanes
    if lanes == 1:
        return buffer.shape
    last = buffer.shape[-1] if buffer.shape else IntImm(1, prim_type("int64"))
    source = sources.get(last) if isinstance(last, Var) else None
    if buffer.strides or (source is not None and source.field == "shape" and source.axis == len(buffer.shape) - 1):
        raise CodegenError(
            "E528", f"buffer {buffer.name} of {buffer.dtype.name}: its last extent must be a constant, without strides",
            buffer.span,
        )  # fmt: skip
    return (*buffer.shape[:-1], mul(last, lanes))


def symbol_vars(func: PrimFunc) -> list[Var]:
    """The symbols' variables in the order of the raw entry."""
    return list(find_symbols(func))
