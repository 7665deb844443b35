"""IRModule after its pipeline -> bytecode. Here: functions, bindings, entry checks, control flow; calls are in ``calls.py``.

Graph functions hold only calls of tensor programs, of each other, of registered functions and of the VM's own operators;
anything else is an error that says which pass is missing. Invariant: a register typed ``tensor`` holds a tensor of exactly
that type and shape, because every value that comes from outside is checked before it is moved there.
"""

from __future__ import annotations

from ..ffi.abi import Dim, KernelSignature
from ..ir.expr import (
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
from ..ir.function import Function, has_global_symbol, seq_body
from ..ir.module import IRModule
from ..ir.relation import dims
from ..ir.scalar import Add, Cast, Div, Max, Min, Mul, Sub
from ..ir.types import Expr, FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from ..support.deep import deep_recursion
from ..support.errors import VMError
from ..support.source import Span
from . import bytecode as bc
from .calls import compile_call
from .dims import is_integral, to_dim
from .type_text import type_text

_FLOAT_OPS: dict[type, str] = {Add: "add", Sub: "sub", Mul: "mul", Div: "div", Min: "min", Max: "max"}


def compile_module(
    mod: IRModule, signatures: dict[str, KernelSignature], symbols: dict[str, str] | None = None
) -> bc.Program:
    """Bytecode of all graph functions of a module. ``signatures`` are those of its compiled tensor programs,
    ``symbols`` their names in the object code.

    Raises VMError E62x for a module the pipeline has not lowered far enough.
    """
    program = bc.Program(kernels=dict(signatures), symbols=dict(symbols or {}))
    module = ModuleCompiler(mod, program)
    with deep_recursion():
        for name, fn in mod.functions.items():
            if type(fn) is Function:
                program.functions[name] = FunctionCompiler(module, name, fn).compile()
    return program


class ModuleCompiler:
    """Tables shared by the functions of a module."""

    def __init__(self, mod: IRModule, program: bc.Program) -> None:
        self.mod = mod
        self.program = program
        self._constants: dict[int, int] = {}
        self._places: dict[str, int] = {}
        self._rows: dict[tuple[str, str], int] = {}

    def row(self, kind: str, name: str) -> int:
        """Index in the function table."""
        found = self._rows.get((kind, name))
        if found is None:
            found = self._rows[kind, name] = len(self.program.table)
            self.program.table.append(bc.Entry(kind, name))
        return found

    def constant(self, node: Constant) -> bc.Const:
        """Index in the constant pool; equal tensor objects are stored once."""
        found = self._constants.get(id(node.data))
        if found is None:
            found = self._constants[id(node.data)] = len(self.program.constants)
            self.program.constants.append(node.data)
        return bc.Const(found)

    def place(self, span: Span | None) -> int:
        """Index of a script line; -1 without one."""
        if span is None:
            return -1
        text = f"{span.source.name}:{span.line}: {span.source.line_text(span.line).strip()}"
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = len(self.program.places)
            self.program.places.append(text)
        return found

    def function_row(self, name: str, span: Span | None = None) -> int:
        """Table row of a function of the module."""
        member = self.mod.functions.get(name)
        if type(member) is Function:
            return self.row("vm", name)
        if name in self.program.kernels:
            return self.row("kernel", name)
        if type(member) is ExternFunc:
            return self.row("packed", member.name)
        raise VMError("E621", f"the module has no compiled function {name!r}", span)


def shifted(instruction: bc.Instruction, by: int) -> bc.Instruction:
    """The instruction with its targets moved."""
    if isinstance(instruction, bc.Goto):
        return bc.Goto(instruction.target + by)
    if isinstance(instruction, bc.If):
        return bc.If(instruction.cond, instruction.target + by, instruction.place)
    return instruction


class FunctionCompiler:
    """Compiles one graph function: variables become registers, slots, constants or function references."""

    def __init__(self, module: ModuleCompiler, name: str, fn: Function) -> None:
        self.module = module
        self.name = name
        self.fn = fn
        self.code: list[bc.Instruction] = []
        self.registers: list[bc.RegType] = []
        self.slots: list[bc.Slot] = []
        self.values: dict[Var, bc.Arg] = {}
        self.slot_of: dict[Var, int] = {}
        self.parameter_contexts: dict[int, int] = {}
        self.writable: set[int] = set()
        self.where = -1

    def compile(self) -> bc.VMFunction:
        """The function's bytecode."""
        self.bind_parameters()
        prologue = len(self.code)
        result = self.sequence(seq_body(self.fn))
        self.code.append(bc.Ret(result, self.where))
        params = tuple([(p.name, type_text(p.ty)) for p in self.fn.params])
        hoisted: list[bc.Instruction] = []
        for index in sorted(self.writable):
            row = self.module.row("builtin", "check_writable")
            hoisted.append(bc.Call(-1, row, (bc.Reg(index), bc.Imm(self.parameter_contexts[index])), -1))
        code = [*self.code[:prologue], *hoisted, *[shifted(i, len(hoisted)) for i in self.code[prologue:]]]
        return bc.VMFunction(self.name, params, type_text(self.fn.ret_ty), tuple(self.registers), tuple(self.slots),
                             tuple(code), prologue + len(hoisted), has_global_symbol(self.fn))  # fmt: skip

    # ---- small tools

    def register(self, ty: bc.RegType = bc.OBJECT_REG) -> bc.Reg:
        """A new register."""
        self.registers.append(ty)
        return bc.Reg(len(self.registers) - 1)

    def emit(self, name: str, *args: bc.Arg, dst: bc.Reg | None = None) -> None:
        """Append a call of a builtin."""
        self.code.append(bc.Call(-1 if dst is None else dst.index, self.module.row("builtin", name), args, self.where))

    def context(self, what: str, ty: Type, span: Span | None) -> bc.Imm:
        """A row of the context table."""
        contexts = self.module.program.contexts
        contexts.append(bc.Context(self.name, what, type_text(ty), self.module.place(span)))
        return bc.Imm(len(contexts) - 1)

    def slot(self, var: Var, origin: str) -> bc.Bind:
        """A new slot for a symbol."""
        self.slots.append(bc.Slot(var.name, origin))
        self.slot_of[var] = len(self.slots) - 1
        return bc.Bind(len(self.slots) - 1)

    def unnamed_slot(self, name: str, origin: str) -> int:
        """A new slot without a symbol."""
        self.slots.append(bc.Slot(name, origin))
        return len(self.slots) - 1

    def slot_index(self, var: Var) -> int:
        """Slot of a symbol. Raises VMError E622 for one that nothing defines."""
        found = self.slot_of.get(var)
        if found is None:
            raise VMError("E622", f"{self.name}: nothing defines the symbol {var.name}", var.span,
                          help="let it be a whole dimension of a parameter, or bind it with R.match_cast")  # fmt: skip
        return found

    def dim(self, expr: Expr) -> Dim:
        """The formula of a dimension."""
        return to_dim(expr, self.slot_index)

    def register_type(self, ty: Type) -> bc.RegType:
        """What a register of a type may promise."""
        if isinstance(ty, TensorType) and ty.dtype is not None:
            shape = dims(ty)
            if shape is not None and self.known(shape):
                return bc.RegType("tensor", ty.dtype.name, tuple([self.dim(d) for d in shape]))
        return bc.OBJECT_REG

    def known(self, shape: tuple[Expr, ...]) -> bool:
        """Are all symbols of these dimensions bound."""
        seen: list[Var] = []

        def look(var: Var) -> int:
            seen.append(var)
            return 0

        for d in shape:
            to_dim(d, look)
        return all([v in self.slot_of for v in seen])

    # ---- checks

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

    # ---- bindings and values

    def sequence(self, seq: SeqExpr) -> bc.Arg:
        """Code of a sequence; its value."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.binding(binding)
        return self.value(seq.body)

    def binding(self, binding: Binding) -> None:
        """Code of one binding."""
        value = binding.value  # type: ignore[attr-defined]
        span = binding.span or getattr(value, "span", None)  # type: ignore[attr-defined]
        self.where = self.module.place(span)
        if type(binding) is MatchCast:
            source = self.boxed(self.value(value))
            self.values[binding.var] = self.settle(
                source, binding.target, f"match_cast of {binding.var.name}", binding.var, span
            )
            return
        assert type(binding) is VarBinding
        var = binding.var
        arg = self.value(value, var)
        if is_integral(var.ty) and var not in self.slot_of and isinstance(arg, (bc.Size, bc.Imm)):
            dim = arg.dim if isinstance(arg, bc.Size) else int(arg.value)  # type: ignore[arg-type]
            slot = self.slot(var, f"variable {var.name}")
            self.emit("set_slot", slot, bc.Size(dim))
            arg = bc.Size(("sym", slot.slot), var.ty.dtype.name)  # type: ignore[attr-defined]
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
        kind = type(expr)
        if isinstance(expr, Var):
            found = self.values.get(expr)
            if found is None and expr in self.slot_of:
                return bc.Size(("sym", self.slot_of[expr]), getattr(getattr(expr.ty, "dtype", None), "name", "int64"))
            if found is None:
                raise VMError("E622", f"{self.name}: nothing defines the variable {expr.name}", expr.span)
            return found
        if kind is Call and not getattr(expr.op, "name", "").startswith("T."):  # type: ignore[attr-defined]
            return compile_call(self, expr, var)  # type: ignore[arg-type]
        if kind is Constant:
            return self.module.constant(expr)  # type: ignore[arg-type]
        if kind in (IntImm, FloatImm, StringImm):
            is_bool = isinstance(expr.ty, PrimType) and expr.ty.dtype.is_bool
            return bc.Imm(bool(expr.value) if is_bool else expr.value)  # type: ignore[attr-defined]
        if kind is DataTypeImm:
            return bc.Imm(expr.value.name)  # type: ignore[attr-defined]
        if kind is Tuple:
            fields = [self.value(f) for f in expr.fields]  # type: ignore[attr-defined]
            return self.result("tuple", *fields)
        if kind is ShapeExpr:
            return self.result("shape", *[bc.Size(self.dim(v)) for v in expr.values])  # type: ignore[attr-defined]
        if kind is TupleGetItem:
            return self.item(expr, var)  # type: ignore[arg-type]
        if kind is If:
            return self.conditional(expr)  # type: ignore[arg-type]
        if kind is SeqExpr:
            return self.sequence(expr)  # type: ignore[arg-type]
        if kind is GlobalVar:
            return bc.Func(self.module.function_row(expr.name, expr.span))  # type: ignore[attr-defined]
        if kind is ExternFunc:
            return bc.Func(self.module.row("packed", expr.name))  # type: ignore[attr-defined]
        if kind is Function:
            raise VMError("E623", f"{self.name}: a local function reached the VM", getattr(expr, "span", None),
                          help="run the pass lambda_lift first")  # fmt: skip
        if is_integral(expr.ty):
            return bc.Size(self.dim(expr), expr.ty.dtype.name)  # type: ignore[attr-defined]
        return self.float_value(expr)

    def result(self, builtin: str, *args: bc.Arg) -> bc.Reg:
        """A builtin's result in a new untyped register."""
        dst = self.register()
        self.emit(builtin, *args, dst=dst)
        return dst

    def float_value(self, expr: Expr) -> bc.Arg:
        """Arithmetic on floating-point scalars."""
        name = _FLOAT_OPS.get(type(expr))
        if name is not None:
            return self.result("arith", bc.Imm(name), self.value(expr.a), self.value(expr.b))  # type: ignore[attr-defined]
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
            ctx = self.context(f"field {expr.index}", expr.ty, expr.span)
            self.emit("check_tensor", reg, ctx, bc.Imm(known.dtype), bc.Imm(len(known.dims)))
            self.emit("match_shape", reg, ctx, *[bc.Size(d) for d in known.dims])
            self.emit("move", reg, dst=moved)
            return moved
        if is_integral(expr.ty) and var is not None:
            return self.settle(reg, expr.ty, f"field {expr.index}", var, expr.span)
        return reg

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
            ctx = self.context("branch of a conditional", expr.ty, getattr(expr, "span", None))
            self.emit("check_tensor", value, ctx, bc.Imm(known.dtype), bc.Imm(len(known.dims)))
            self.emit("match_shape", value, ctx, *[bc.Size(d) for d in known.dims])
        self.emit("move", value, dst=dst)
        self.slot_of = slots
