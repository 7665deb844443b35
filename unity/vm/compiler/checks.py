"""Code that checks a value from outside against its type, and binds the symbols of its shape.

Invariant: a register typed ``tensor`` holds a tensor of exactly that type and shape, because every value that comes from
outside is checked before it is moved there.
"""

from __future__ import annotations

from ...ir.analysis.symbol_bounds import promised_bounds
from ...ir.expr import Var
from ...ir.relation import dims
from ...ir.types import Expr, FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from ...support.source import Span
from ..executable import bytecode as bc
from .dims import is_integral
from .tables import FunctionTables


class CheckCompiler(FunctionTables):
    """Entry checks, match_cast and results of foreign calls."""

    def bind_parameters(self) -> None:
        """Entry checks: types first, symbols where they first show, formulas when every symbol is known."""
        registers = [self.register() for _ in self.fn.params]
        pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]] = []
        for reg, param in zip(registers, self.fn.params):
            self.where = self.module.place(param.span)
            ctx = self.context(f"parameter {param.name}", param.ty, param.span)
            self.parameter_contexts[reg.index] = int(ctx.value)  # type: ignore[arg-type]
            self.check(reg, param.ty, ctx, pending, f"parameter {param.name}", param)
            self.values[param] = reg
            if is_integral(param.ty):
                self.values[param] = bc.Size(("sym", self.slot_of[param]), param.ty.dtype.name)  # type: ignore[attr-defined]
        self.finish_checks(pending)
        for reg, param in zip(registers, self.fn.params):
            self.registers[reg.index] = self.register_type(param.ty)

    def check_bounds(self) -> None:
        """Check the bounds that the function's attributes promise for the symbols that its parameters bound."""
        for var, bounds in promised_bounds(self.fn).items():
            ctx = self.context(f"symbol {var.name}", var.ty, var.span)
            self.emit(
                "check_bounds", ctx, bc.Size(("sym", self.slot_of[var])), bc.Imm(bounds.least), bc.Imm(bounds.most)
            )

    def check(self, reg: bc.Reg, ty: Type, ctx: bc.Imm, pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]], what: str,
              var: Var) -> None:  # fmt: skip
        """Check that a value has a type and bind the symbols it shows first; ``var`` names an integer scalar's slot."""
        if isinstance(ty, TensorType):
            self.emit("check_tensor", reg, ctx, bc.Imm(None if ty.dtype is None else ty.dtype.name), bc.Imm(ty.ndim))
            self.match(reg, dims(ty), ctx, pending, what)
        elif isinstance(ty, ShapeType):
            self.emit("check_shape", reg, ctx, bc.Imm(ty.ndim))
            self.match(reg, ty.values, ctx, pending, what)
        elif isinstance(ty, PrimType):
            self.emit("check_scalar", reg, ctx, bc.Imm(ty.dtype.name))
            if is_integral(ty):
                self.emit("bind_scalar", reg, self.slot(var, what))
        elif isinstance(ty, TupleType):
            self.emit("check_tuple", reg, ctx, bc.Imm(len(ty.fields)))
            for index, field in enumerate(ty.fields):
                item = self.register()
                self.emit("get_item", reg, bc.Imm(index), dst=item)
                self.check(item, field, ctx, pending, f"field {index} of {what}", Var("_", field))
        elif isinstance(ty, FuncType):
            self.emit("check_function", reg, ctx)

    def match(self, reg: bc.Reg, shape: tuple[Expr, ...] | None, ctx: bc.Imm,
              pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]], what: str) -> None:  # fmt: skip
        """Compare and bind dimensions; formulas of symbols that are not known yet wait in ``pending``."""
        if shape is None:
            return
        axes: list[bc.Arg] = []
        waits = False
        for axis, d in enumerate(shape):
            if isinstance(d, Var) and d not in self.slot_of:
                axes.append(self.slot(d, f"dimension {axis} of {what}"))
            elif self.known((d,)):
                axes.append(bc.Size(self.dim(d)))
            else:
                axes.append(bc.Imm(None))
                waits = True
        self.emit("match_shape", reg, ctx, *axes)
        if waits:
            pending.append((reg, ctx, shape))

    def finish_checks(self, pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]]) -> None:
        """The formulas that had to wait."""
        for reg, ctx, shape in pending:
            self.emit("match_shape", reg, ctx, *[bc.Size(self.dim(d)) for d in shape])

    def settle(self, reg: bc.Reg, ty: Type, what: str, var: Var | None = None, span: Span | None = None) -> bc.Arg:
        """Check a value from outside against its type and move it where the type is known."""
        if isinstance(ty, TupleType) and not ty.fields:
            return reg
        ctx = self.context(what, ty, span)
        pending: list[tuple[bc.Reg, bc.Imm, tuple[Expr, ...]]] = []
        self.check(reg, ty, ctx, pending, what, var or Var("_", ty))
        self.finish_checks(pending)
        if is_integral(ty) and var is not None:
            return bc.Size(("sym", self.slot_of[var]), ty.dtype.name)  # type: ignore[attr-defined]
        known = self.register_type(ty)
        if known.kind != "tensor":
            return reg
        moved = self.register(known)
        self.emit("move", reg, dst=moved)
        return moved
