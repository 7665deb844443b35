"""Code that checks a value from outside against its type, and binds the symbols of its shape.

Invariant: a register typed ``tensor`` holds a tensor of exactly that type and shape, because every value that comes from
outside is checked before it is moved there.
"""

from __future__ import annotations

from ...arith.formula import is_integral
from ...ir.analysis.symbol_bounds import promised_bounds
from ...ir.expr import Var
from ...ir.relation import dims
from ...ir.types import Expr, FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from ...support.source import Span
from ..executable import bytecode as bc
from .tables import FunctionTables


def bind_parameters(to: FunctionTables) -> None:
    """Entry checks: integers first, which shapes may name, symbols where they first show, formulas when every symbol is known."""
    registers = [to.register() for _ in to.fn.params]
    pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]] = []
    for reg, param in sorted(zip(registers, to.fn.params), key=lambda pair: not is_integral(pair[1].ty)):
        to.where = to.module.place(param.span)
        ctx = to.context(f"parameter {param.name}", param.ty, param.span)
        to.parameter_contexts[reg.index] = ctx
        check(to, reg, param.ty, ctx, pending, f"parameter {param.name}", param)
        to.values[param] = reg
        if is_integral(param.ty):
            to.values[param] = bc.Size(("sym", to.slot_of[param]), param.ty.dtype.name)
    finish_checks(to, pending)
    for reg, param in zip(registers, to.fn.params):
        to.registers[reg.index] = to.register_type(param.ty)


def check_bounds(to: FunctionTables) -> None:
    """Check the bounds that the function's attributes promise for the symbols that its parameters bound."""
    for var, bounds in promised_bounds(to.fn).items():
        ctx = to.context(f"symbol {var.name}", var.ty, var.span)
        to.emit("check_bounds", ctx, bc.Size(("sym", to.slot_of[var])), bc.Imm(bounds.lower), bc.Imm(bounds.upper))


def check(to: FunctionTables, reg: bc.Reg, ty: Type, ctx: bc.Imm, pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]], what: str,
          var: Var) -> None:  # fmt: skip
    """Check that a value has a type and bind the symbols it shows first; ``var`` names an integer scalar's slot."""
    if isinstance(ty, TensorType):
        to.emit("check_tensor", reg, ctx, bc.Imm(None if ty.dtype is None else ty.dtype.name), bc.Imm(ty.ndim))
        match(to, reg, dims(ty), ctx, pending, what)
    elif isinstance(ty, ShapeType):
        to.emit("check_shape", reg, ctx, bc.Imm(ty.ndim))
        match(to, reg, ty.values, ctx, pending, what)
    elif isinstance(ty, PrimType):
        to.emit("check_scalar", reg, ctx, bc.Imm(ty.dtype.name))
        if is_integral(ty):
            to.emit("bind_scalar", reg, to.slot(var, what))
    elif isinstance(ty, TupleType):
        to.emit("check_tuple", reg, ctx, bc.Imm(len(ty.fields)))
        for index, field in enumerate(ty.fields):
            item = to.register()
            to.emit("get_item", reg, bc.Imm(index), dst=item)
            check(to, item, field, ctx, pending, f"field {index} of {what}", Var("_", field))
    elif isinstance(ty, FuncType):
        to.emit("check_function", reg, ctx)


def match(to: FunctionTables, reg: bc.Reg, shape: tuple[Expr, ...] | None, ctx: bc.Imm,
          pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]], what: str) -> None:  # fmt: skip
    """Compare and bind dimensions; formulas of symbols that are not known yet wait in ``pending``."""
    if shape is None:
        return
    axes: list[bc.Arg] = []
    waits = False
    for axis, d in enumerate(shape):
        if isinstance(d, Var) and d not in to.slot_of:
            axes.append(to.slot(d, f"dimension {axis} of {what}"))
        elif to.known((d,)):
            axes.append(bc.Size(to.dim(d)))
        else:
            axes.append(bc.Imm(None))
            waits = True
    to.emit("match_shape", reg, ctx, *axes)
    if waits:
        pending.append((reg, ctx, shape))


def finish_checks(to: FunctionTables, pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]]) -> None:
    """The formulas that had to wait."""
    for reg, ctx, shape in pending:
        to.emit("match_shape", reg, ctx, *[bc.Size(to.dim(d)) for d in shape])


def check_and_move(
    to: FunctionTables, reg: bc.Reg, ty: Type, what: str, var: Var | None = None, span: Span | None = None
) -> bc.Arg:
    """Check a value from outside against its type and move it where the type is known."""
    if isinstance(ty, TupleType) and not ty.fields:
        return reg
    ctx = to.context(what, ty, span)
    pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]] = []
    check(to, reg, ty, ctx, pending, what, var or Var("_", ty))
    finish_checks(to, pending)
    if is_integral(ty) and var is not None:
        return bc.Size(("sym", to.slot_of[var]), ty.dtype.name)
    known = to.register_type(ty)
    if known.kind != "tensor":
        return reg
    moved = to.register(known)
    to.emit("move", reg, dst=moved)
    return moved
