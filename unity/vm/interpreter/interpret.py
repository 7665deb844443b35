"""The interpreter of the bytecode: one Python loop per call, every check, every instrument; slow and clear.

A frame has registers and slots. Errors leave with one note per frame: function and script line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ffi.abi import BufferParam, evaluate
from ...ffi.conditions import Fault
from ...ffi.library import require_library
from ...ffi.registry import PackedFunc, get_global_func
from ...ffi.tensor import Tensor
from ...support.errors import InternalError, Note, UnityError, VMError
from ...support.recursion import deep_recursion, outside_calls
from ..builtins.builtins import truth
from ..builtins.placement import HOST, Placement
from ..builtins.values import Closure
from ..executable import bytecode as bc
from ..executable.memory_formula import memory_formula
from . import checks
from .kernels import RawKernel

DEPTH_LIMIT = 2000
"""Calls of program functions inside each other before E632."""
SKIP = object()
"""Returned by a ``before`` instrument: do not run the call (its result is None)."""
Instrument = Callable[[str, list[Any], Any], Any]


class Interpreter:
    """Runs the functions of a program. ``before(name, args, None)`` and ``after(name, args, result)`` watch every call."""

    def __init__(
        self,
        program: bc.Program,
        kernels: dict[str, RawKernel],
        placement: Placement = HOST,
        constants: Sequence[Tensor] | None = None,
    ) -> None:
        self.program = program
        self.placement = placement
        self.constants = program.constants if constants is None else constants
        """The program's constants, where its tensors lie."""
        self.kernels = kernels
        self.before: Instrument | None = None
        self.after: Instrument | None = None
        self.place = -1
        """Script line of the running call, an index into ``Program.places``."""

    def run(self, name: str, args: tuple[Any, ...], depth: int = 0) -> Any:
        """Call a function with values. Raises VMError E6xx and what registered functions raise."""
        fn = self.program.functions[name]
        if len(args) != len(fn.params):
            inside = ", ".join([p for p, _ in fn.params])
            raise VMError("E602", f"{name}({inside}) takes {len(fn.params)} arguments, got {len(args)}")
        if depth >= DEPTH_LIMIT:
            raise VMError("E632", f"{name}: recursion deeper than {DEPTH_LIMIT} calls")
        if depth == 0:
            with deep_recursion(4 * DEPTH_LIMIT + 1000):
                return _Frame(self, fn, args, depth).run()
        return _Frame(self, fn, args, depth).run()

    def outside(self, function: PackedFunc, args: list[Any]) -> Any:
        """The value of a function outside the program, which may call the program again."""
        with outside_calls.entered(function.name):
            return self.placement.call(function, args)

    def closure(self, row: int, captured: tuple[Any, ...], depth: int = 0) -> Closure:
        """A row of the function table as a value."""

        def call(*args: Any) -> Any:
            with outside_calls.entered(self.program.table[row].name), self.placement.running:
                return self.call_row(row, [self.placement.value(a) for a in args], depth)

        return Closure(self.program.table[row].name, captured, call)

    def call_row(self, row: int, args: list[Any], depth: int) -> Any:
        """Call a row of the function table with values."""
        entry = self.program.table[row]
        if self.before is not None and entry.kind != "builtin" and self.before(entry.name, args, None) is SKIP:
            return None
        if entry.kind == "kernel":
            result = self.kernels[entry.name](args)
        elif entry.kind == "vm":
            result = self.run(entry.name, tuple(args), depth + 1)
        elif entry.kind == "packed":
            result = self.outside(find_packed(entry.name), args)
        else:
            result = self.placement.builtins[entry.name](*args)
        if self.after is not None and entry.kind != "builtin":
            self.after(entry.name, args, result)
        return result


def find_packed(name: str) -> PackedFunc:
    """A registered function. Raises VMError E630 when there is none now."""
    require_library(name)
    found = get_global_func(name, allow_missing=True)
    if found is None:
        raise VMError(
            "E630", f"the program calls {name!r}, which is not registered", help="unity.register_func(name, function)"
        )
    return found


class _Frame:
    """One call of a function."""

    def __init__(self, owner: Interpreter, fn: bc.VMFunction, args: tuple[Any, ...], depth: int) -> None:
        self.owner = owner
        self.program = owner.program
        self.fn = fn
        self.depth = depth
        self.registers: list[Any] = [*args, *[None] * (len(fn.registers) - len(args))]
        self.slots = [0] * len(fn.slots)

    def run(self) -> Any:
        """Instructions until a return."""
        code = self.fn.code
        at = 0
        try:
            while True:
                instruction = code[at]
                at += 1
                if isinstance(instruction, bc.Call):
                    value = self.call(instruction)
                    if instruction.dst >= 0:
                        self.registers[instruction.dst] = value
                elif isinstance(instruction, bc.Goto):
                    at = instruction.target
                elif isinstance(instruction, bc.If):
                    if not truth(self.value(instruction.cond)):
                        at = instruction.target
                else:
                    return self.value(instruction.value)
        except UnityError as error:
            add_frame(error, self.program, self.fn, at - 1)
            raise
        except Exception as error:  # whatever a registered function raises passes through, with the frames noted on it
            error.add_note(frame_text(self.program, self.fn, at - 1))
            raise

    def value(self, arg: bc.Arg) -> Any:
        """The value of an argument."""
        if isinstance(arg, bc.Reg):
            return self.registers[arg.index]
        if isinstance(arg, bc.Imm):
            return arg.value
        if isinstance(arg, bc.Const):
            return self.owner.constants[arg.index]
        if isinstance(arg, bc.Size):
            number = evaluate(arg.dim, self.slots)
            return bool(number) if arg.dtype == "bool" else number & 2**64 - 1 if arg.dtype == "uint64" else number
        if isinstance(arg, bc.Func):
            return self.owner.closure(arg.index, (), self.depth)
        raise InternalError("E902", "an order to store is not a value")

    def call(self, instruction: bc.Call) -> Any:
        """A call; checks and closures are handled here, the rest by the owner."""
        entry = self.program.table[instruction.function]
        if entry.kind == "builtin":
            special = _SPECIAL.get(entry.name)
            if special is not None:
                return special(self, instruction.args)
        args = [self.value(a) for a in instruction.args]
        self.owner.place = instruction.place
        if entry.kind == "kernel":
            self.expect_tensors(entry.name, args)
        return self.owner.call_row(instruction.function, args, self.depth)

    def expect_tensors(self, name: str, args: list[Any]) -> None:
        """A killed register must not reach a kernel."""
        for value, param in zip(args, self.program.kernels[name].params):
            if isinstance(param, BufferParam) and not isinstance(value, Tensor):
                raise VMError("E638", f"{name}: argument {param.name} is not alive here")

    def context(self, arg: bc.Arg) -> bc.Context:
        """A row of the context table."""
        row: int = self.value(arg)
        return self.program.contexts[row]


def frame_text(program: bc.Program, fn: bc.VMFunction, at: int) -> str:
    """A frame in words."""
    place = program.place(getattr(fn.code[at], "place", -1))
    return (
        f"in {fn.name}, instruction {at}: {bc.instruction_text(fn.code[at], program)}{f', at {place}' if place else ''}"
    )


def add_frame(error: UnityError, program: bc.Program, fn: bc.VMFunction, at: int) -> None:
    """Note a frame on an error, at most a few (deep recursion)."""
    if len(error.notes) < 12:
        error.notes.append(Note(frame_text(program, fn, at)))
        if error.code == "E736":
            error.notes.append(Note(f"a call needs, beside its arguments: {memory_formula(program, fn.name)}"))


def run_check(
    program: bc.Program, fn: bc.VMFunction, at: int, value: Any, slots: tuple[int, ...], placement: Placement
) -> tuple[int, ...]:
    """Run one check instruction on a value, for native code; the slots afterwards."""
    frame = _Frame(Interpreter(program, {}, placement), fn, (), 0)
    instruction = fn.code[at]
    assert isinstance(instruction, bc.Call)
    frame.slots = list(slots)
    first = instruction.args[0]
    if isinstance(first, bc.Reg):
        frame.registers[first.index] = value
    frame.call(instruction)
    return tuple(frame.slots)


# ---- instructions that need the frame


Special = Callable[[_Frame, tuple[bc.Arg, ...]], Any]


def _require(frame: _Frame, context: bc.Arg, fault: Fault | None) -> None:
    if fault is not None:
        raise checks.failure(frame.program, frame.context(context), fault)


def _checked(name: str) -> Special:
    condition = checks.CONDITIONS[name]

    def check(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
        register, context, *operands = args
        value = frame.value(register)
        fault = checks.device_fault(value, frame.owner.placement.device)
        _require(frame, context, fault or condition(value, *[frame.value(a) for a in operands]))

    return check


def _match_shape(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
    _require(frame, args[1], checks.match_shape(frame.value(args[0]), args[2:], frame.slots, frame.fn.slots))


def _check_equal(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
    actual, expected = frame.value(args[1]), frame.value(args[2])
    if actual != expected:
        _require(frame, args[0], ("E608", f"is {actual}, the tensor program expects {expected}"))


def _check_bounds(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
    least, most = frame.value(args[2]), frame.value(args[3])
    _require(frame, args[0], checks.bounds_fault(int(frame.value(args[1])), least, most))


def _bind_scalar(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
    number = int(frame.value(args[0]))
    frame.slots[bc.of_kind(args[1], bc.Bind).slot] = number - 2**64 if number >= 2**63 else number


def _set_slot(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
    frame.slots[bc.of_kind(args[0], bc.Bind).slot] = int(frame.value(args[1]))


def _kill(frame: _Frame, args: tuple[bc.Arg, ...]) -> None:
    frame.registers[bc.of_kind(args[0], bc.Reg).index] = None


def _closure(frame: _Frame, args: tuple[bc.Arg, ...]) -> Closure:
    captured = tuple([frame.value(a) for a in args[1:]])
    head = args[0]
    if isinstance(head, bc.Func):
        return frame.owner.closure(head.index, captured, frame.depth)
    found = frame.value(head)
    return Closure(found.name, found.captured + captured, found.call)


def _invoke(frame: _Frame, args: tuple[bc.Arg, ...]) -> Any:
    function, *rest = [frame.value(a) for a in args]
    if isinstance(function, Closure) and isinstance(args[0], bc.Func):
        return frame.owner.call_row(args[0].index, rest, frame.depth)
    if not callable(function):
        raise VMError("E636", f"{frame.fn.name}: a {type(function).__name__} was called as a function")
    if isinstance(function, Closure):
        return frame.owner.placement.value(function(*rest))
    return frame.owner.outside(PackedFunc(frame.fn.name, function), rest)


_SPECIAL: dict[str, Special] = {
    **{name: _checked(name) for name in checks.CONDITIONS}, "match_shape": _match_shape, "check_equal": _check_equal,
    "check_bounds": _check_bounds, "bind_scalar": _bind_scalar, "set_slot": _set_slot, "kill": _kill,
    "closure": _closure, "invoke": _invoke,
}  # fmt: skip
