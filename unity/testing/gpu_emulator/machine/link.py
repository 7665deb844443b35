"""A kernel with the functions it calls as one row of instructions, and where its variables lie.

Functions that are called stand before their callers: lanes with the smallest program counter run first, so that those inside a
function catch up with those after the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....support.errors import InterpreterError
from ....support.source import Span
from ..ptx.program import Function, Instruction, Module, Symbol, Variable, Vector

SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = 1 << 60, 2 << 60, 3 << 60
"""Where the memory of a block, the memory of a thread and the parameters begin among generic addresses."""


def unmodelled(instruction: Instruction, what: str = "") -> InterpreterError:
    """The refusal of an instruction, by its text."""
    detail = f": {what}" if what else ""
    return InterpreterError(
        "E390", f"the emulated device does not model {instruction.text!r}{detail}", instruction.span,
        help="add its semantics to a table in unity/testing/gpu_emulator/instructions, or keep the code generator from using it",
    )  # fmt: skip


def align(offset: int, to: int) -> int:
    """The next multiple."""
    return -(-offset // to) * to


@dataclass(slots=True, eq=False)
class SiteRow:
    """An access of memory in the program text, of which every launch counts the traffic."""

    kind: str
    scope: str
    span: Span
    atomic: bool
    collective: bool
    width: int


@dataclass(slots=True, eq=False)
class LinkedFunction:
    """Where a function lies in the program."""

    function: Function
    first: int
    slots: int
    variables: dict[str, tuple[str, int]]
    """Space and address of each variable that the function's text can name."""


@dataclass(slots=True, eq=False)
class Program:
    """A linked kernel. ``entry`` is the index of its first instruction."""

    name: str
    module: Module
    kernel: Function
    linked: dict[str, LinkedFunction] = field(default_factory=dict)
    code: list[tuple[LinkedFunction, Instruction]] = field(default_factory=list)
    register_bits: list[int] = field(default_factory=list)
    entry: int = 0
    shared_bytes: int = 0
    dynamic_align: int = 1
    frame_bytes: int = 0
    param_bytes: int = 0
    params: list[tuple[int, int]] = field(default_factory=list)
    """Offset and size of each parameter."""
    sites: list[SiteRow] = field(default_factory=list)
    plain: list[Any] = field(default_factory=list)
    """Each instruction as a function of the lanes that run it."""
    control: dict[int, Callable[..., Any]] = field(default_factory=dict)
    """Instructions after which lanes may part or wait."""
    flows: list[Any] = field(default_factory=list)
    """The registers that each instruction reads and writes."""
    ends: list[int] = field(default_factory=list)
    """For each instruction the next one in ``control``."""
    results: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """For each call the moves of its results: from, to, bytes."""
    finish: dict[int, Callable[..., Any]] = field(default_factory=dict)
    """Called with the lanes of a barrier at an address when it is complete."""
    retiring: frozenset[int] = frozenset()
    """Places at which a thread of the kernel ends."""
    atomics: bool = False
    warp_barriers: bool = False
    variables: list[tuple[int, Variable]] = field(default_factory=list)
    """Variables in shared memory by their offset."""

    def site(self, kind: str, scope: str, instruction: Instruction, width: int, atomic: bool, collective: bool) -> int:
        """The number of a new access."""
        self.sites.append(SiteRow(kind, scope, instruction.span, atomic, collective, width))
        self.atomics |= atomic
        return len(self.sites) - 1


def called(instruction: Instruction) -> str:
    """The function that a call names."""
    target = instruction.operands[0]
    if not isinstance(target, Symbol):
        raise unmodelled(instruction, "a call through a register")
    return target.name


def _order(module: Module, kernel: Function) -> list[Function]:
    """The functions that a kernel reaches, each after those that it calls. Raises InterpreterError E390 for recursion."""
    done: list[Function] = []
    open_: set[str] = set()
    stack: list[tuple[Function, bool]] = [(kernel, False)]
    while stack:
        function, left = stack.pop()
        if left:
            open_.discard(function.name)
            done.append(function)
            continue
        if function in done:
            continue
        open_.add(function.name)
        stack.append((function, True))
        for one in [i for i in function.code if i.opcode == "call"]:
            callee = module.functions.get(called(one))
            if callee is None or not callee.defined:
                continue  # refused when it runs: the call may stand behind a condition that never holds
            if callee.name in open_:
                raise unmodelled(one, "recursion")
            if callee not in done:
                stack.append((callee, False))
    unique: dict[str, Function] = {f.name: f for f in done}
    return list(unique.values())


def link(module: Module, name: str, addresses: dict[str, int]) -> Program:
    """The program of a kernel; ``addresses`` are those of the module's variables in device memory."""
    kernel = module.functions[name]
    program = Program(name, module, kernel)
    outer: dict[str, tuple[str, int]] = {n: ("global", a) for n, a in addresses.items()}
    dynamic: list[str] = []
    functions = _order(module, kernel)
    for variable in module.variables.values():
        if variable.space == "shared":
            _place_shared(program, variable, outer, dynamic)
    inner: list[dict[str, tuple[str, int]]] = []
    for function in functions:
        names: dict[str, tuple[str, int]] = {}
        for variable in function.variables.values():
            if variable.space == "shared":
                _place_shared(program, variable, names, dynamic)
            else:
                _place_local(program, variable, names)
        if function.entry:
            for param in function.params:
                offset = align(program.param_bytes, param.align)
                names[param.name] = ("param", offset)
                program.params.append((offset, param.size))
                program.param_bytes = offset + param.size
        else:
            for param in (*function.params, *function.results):
                _place_local(program, param, names)
        inner.append(names)
    program.shared_bytes = align(program.shared_bytes, program.dynamic_align)
    for table in (outer, *inner):
        for one in dynamic:
            if one in table:
                table[one] = ("shared", program.shared_bytes)
    for function, names in zip(functions, inner):
        linked = LinkedFunction(function, len(program.code), len(program.register_bits), {**outer, **names})
        program.linked[function.name] = linked
        program.register_bits += [0 if r.type.kind == "p" else r.type.bits for r in function.registers]
        program.code += [(linked, one) for one in function.code]
    program.entry = program.linked[name].first
    return program


def _place_shared(program: Program, variable: Variable, names: dict[str, tuple[str, int]], dynamic: list[str]) -> None:
    if variable.dynamic or (variable.external and not variable.size):
        dynamic.append(variable.name)
        names[variable.name] = ("shared", 0)
        program.dynamic_align = max(program.dynamic_align, variable.align)
        return
    offset = align(program.shared_bytes, variable.align)
    names[variable.name] = ("shared", offset)
    program.variables.append((offset, variable))
    program.shared_bytes = offset + variable.size


def _place_local(program: Program, variable: Variable, names: dict[str, tuple[str, int]]) -> None:
    offset = align(program.frame_bytes, max(variable.align, variable.type.bytes))
    names[variable.name] = ("local", offset)
    program.frame_bytes = offset + variable.size


def call_lists(instruction: Instruction) -> tuple[list[Symbol], list[Symbol]]:
    """The variables of a call's results and arguments."""
    found: list[list[Symbol]] = []
    for listed in instruction.operands[1:3]:
        assert isinstance(listed, Vector)
        symbols = [one for one in listed.items if isinstance(one, Symbol)]
        if len(symbols) != len(listed.items):
            raise unmodelled(instruction, "arguments in registers")
        found.append(symbols)
    return found[0], found[1]
