"""The bytecode as data: functions of instructions over registers and shape slots, and their text.

A function has registers (values) and slots (int64: the symbols of its shapes). Four instructions: ``Call``, ``Ret``,
``Goto``, ``If``. An argument is a register, an immediate, a constant, a function, a formula over the slots, or the
order to store into a slot. Parameters arrive in registers 0, 1, ...; the first instructions of a function check them.
Invariant: everything here is plain immutable data, no IR, no addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from ...ffi.abi import Dim, KernelSignature, linkage_name
from ...ffi.formula import formula_text
from ...ffi.tensor import Tensor
from ...support.schema import one_of


@dataclass(slots=True, frozen=True)
class Reg:
    """A register."""

    index: int


@dataclass(slots=True, frozen=True)
class Imm:
    """A literal: int, float, bool, text or None."""

    value: bool | int | float | str | None


@dataclass(slots=True, frozen=True)
class Const:
    """An entry of the constant pool (a tensor)."""

    index: int


@dataclass(slots=True, frozen=True)
class Func:
    """An entry of the function table, as a value."""

    index: int


@dataclass(slots=True, frozen=True)
class Size:
    """A formula over the slots; ``("sym", k)`` in it is slot ``k``. ``dtype`` tells bool and uint64, whose slots hold an int64 of
    the same bits, from other integers."""

    dim: Dim
    dtype: str = "int64"


@dataclass(slots=True, frozen=True)
class Bind:
    """Store what is matched here into a slot."""

    slot: int


Arg = Reg | Imm | Const | Func | Size | Bind
_Kind = TypeVar("_Kind", Reg, Imm, Size, Bind)


def of_kind(arg: Arg, kind: type[_Kind]) -> _Kind:
    """The argument, found to be of this kind by whoever asks."""
    assert isinstance(arg, kind)
    return arg


def dim_of(arg: Size | Imm) -> Dim:
    """The formula of an integer that is a size or a literal."""
    if isinstance(arg, Size):
        return arg.dim
    assert isinstance(arg.value, int)
    return int(arg.value)


@dataclass(slots=True, frozen=True)
class Call:
    """``dst = function(args)``; ``dst`` -1 drops the result. ``place`` is an index into ``Program.places`` or -1."""

    dst: int
    function: int
    args: tuple[Arg, ...]
    place: int = -1


@dataclass(slots=True, frozen=True)
class Ret:
    """Return a value to the caller."""

    value: Arg
    place: int = -1


@dataclass(slots=True, frozen=True)
class Goto:
    """Continue at an instruction number."""

    target: int


@dataclass(slots=True, frozen=True)
class If:
    """Continue with the next instruction where ``cond`` is true, else at ``target``."""

    cond: Arg
    target: int
    place: int = -1


Instruction = Call | Ret | Goto | If


@dataclass(slots=True, frozen=True)
class Entry:
    """A row of the function table. ``kind``: ``vm`` (bytecode), ``kernel`` (machine code), ``packed`` (registered), ``builtin``."""

    kind: Annotated[str, one_of("vm", "kernel", "packed", "builtin")]
    name: str


@dataclass(slots=True, frozen=True)
class Slot:
    """A slot: the symbol's name and where it gets its value, in words."""

    name: str
    origin: str


@dataclass(slots=True, frozen=True)
class RegType:
    """The known type of a register. ``tensor``: dtype and every dimension known (formulas of the slots); ``storage``: bytes;
    ``object``: anything else."""

    kind: Annotated[str, one_of("tensor", "storage", "object")]
    dtype: str = ""
    dims: tuple[Dim, ...] = ()


OPERATIONS: dict[str, tuple[str, str]] = {
    "alloc_storage": ("size", "storage"), "new_tensor": ("dtype *size", "tensor"), "new_tensor_of": ("dtype value", "object"),
    "tensor_in": ("value size dtype *size", "tensor"), "tensor_in_of": ("value size dtype value", "object"),
    "view": ("value size dtype *size", "tensor"), "view_of": ("value size dtype value", "object"),
    "move": ("value", "same"), "tuple": ("*value", "object"), "shape": ("*size", "object"), "get_item": ("value index", "object"),
    "arith": ("arithmetic value value", "object"), "cast": ("dtype value", "object"), "address": ("value", "object"),
    "float_bits": ("dtype value", "object"), "float_of_bits": ("dtype value", "object"), "shape_of": ("value", "object"),
    "tensor_to_shape": ("value", "object"), "shape_to_tensor": ("value", "object"), "size": ("value", "object"),
    "inspect": ("field value *value", "object"), "print": ("*value", "object"), "assert_op": ("value *value", "object"),
    "null_value": ("", "object"), "vm_context": ("", "object"),
    "nonzero": ("value", "object"), "unique": ("*value", "object"),
    "dynamic_strided_slice": ("value value value value", "object"),
    "check_tensor": ("looked context any_dtype rank", ""), "check_writable": ("looked context", ""),
    "check_shape": ("looked context rank", ""), "check_scalar": ("looked context dtype", ""),
    "check_tuple": ("looked context index", ""), "check_function": ("looked context", ""),
    "match_shape": ("looked context *axis", ""), "check_equal": ("context size size", ""),
    "check_bounds": ("context size bound bound", ""), "bind_scalar": ("looked bind", ""), "set_slot": ("bind size", ""),
    "kill": ("register", ""), "closure": ("value *value", "object"), "invoke": ("value *value", "object"),
}  # fmt: skip
"""The operations of the VM (functions of kind ``builtin``): the arguments of each (``*``: any number of the last kind) and the kind
of register its result goes to. One that looks at a register (``looked``) is a check, which the prologue may hold; native code that
has no code for a check of its own repeats it in Python."""
OBJECT_REG = RegType("object")
STORAGE_REG = RegType("storage")


@dataclass(slots=True, frozen=True)
class Context:
    """Declared place behind a check: what is checked (``parameter x``), its annotation, its place in the script."""

    function: str
    what: str
    annotation: str
    place: int = -1


@dataclass(slots=True, frozen=True)
class VMFunction:
    """A function in bytecode. ``params`` are (name, annotation) pairs, ``ret`` the annotation of the result; the first
    ``prologue`` instructions are the checks of the parameters. ``host_params`` and ``host_results``: the numbers of parameters,
    and of the result's tensors, that are the host's wherever the program's own tensors lie."""

    name: str
    params: tuple[tuple[str, str], ...]
    ret: str
    registers: tuple[RegType, ...]
    slots: tuple[Slot, ...]
    code: tuple[Instruction, ...]
    prologue: int = 0
    exported: bool = True
    host_params: tuple[int, ...] = ()
    host_results: tuple[int, ...] = ()


@dataclass(slots=True)
class Program:
    """All bytecode of a module with its tables. ``places`` are script lines (``model.py:14: y = ...``)."""

    functions: dict[str, VMFunction] = field(default_factory=dict)
    table: list[Entry] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    kernels: dict[str, KernelSignature] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    costs: dict[str, tuple[Dim, Dim]] = field(default_factory=dict)
    """Of each kernel: floating-point operations and bytes of compulsory traffic, formulas of its symbols."""

    def symbol(self, kernel: str) -> str:
        """Symbol of a kernel in the object code: its name where ``symbols`` has no other."""
        return self.symbols.get(kernel, kernel)

    def linked(self, kernel: str) -> str:
        """The name under which a kernel of exactly this signature is found."""
        return linkage_name(self.symbol(kernel), self.kernels[kernel])

    def place(self, index: int) -> str:
        """Text of a place, empty when unknown."""
        return self.places[index] if 0 <= index < len(self.places) else ""


def dim_text(dim: Dim, names: Sequence[str] | None = None) -> str:
    """A formula as text; slots print as ``#k`` or by the names given."""
    return formula_text(dim, names, nested=True)


def arg_text(arg: Arg, program: Program) -> str:
    """An argument as text."""
    match arg:
        case Reg(index):
            return f"%{index}"
        case Imm(value):
            return repr(value) if not isinstance(value, str) else '"' + value + '"'
        case Const(index):
            return f"c[{index}]"
        case Func(index):
            return f"@{program.table[index].name}"
        case Size(dim, dtype):
            return dim_text(dim) if dtype == "int64" else f"{dtype}({dim_text(dim)})"
        case Bind(slot):
            return f"#{slot} :="
    raise TypeError(type(arg).__name__)


def instruction_text(instruction: Instruction, program: Program) -> str:
    """One instruction as text, without its number."""
    match instruction:
        case Call(dst, function, args):
            inside = ", ".join([arg_text(a, program) for a in args])
            row = program.table[function]
            name = row.name if row.kind == "builtin" else f"{row.kind} {row.name}"
            return f"{f'%{dst} = ' if dst >= 0 else ''}{name}({inside})"
        case Ret(value):
            return f"ret {arg_text(value, program)}"
        case Goto(target):
            return f"goto {target}"
        case If(cond, target):
            return f"if {arg_text(cond, program)} else goto {target}"
    raise TypeError(type(instruction).__name__)


def function_text(fn: VMFunction, program: Program) -> str:
    """Disassembly of a function."""
    params = ", ".join([f"%{i} {name}: {annotation}" for i, (name, annotation) in enumerate(fn.params)])
    lines = [f"{'' if fn.exported else 'private '}function {fn.name}({params}) -> {fn.ret}"]
    if fn.slots:
        lines.append("  slots " + ", ".join([f"#{i} {slot.name}" for i, slot in enumerate(fn.slots)]))
    shown = -1
    for number, instruction in enumerate(fn.code):
        place = -1 if isinstance(instruction, Goto) else instruction.place
        if place != shown and place >= 0:
            lines.append(f"  ; {program.places[place]}")
        shown = place if place >= 0 else shown
        if number == fn.prologue and number:
            lines.append("  body:")
        lines.append(f"  {number:4}  {instruction_text(instruction, program)}")
    return "\n".join(lines)


def program_text(program: Program) -> str:
    """Disassembly of a program: constants, kernels, functions."""
    parts = []
    for index, constant in enumerate(program.constants):
        parts.append(f"c[{index}]: {constant.dtype} {constant.shape}")
    for name, signature in program.kernels.items():
        params = ", ".join([f"{p.name}: {p.dtype}{_shape(p)}" for p in signature.params])
        symbols = f" symbols {', '.join([s.name for s in signature.symbols])}" if signature.symbols else ""
        parts.append(f"kernel {name}({params}){symbols}")
    head = "\n".join(parts)
    bodies = "\n\n".join([function_text(fn, program) for fn in program.functions.values()])
    return f"{head}\n\n{bodies}" if head else bodies


def _shape(param: object) -> str:
    shape = getattr(param, "shape", None)
    return "" if shape is None else "[" + ", ".join([dim_text(d) for d in shape]) + "]"
