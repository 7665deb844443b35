"""State that the compiler to bytecode fills while it walks: a module's tables, a function's registers, slots and code.

Nothing here looks at an expression's kind: checks are in ``checks.py``, expressions in ``function.py``.
Invariant: rows, constants and places are stored once; a symbol has one slot.
"""

from __future__ import annotations

from ...ffi.abi import Dim
from ...ffi.device import DEVICE_KINDS
from ...ir.expr import (
    Constant,
    ExternFunc,
    Var,
)  # fmt: skip
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.relation import dims
from ...ir.types import Expr, TensorType, Type
from ...support.errors import CodegenError, VMError
from ...support.source import Span
from ...transform.infra.backend import BACKENDS
from ..executable import bytecode as bc
from .type_text import to_dim, type_text


class ModuleCompiler:
    """Tables shared by the functions of a module."""

    def __init__(self, mod: IRModule, program: bc.Program) -> None:
        self.mod = mod
        self.program = program
        self._constants: dict[int, int] = {}
        self._places: dict[str, int] = {}
        self._rows: dict[tuple[str, str], int] = {}
        self._device = ""

    def works_on_host(self, vdevice: str, span: Span | None) -> bool:
        """True if a virtual device works on the host's memory. Raises CodegenError E531 for a kind that nobody knows, VMError E612
        for a second device beside the host, where no tensor of the program can lie."""
        name = vdevice.partition(":")[0]
        kind = BACKENDS[name].runtime.device if name in BACKENDS else DEVICE_KINDS.get(name)
        if kind is None:
            raise CodegenError("E531", f"a tensor is to lie on {vdevice}, a device of an unknown kind", span,
                               help=f"known are {', '.join(dict.fromkeys([*BACKENDS, *DEVICE_KINDS]))}")  # fmt: skip
        if not kind.host_memory and vdevice != (self._device or vdevice):
            what = f"tensors are to lie on {self._device} and on {vdevice}: a program has one device beside the host"
            help = "compile a module for each device; unity.tensor(x, device=...) moves what one hands to another"
            raise VMError("E612", what, span, help=help)
        self._device = self._device if kind.host_memory else vdevice
        return kind.host_memory

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
        text = f"{span.place}: {span.source.line_text(span.line).strip()}"
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


class FunctionTables:
    """One function while it is compiled: variables become registers, slots, constants or function references."""

    def __init__(self, module: ModuleCompiler, name: str, fn: Function) -> None:
        self.module = module
        self.name = name
        self.fn = fn
        self.code: list[bc.Instruction] = []
        self.registers: list[bc.RegType] = []
        self.slots: list[bc.Slot] = []
        self.values: dict[Var, bc.Arg] = {}
        self.slot_of: dict[Var, int] = {}
        self.parameter_contexts: dict[int, bc.Imm] = {}
        self.writable: set[int] = set()
        self.where = -1

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
        """The promise of a register that holds a value of a type."""
        if isinstance(ty, TensorType) and ty.dtype is not None:
            shape = dims(ty)
            if shape is not None and self.known(shape):
                return bc.RegType("tensor", ty.dtype.name, tuple([self.dim(d) for d in shape]))
        return bc.OBJECT_REG

    def known(self, shape: tuple[Expr, ...]) -> bool:
        """True if all symbols of these dimensions are bound."""
        seen: list[Var] = []

        def look(var: Var) -> int:
            seen.append(var)
            return 0

        for d in shape:
            to_dim(d, look)
        return all([v in self.slot_of for v in seen])
