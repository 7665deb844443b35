"""One graph function -> bytecode: bindings, values and control flow. Calls are in ``calls.py``, handed in as ``LowerCall``.

Graph functions hold only calls of tensor programs, of each other, of registered functions and of the VM's own operators;
anything else is an error that says which pass is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arith.formula import is_integral
from ...ir.expr import (
    Binding,
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    GlobalVar,
    If,
    IntImm,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ...ir.function import Function, has_global_symbol, seq_body
from ...ir.scalar import Add, Cast, Div, Max, Min, Mul, Sub, is_binary
from ...ir.types import Expr, PrimType
from ...support.errors import VMError
from ..executable import bytecode as bc
from .checks import bind_parameters, check_and_move, check_bounds
from .tables import FunctionTables, ModuleCompiler
from .type_text import type_text

LowerCall = Callable[["FunctionCompiler", Call, "Var | None"], bc.Arg]

_FLOAT_OPS: dict[type, str] = {Add: "add", Sub: "sub", Mul: "mul", Div: "div", Min: "min", Max: "max"}


def relocate(instruction: bc.Instruction, by: int) -> bc.Instruction:
    """The instruction with its targets moved."""
    if isinstance(instruction, bc.Goto):
        return bc.Goto(instruction.target + by)
    if isinstance(instruction, bc.If):
        return bc.If(instruction.cond, instruction.target + by, instruction.place)
    return instruction


class FunctionCompiler(FunctionTables):
    """Compiles one graph function."""

    def __init__(self, module: ModuleCompiler, name: str, fn: Function, lower_call: LowerCall) -> None:
        super().__init__(module, name, fn)
        self.lower_call = lower_call

    def compile(self) -> bc.VMFunction:
        """The function's bytecode."""
        bind_parameters(self)
        prologue = len(self.code)
        check_bounds(self)
        self.body(seq_body(self.fn))
        params = tuple([(p.name, type_text(p.ty)) for p in self.fn.params])
        hoisted: list[bc.Instruction] = []
        for index in sorted(self.writable):
            row = self.module.row("builtin", "check_writable")
            hoisted.append(bc.Call(-1, row, (bc.Reg(index), self.parameter_contexts[index]), -1))
        code = [*self.code[:prologue], *hoisted, *[relocate(i, len(hoisted)) for i in self.code[prologue:]]]
        return bc.VMFunction(self.name, params, type_text(self.fn.ret_ty), tuple(self.registers), tuple(self.slots),
                             tuple(code), prologue + len(hoisted), has_global_symbol(self.fn))  # fmt: skip

    def body(self, seq: SeqExpr) -> None:
        """Code of the function's body up to its return."""
        result = self.sequence(seq)
        self.code.append(bc.Ret(result, self.where))

    # ---- bindings and values

    def sequence(self, seq: SeqExpr) -> bc.Arg:
        """Code of a sequence; its value."""
        for binding in seq.bindings:
            self.binding(binding)
        return self.value(seq.body)

    def binding(self, binding: Binding) -> None:
        """Code of one binding."""
        value = binding.value
        span = binding.span or getattr(value, "span", None)
        self.where = self.module.place(span)
        if type(binding) is MatchCast:
            source = self.boxed(self.value(value))
            self.values[binding.var] = check_and_move(
                self, source, binding.target, f"match_cast of {binding.var.name}", binding.var, span
            )
            return
        assert type(binding) is VarBinding
        var = binding.var
        arg = self.value(value, var)
        if is_integral(var.ty) and var not in self.slot_of and isinstance(arg, (bc.Size, bc.Imm)):
            slot = self.slot(var, f"variable {var.name}")
            self.emit("set_slot", slot, bc.Size(bc.dim_of(arg)))
            arg = bc.Size(("sym", slot.slot), var.ty.dtype.name)
        self.values[var] = arg

    def boxed(self, arg: bc.Arg) -> bc.Reg:
        """The argument in an untyped register, so that checks see the value itself."""
        if isinstance(arg, bc.Reg) and self.registers[arg.index].kind == "object":
            return arg
        reg = self.register()
        self.emit("move", arg, dst=reg)
        return reg

    def value(self, expr: Expr, var: Var | None = None) -> bc.Arg:
        """Code that computes an expression; where its value is. ``var`` is the variable it gets bound to."""
        if isinstance(expr, Var):
            found = self.values.get(expr)
            if found is None and expr in self.slot_of:
                return bc.Size(("sym", self.slot_of[expr]), getattr(getattr(expr.ty, "dtype", None), "name", "int64"))
            if found is None:
                raise VMError("E622", f"{self.name}: nothing defines the variable {expr.name}", expr.span)
            return found
        if type(expr) is Call and not expr.op_name.startswith("T."):
            return self.lower_call(self, expr, var)
        if type(expr) is Constant:
            return self.module.constant(expr)
        if isinstance(expr, (IntImm, FloatImm, StringImm)):
            is_bool = isinstance(expr.ty, PrimType) and expr.ty.dtype.is_bool
            return bc.Imm(bool(expr.value) if is_bool else expr.value)
        if type(expr) is DataTypeImm:
            return bc.Imm(expr.value.name)
        if type(expr) is Tuple:
            fields = [self.value(f) for f in expr.fields]
            return self.result("tuple", *fields)
        if type(expr) is ShapeExpr:
            return self.result("shape", *[bc.Size(self.dim(v)) for v in expr.values])
        if type(expr) is TupleGetItem:
            return self.item(expr, var)
        if type(expr) is If:
            return self.conditional(expr)
        if type(expr) is SeqExpr:
            return self.sequence(expr)
        if type(expr) is GlobalVar:
            return bc.Func(self.module.function_row(expr.name, expr.span))
        if type(expr) is ExternFunc:
            return bc.Func(self.module.row("packed", expr.name))
        if type(expr) is Function:
            raise VMError("E623", f"{self.name}: a local function reached the VM", getattr(expr, "span", None),
                          help="run the pass lambda_lift first")  # fmt: skip
        if is_integral(expr.ty):
            return bc.Size(self.dim(expr), expr.ty.dtype.name)
        return self.float_value(expr)

    def result(self, builtin: str, *args: bc.Arg) -> bc.Reg:
        """A builtin's result in a new untyped register."""
        dst = self.register()
        self.emit(builtin, *args, dst=dst)
        return dst

    def float_value(self, expr: Expr) -> bc.Arg:
        """Arithmetic on floating-point scalars."""
        if is_binary(expr) and type(expr) in _FLOAT_OPS:
            return self.result("arith", bc.Imm(_FLOAT_OPS[type(expr)]), self.value(expr.a), self.value(expr.b))
        if type(expr) is Cast:
            return self.result("cast", bc.Imm(expr.ty.dtype.name), self.value(expr.value))
        raise VMError("E620", f"the scalar expression {expr} cannot be computed by the VM", getattr(expr, "span", None))

    def item(self, expr: TupleGetItem, var: Var | None) -> bc.Arg:
        """A tuple field: checked, because a tuple's content is not typed in its register."""
        source = self.value(expr.tuple_value)
        reg = self.result("get_item", source, bc.Imm(expr.index))
        known = self.register_type(expr.ty)
        if known.kind == "tensor":
            moved = self.register(known)
            self.checked(reg, known, self.context(f"field {expr.index}", expr.ty, expr.span))
            self.emit("move", reg, dst=moved)
            return moved
        if is_integral(expr.ty) and var is not None:
            return check_and_move(self, reg, expr.ty, f"field {expr.index}", var, expr.span)
        return reg

    def checked(self, value: bc.Arg, known: bc.RegType, ctx: bc.Arg) -> None:
        """Check that a value is a tensor of a register's type."""
        self.emit("check_tensor", value, ctx, bc.Imm(known.dtype), bc.Imm(len(known.dims)))
        self.emit("match_shape", value, ctx, *[bc.Size(d) for d in known.dims])

    def conditional(self, expr: If) -> bc.Arg:
        """Both branches write one register."""
        cond = self.value(expr.cond)
        dst = self.register(self.register_type(expr.ty))
        hole = len(self.code)
        where = self.where
        self.code.append(bc.If(cond, -1, where))
        self.branch(expr.then_branch, dst)
        end = len(self.code)
        self.code.append(bc.Goto(-1))
        self.code[hole] = bc.If(cond, len(self.code), where)
        self.branch(expr.else_branch, dst)
        self.code[end] = bc.Goto(len(self.code))
        return dst

    def branch(self, expr: Expr, dst: bc.Reg) -> None:
        """Code of a branch; symbols bound inside stay inside."""
        slots = dict(self.slot_of)
        value = self.value(expr)
        known = self.registers[dst.index]
        if known.kind == "tensor" and not (isinstance(value, bc.Reg) and self.registers[value.index] == known):
            value = self.boxed(value)
            self.checked(value, known, self.context("branch of a conditional", expr.ty, getattr(expr, "span", None)))
        self.emit("move", value, dst=dst)
        self.slot_of = slots
