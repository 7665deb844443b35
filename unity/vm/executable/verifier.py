"""The verifier of the bytecode: what the executors take for granted is proved before either of them sees a program.

Per function: every index points into its table; every operation has the arguments and the kind of result it is made for; registers
and slots are read only where every path has written them; a typed register gets tensors of exactly its type and shape; a kernel
gets what its signature says, in every dimension, or sizes that a check has compared; jumps stay inside, never in the prologue.
Not here: types of single fields (`codec.py`), and whether machine code is what a signature says (its symbol does: `ffi/abi.py`).
Invariant: one walk over the instructions, a second one only where a jump leads back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...ffi.abi import BufferParam, Dim, KernelSignature, map_symbols, product, symbols_of
from ...ffi.dtype import DataType
from ...ffi.native.runtime_table import DTYPE_INDEX
from ...support.schema import Misfit, need
from ..builtins.builtins import ARITHMETIC, INSPECTED
from . import bytecode as bc

_PROLOGUE = frozenset(["get_item", *[name for name, (kinds, _) in bc.OPERATIONS.items() if kinds.startswith("looked")]])


def verify_program(program: bc.Program) -> None:
    """Raise Misfit where a program is not what the executors rely on."""
    for name, signature in program.kernels.items():
        _signature(name, signature)
    names = {"vm": set(program.functions), "kernel": set(program.kernels), "builtin": set(bc.OPERATIONS)}
    for entry in program.table:
        known = names.get(entry.kind)
        need(known is None or entry.name in known, f"there is no {entry.kind} {entry.name!r}")
    for context in program.contexts:
        need(-1 <= context.place < len(program.places), "a context has no place")
    for kernel, formulas in program.costs.items():
        need(kernel in program.kernels, f"costs of an unknown kernel {kernel!r}")
        for formula in formulas:
            _formula(formula, len(program.kernels[kernel].symbols), "costs")
    for name, fn in program.functions.items():
        _Function(program, fn).verify()
        need(name == fn.name, "a function has another name than its place")


def _formula(dim: Dim, symbols: int, what: str) -> None:
    need(type(dim) is int or all([k < symbols for k in symbols_of(dim)]), f"{what}: a formula of an unknown symbol")


def _signature(name: str, signature: KernelSignature) -> None:
    count = len(signature.symbols)
    for param in signature.params:
        what = f"kernel {name}, parameter {param.name}"
        need(param.dtype in DTYPE_INDEX or param.dtype == "handle", f"{what}: unknown dtype {param.dtype!r}")
        if isinstance(param, BufferParam):
            need(len(param.strides) in (0, len(param.shape)), f"{what}: strides of another rank")
            for dim in (*param.shape, *param.strides):
                _formula(dim, count, what)
    for source in signature.symbols:
        what = f"kernel {name}, symbol {source.name}"
        need(0 <= source.param < len(signature.params), f"{what}: no parameter {source.param}")
        param = signature.params[source.param]
        if isinstance(param, BufferParam):
            need(source.field != "value" and source.axis < len(param.shape), f"{what}: no such axis")
        else:
            need(source.field == "value", f"{what}: a scalar has no {source.field}")
    need(signature.result is None or signature.result in DTYPE_INDEX, f"kernel {name}: unknown result")


def sizes_to_compare(
    signature: KernelSignature, shapes: list[tuple[Dim, ...]], symbols: tuple[Dim, ...]
) -> Iterator[tuple[int, int, Dim, Dim]]:
    """(parameter, axis, actual, expected) of every dimension and stride of a call that is not the same formula twice."""
    for index, param in enumerate(signature.params):
        if not isinstance(param, BufferParam):
            continue
        shape = shapes[index]
        compact = [product(shape[axis + 1 :]) for axis in range(len(shape))] if param.strides else []
        for axis, (declared, actual) in enumerate([*zip(param.shape, shape), *zip(param.strides, compact)]):
            expected = map_symbols(declared, symbols)
            if expected != actual:
                yield index, axis, actual, expected


Bits = tuple[int, int, int]


@dataclass(slots=True)
class _State:
    """The facts that hold at an instruction on every path: bits of registers and slots that are written, of parameters found
    writable. ``seen`` (what checks said of registers) and ``equal`` (sizes compared) hold inside a block of instructions."""

    alive: int
    slots: int = 0
    writable: int = 0
    seen: dict[int, tuple[str | None, list[Dim | None]]] = field(default_factory=dict)
    equal: set[tuple[Dim, Dim]] = field(default_factory=set)

    def join(self, other: Bits | None) -> Bits:
        """The facts that hold both here and there."""
        a, b, c = other or (-1, -1, -1)
        return self.alive & a, self.slots & b, self.writable & c


class _Function:
    """One function."""

    def __init__(self, program: bc.Program, fn: bc.VMFunction) -> None:
        self.program, self.fn = program, fn
        self.count = len(fn.params)
        self.at = 0
        self.users = [0] * len(fn.slots)
        """Registers whose shapes use a slot: they hold nothing known once it is written again."""
        self.bound: dict[int, int] = {}

    def verify(self) -> None:
        """Raise Misfit at the first instruction that is wrong."""
        fn = self.fn
        try:
            self.tables()
            self.walk()
        except Misfit as error:
            place = f"{fn.name}, instruction {self.at}" if self.at >= 0 else fn.name
            raise Misfit(f"{place}: {error}") from None

    def tables(self) -> None:
        """Verify the parts that need no order: registers, targets, the prologue."""
        fn, self.at = self.fn, -1
        need(self.count <= len(fn.registers), "more parameters than registers")
        for index, known in enumerate(fn.registers):
            what = f"register {index}"
            need(
                known.kind == "tensor" or (not known.dtype and not known.dims),
                f"{what}: only tensors have a dtype and a shape",
            )
            need(known.kind != "tensor" or known.dtype in DTYPE_INDEX, f"{what}: unknown dtype {known.dtype!r}")
            need(known.kind != "storage" or index >= self.count, f"{what}: a parameter is not a storage")
            for dim in known.dims:
                _formula(dim, len(fn.slots), what)
                for slot in symbols_of(dim):
                    self.users[slot] |= 1 << index
        length = len(fn.code)
        need(0 <= fn.prologue < length, "the prologue is longer than the function")
        need(isinstance(fn.code[-1], (bc.Ret, bc.Goto)), "it does not end with a return")
        for self.at, instruction in enumerate(fn.code):
            if isinstance(instruction, (bc.Goto, bc.If)):
                need(fn.prologue <= instruction.target < length, f"no instruction {instruction.target} to jump to")
            if not isinstance(instruction, bc.Goto):
                need(-1 <= instruction.place < len(self.program.places), "unknown place")
            if isinstance(instruction, bc.Call):
                need(-1 <= instruction.dst < len(fn.registers), f"no register {instruction.dst}")
                need(0 <= instruction.function < len(self.program.table), f"no function {instruction.function}")
            if self.at < fn.prologue:
                entry = self.program.table[instruction.function] if isinstance(instruction, bc.Call) else None
                first = (
                    isinstance(instruction, bc.Call) and instruction.args and isinstance(instruction.args[0], bc.Reg)
                )
                need(entry is not None and entry.kind == "builtin" and entry.name in _PROLOGUE and bool(first),
                      "the prologue holds checks alone")  # fmt: skip

    def walk(self) -> None:
        """Every instruction under what holds on every path to it."""
        code, prologue = self.fn.code, self.fn.prologue
        targets = {i.target for i in code if isinstance(i, (bc.Goto, bc.If))} | {prologue}
        state: _State | None = _State((1 << self.count) - 1)
        known: dict[int, Bits] = {}
        pending: list[int] = []
        at = 0
        while True:
            if at in targets and state is not None:
                if at == prologue:
                    self.at = at
                    self.parameters(state)
                here = state.join(known.get(at))
                state = None if here == known.get(at) else _State(*here)
                known[at] = here
            if state is None:
                if not pending:
                    return
                at = pending.pop()
                state = _State(*known[at])
            self.at, instruction = at, code[at]
            at += 1
            if isinstance(instruction, bc.Call):
                self.call(instruction, state)
                continue
            if isinstance(instruction, bc.Ret):
                self.value(instruction.value, state)
                state, at = None, -1
                continue
            if isinstance(instruction, bc.If):
                self.value(instruction.cond, state)
            there = state.join(known.get(instruction.target))
            if there != known.get(instruction.target):
                known[instruction.target] = there
                pending.append(instruction.target)
            if isinstance(instruction, bc.Goto):
                state, at = None, -1

    def parameters(self, state: _State) -> None:
        """Behind the prologue: parameters in typed registers were checked in every dimension."""
        for index, known in enumerate(self.fn.registers[: self.count]):
            if known.kind == "tensor" and index in state.seen:
                need(self.fits(state, index, known), f"parameter {index} is not checked for its type")
            elif known.kind == "tensor":
                state.alive &= ~(1 << index)

    def fits(self, state: _State, index: int, known: bc.RegType) -> bool:
        """True if checks found the type of a register's value to be this one."""
        return state.seen.get(index) == (known.dtype, list(known.dims))

    # ---- arguments

    def dim(self, dim: Dim, state: _State) -> None:
        """A formula of slots that are written."""
        for slot in symbols_of(dim):
            need(slot < len(self.fn.slots) and bool(state.slots >> slot & 1), f"slot {slot} has no value here")

    def value(self, arg: bc.Arg, state: _State) -> None:
        """Anything that is a value."""
        if isinstance(arg, bc.Reg):
            self.register(arg, state)
        elif isinstance(arg, bc.Size):
            self.dim(arg.dim, state)
            known = arg.dtype in DTYPE_INDEX
            need(
                known and (DataType(arg.dtype).is_integral or arg.dtype == "bool"),
                f"a size is not of type {arg.dtype!r}",
            )
        elif isinstance(arg, bc.Const):
            need(0 <= arg.index < len(self.program.constants), f"no constant {arg.index}")
        elif isinstance(arg, bc.Func):
            need(0 <= arg.index < len(self.program.table), f"no function {arg.index}")
            need(self.program.table[arg.index].kind != "builtin", "an operation of the VM is not a value")
        else:
            need(isinstance(arg, bc.Imm), "an order to store is not a value")

    def register(self, arg: bc.Arg, state: _State) -> None:
        """A register that holds something."""
        index = arg.index if isinstance(arg, bc.Reg) else -1
        need(0 <= index < len(self.fn.registers), "no such register")
        need(bool(state.alive >> index & 1), f"register {index} has no value here")
        known = self.fn.registers[index]
        for d in known.dims if self.at >= self.fn.prologue else ():
            self.dim(d, state)

    def argument(self, kind: str, arg: bc.Arg, state: _State) -> None:
        """An argument of one of the kinds of ``bytecode.OPERATIONS``."""
        if kind in ("value", "register"):
            (self.value if kind == "value" else self.register)(arg, state)
        elif kind == "looked":
            self.register(arg, state)
            index = _register(arg)
            inside = index < self.count and self.at < self.fn.prologue
            need(inside or self.fn.registers[index].kind == "object", "a check looks at a typed register")
        elif kind == "size":
            need(isinstance(arg, bc.Size), "expected a size")
            self.value(arg, state)
        elif kind == "bind" or (kind == "axis" and isinstance(arg, bc.Bind)):
            slot = arg.slot if isinstance(arg, bc.Bind) else -1
            need(0 <= slot < len(self.fn.slots), "no such slot")
            if kind == "axis":  # dimensions are matched in order: those behind may use it
                state.slots |= 1 << slot
        elif kind == "axis" and isinstance(arg, bc.Size):
            self.value(arg, state)
        else:
            need(isinstance(arg, bc.Imm) and _LITERALS[kind](arg.value, self.program), f"expected a literal: {kind}")

    # ---- calls

    def call(self, instruction: bc.Call, state: _State) -> None:
        """One call, and what holds after it."""
        entry, args, dst = self.program.table[instruction.function], instruction.args, instruction.dst
        result = "object"
        if entry.kind == "builtin":
            kinds, result = bc.OPERATIONS[entry.name]
            wanted = kinds.split()
            if wanted and wanted[-1].startswith("*"):
                many = wanted.pop()[1:]
                wanted += [many] * (len(args) - len(wanted))
            need(len(args) == len(wanted), f"{entry.name} has {len(args)} arguments")
            for kind, arg in zip(wanted, args):
                self.argument(kind, arg, state)
            if entry.name in _CHECKED:
                _CHECKED[entry.name](self, args, state)
            if result in ("tensor", "same"):
                self.typed(entry.name, args, dst, state)
                result = self.fn.registers[dst].kind
        elif entry.kind == "kernel":
            self.kernel(self.program.kernels[entry.name], args, state)
            result = "object" if self.program.kernels[entry.name].result is not None else ""
        else:
            for arg in args:
                self.value(arg, state)
            if entry.kind == "vm":
                takes = len(self.program.functions[entry.name].params)
                need(len(args) == takes, f"{entry.name} takes {takes} arguments, got {len(args)}")
        self.written(dst, result, state)

    def written(self, dst: int, result: str, state: _State) -> None:
        """A result goes to a register of its kind."""
        if dst < 0:
            need(result in ("", "object"), "a result is dropped")
            return
        need(self.fn.registers[dst].kind == result, f"a result goes to a register of another kind (%{dst})")
        need(self.at >= self.fn.prologue or dst >= self.count, "the prologue writes a parameter")
        state.alive |= 1 << dst
        state.seen.pop(dst, None)

    def typed(self, name: str, args: tuple[bc.Arg, ...], dst: int, state: _State) -> None:
        """Verify that a value that fills a typed register has its type."""
        need(dst >= 0, "a result is dropped")
        known = self.fn.registers[dst]
        if name == "move":
            source = args[0]
            register = self.fn.registers[source.index] if isinstance(source, bc.Reg) else bc.OBJECT_REG
            if known.kind == "tensor":
                seen = (
                    isinstance(source, bc.Reg) and register.kind == "object" and self.fits(state, source.index, known)
                )
                need(register == known or seen, "a tensor of unknown type goes to a typed register")
            else:
                need(known.kind == "object", "storage is moved")
            for d in known.dims:
                self.dim(d, state)
            return
        start = 1 if name == "new_tensor" else 3
        sizes = tuple([arg.dim for arg in args[start:] if isinstance(arg, bc.Size)])
        dtype = args[start - 1]
        need(known == bc.RegType("tensor", str(dtype.value) if isinstance(dtype, bc.Imm) else "", sizes),
              f"%{dst} has another type than what is made for it")  # fmt: skip

    def kernel(self, signature: KernelSignature, args: tuple[bc.Arg, ...], state: _State) -> None:
        """A kernel's arguments are what its signature says."""
        params, count = signature.params, len(signature.params)
        need(len(args) == count + len(signature.symbols), f"{signature.name} takes {count} arguments and "
              f"{len(signature.symbols)} sizes, got {len(args)}")  # fmt: skip
        shapes: list[tuple[Dim, ...]] = []
        for arg, param in zip(args, params):
            if not isinstance(param, BufferParam):
                self.value(arg, state)
                need(not isinstance(arg, (bc.Const, bc.Func)), f"{param.name} is not a number")
                need(param.dtype != "handle" or isinstance(arg, bc.Reg), f"{param.name} is a number, not an address")
                shapes.append(())
                continue
            known = self.tensor(arg, state)
            need(known.dtype == param.dtype and len(known.dims) == len(param.shape), f"{param.name} is another tensor")
            constant = isinstance(arg, bc.Const)
            owned = isinstance(arg, bc.Reg) and (arg.index >= self.count or bool(state.writable >> arg.index & 1))
            need(not param.written or (owned and not constant), f"{param.name} is written and must not be")
            shapes.append(known.dims)
        symbols: list[Dim] = []
        for arg in args[count:]:
            self.argument("size", arg, state)
            symbols.append(bc.of_kind(arg, bc.Size).dim)
        for index, axis, actual, expected in sizes_to_compare(signature, shapes, tuple(symbols)):
            need((actual, expected) in state.equal, f"dimension {axis} of {params[index].name} was not compared")

    def tensor(self, arg: bc.Arg, state: _State) -> bc.RegType:
        """The type of a tensor argument."""
        self.value(arg, state)
        if isinstance(arg, bc.Const):
            data = self.program.constants[arg.index]
            return bc.RegType("tensor", data.dtype, tuple(data.shape))
        known = self.fn.registers[arg.index] if isinstance(arg, bc.Reg) else bc.OBJECT_REG
        need(known.kind == "tensor", "expected a typed register")
        return known

    # ---- what checks say

    def tensor_checked(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """A register holds a tensor of a dtype and rank."""
        dtype, rank = [bc.of_kind(arg, bc.Imm).value for arg in args[2:]]
        assert isinstance(rank, int) and (dtype is None or isinstance(dtype, str))
        state.seen[_register(args[0])] = (dtype, [None] * rank)

    def other_checked(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """A register holds a shape or a scalar."""
        state.seen[_register(args[0])] = ("", [])

    def matched(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """Dimensions of what was checked are these."""
        reg, _, *axes = args
        index = _register(reg)
        need(index in state.seen, "dimensions of a value that was not checked")
        dtype, dims = state.seen[index]
        if dtype != "" and len(dims) != len(axes):
            raise Misfit("a tensor is matched with another rank than it was checked for")
        dims = [*dims, *[None] * (len(axes) - len(dims))]
        for axis, arg in enumerate(axes):
            if isinstance(arg, bc.Bind):
                self.stored(arg, state)
                dims[axis] = ("sym", arg.slot)
            elif isinstance(arg, bc.Size):
                dims[axis] = arg.dim
        state.seen[index] = (dtype, dims)

    def stored(self, bind: bc.Arg, state: _State) -> None:
        """A slot is written, at one place of the function."""
        slot = bc.of_kind(bind, bc.Bind).slot
        need(self.bound.setdefault(slot, self.at) == self.at, f"slot {slot} is written twice")
        state.slots |= 1 << slot
        if self.at >= self.fn.prologue:
            state.alive &= ~self.users[slot]

    def scalar_stored(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """An integer that was checked, in a slot."""
        need(_register(args[0]) in state.seen, "a number that was not checked")
        self.stored(args[1], state)

    def compared(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """Two sizes agree."""
        state.equal.add((bc.of_kind(args[1], bc.Size).dim, bc.of_kind(args[2], bc.Size).dim))

    def found_writable(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """A parameter's memory may be written."""
        need(_register(args[0]) in state.seen, "memory of a value that was not checked")
        state.writable |= 1 << _register(args[0])

    def killed(self, args: tuple[bc.Arg, ...], state: _State) -> None:
        """A register holds nothing any more."""
        state.alive &= ~(1 << _register(args[0]))
        state.seen.pop(_register(args[0]), None)


def _register(arg: bc.Arg) -> int:
    return bc.of_kind(arg, bc.Reg).index


_CHECKED: dict[str, Callable[[_Function, tuple[bc.Arg, ...], _State], None]] = {
    "check_tensor": _Function.tensor_checked, "check_shape": _Function.other_checked, "check_scalar": _Function.other_checked,
    "match_shape": _Function.matched, "bind_scalar": _Function.scalar_stored,
    "set_slot": lambda fn, args, state: fn.stored(args[0], state),
    "check_equal": _Function.compared, "check_writable": _Function.found_writable, "kill": _Function.killed,
}  # fmt: skip


def _whole(value: object, low: int, end: int = 1 << 31) -> bool:
    return type(value) is int and low <= value < end


_LITERALS: dict[str, Callable[[object, bc.Program], bool]] = {
    "dtype": lambda value, _: value in DTYPE_INDEX,
    "any_dtype": lambda value, _: value is None or value in DTYPE_INDEX,
    "index": lambda value, _: _whole(value, 0),
    "rank": lambda value, _: _whole(value, -1),
    "bound": lambda value, _: value is None or (type(value) is int and -(2**63) <= value < 2**63),
    "context": lambda value, program: _whole(value, 0, len(program.contexts)),
    "arithmetic": lambda value, _: value in ARITHMETIC,
    "field": lambda value, _: value in INSPECTED,
    "axis": lambda value, _: value is None,
}
