"""Native execution: the driver's machine code in this process, its environment, and the Python it calls back.

Invariant: the environment's words point at objects that live as long as it does; machine code of another version of the
package or of Python is never run (the driver is made again from the bytecode).
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...ffi import registry
from ...ffi.abi import FAULTS, evaluate, no_value
from ...ffi.cache.cache_key import content_key
from ...ffi.calls.check import OutHandler
from ...ffi.calls.fastcall import driver_function, gated_driver, set_lane
from ...ffi.calls.fastcall_ir import device_number
from ...ffi.device import CPU, DEVICE_KINDS
from ...ffi.machine_code.elf import read_object
from ...ffi.machine_code.engine import Engine
from ...ffi.machine_code.layout import member_offset
from ...ffi.machine_code.llvm import CompileOptions, compile_ir
from ...ffi.native.native_helpers import allocator_symbols
from ...ffi.targets.processor import Processor
from ...support.errors import ArtifactError, InternalError, UnityError, VMError
from ...version import VERSION
from ..builtins.builtins import truth
from ..builtins.values import Closure
from ..executable.bytecode import Call, Size, VMFunction
from ..executable.codec import encode
from ..executable.entry import plan_entry
from ..executable.executable import Executable
from ..interpreter.interpret import Interpreter, add_frame, find_packed, frame_text, run_check
from ..interpreter.kernels import C_TYPES, kernel_failure
from .driver import driver_ir
from .ir import ARENA_WORDS, FIXED, KERNEL_FAILED, NO_VALUE, ON_DEVICE, register_scalars
from .support import support_symbols

OPTIONS = CompileOptions(pipeline="light", opt=0)
"""The driver is calls and little between them: LLVM's quick code generation takes a fifth of the time and makes no slower ones."""
EXPLAIN_DEPTH = 100
PROTOCOL = 7
"""The agreement of machine code and ``Callbacks``: another number when it changes."""
_FIXED = (*FIXED, *ON_DEVICE)
ARENA_LOCK, MOST_ARENAS = 2, 8
"""The word of an environment that is not 0 while a call has its arena; streams of a device for which a machine keeps one."""


def driver_tag() -> str:
    """The versions that the driver's machine code depends on beside the processor."""
    return f"{VERSION}/{PROTOCOL}/{sys.implementation.cache_tag}/numpy{np.__version__.split('.')[0]}"


def add_driver(executable: Executable, processor: Processor | None = None) -> None:
    """Compile the driver into an executable (from the object cache where it has it), for a processor or to run here."""
    text, layout = driver_ir(executable.program, has_own_memory(executable))
    executable.driver_tag = driver_tag()
    executable.driver_words = [list(key) for key in layout.words]
    text += f'@"{driver_name(executable)}" = constant i8 0\n'
    options = OPTIONS if processor is None else replace(OPTIONS, cpu=processor.cpu, features=processor.changes)
    executable.objects["driver"] = compile_ir(text, options)


def has_own_memory(executable: Executable) -> bool:
    """True if the tensors of a program lie in memory that the host does not read. Raises ArtifactError E810 for an unknown
    device."""
    kind = executable.options.get("device", CPU.kind)
    if kind not in DEVICE_KINDS:
        raise ArtifactError("E810", f"the program is for a {kind} device, and nobody registered such a one",
                            help="import the package that defines the target first")  # fmt: skip
    return not DEVICE_KINDS[kind].host_memory


def driver_name(executable: Executable) -> str:
    """A symbol that the driver of exactly this program has, with these words in its environment: no other one is run."""
    program, words = executable.program, executable.driver_words
    constants = [(c.dtype, tuple(c.shape)) for c in program.constants]
    code = encode(replace(program, places=[""] * len(program.places), contexts=[]))  # whatever the script's lines say
    return f"unity.driver.{content_key(driver_tag(), code, repr(words), repr(constants))}"


def has_driver(executable: Executable) -> bool:
    """True if there is a driver of this version for this program."""
    if "driver" not in executable.objects or executable.driver_tag != driver_tag():
        return False
    return driver_name(executable) in read_object(executable.objects["driver"]).defined


class NativeProgram:
    """A program linked into the process. ``function(name)`` is the Python callable of a graph function."""

    def __init__(self, executable: Executable, interpreter: Interpreter, engine: Engine) -> None:
        self.program = executable.program
        self.placement, self.constants = interpreter.placement, interpreter.constants
        self.interpreter = interpreter
        self.engine = engine
        if not has_driver(executable):
            add_driver(executable)
        self.words = executable.driver_words
        for name, address in support_symbols().items():
            engine.add_symbol(name, address)
        engine.add_object(executable.objects["driver"])
        self.functions: dict[tuple[str, bool], Callable[..., Any]] = {}
        self.outputs: Callable[[str], OutHandler] | None = None
        """Gives, for a function, what does its calls with ``out=``."""
        self.callbacks = Callbacks(self)
        self.keep: list[Any] = []
        self.arenas: dict[int, Any] = {}
        """Memory of a device that is the arena of each of its streams."""
        self.envs: dict[int, ctypes.Array[ctypes.c_uint64]] = {}
        """An environment, with an arena, for each stream of a device; one in all on the host."""
        try:
            self.env(0)
        except (LookupError, TypeError, ValueError) as error:
            raise ArtifactError("E805", f"the description of the driver is not valid: {error}") from error

    def function(self, name: str, silent: bool = False) -> Callable[..., Any]:
        """The checked entry of a graph function; ``silent`` as of ``ArgumentChecker``."""
        found = self.functions.get((name, silent))
        if found is None:
            found = self._on_device(name, silent) if self.placement.own_memory else self._entry(name, silent, 0)
            self.functions[name, silent] = found
        return found

    def _on_device(self, name: str, silent: bool) -> Callable[..., Any]:
        """A function whose calls enter the program of a device."""
        running, entries = self.placement.running, dict[int, Callable[..., Any]]()
        gate = 0 if any([k.packed_calls for k in self.program.kernels.values()]) else self.placement.gate()

        def call(*args: Any, **kwargs: Any) -> Any:
            with running as lane:
                entry = entries.get(lane)
                if entry is None:
                    entry = entries[lane] = self._entry(name, silent, lane)
                if gate:
                    set_lane(result, lane, ctypes.addressof(self.env(lane)))
                return entry(*args, **kwargs)

        if not gate:
            return call
        spec = plan_entry(self.program.functions[name], self.program, self.placement.device).spec
        env, address = ctypes.addressof(self.env(0)), self.engine.address(f"drive.{name}")
        result = gated_driver(spec, address, call, gate, env, (self.engine, self))
        return result

    def _entry(self, name: str, silent: bool, lane: int) -> Callable[..., Any]:
        plan = plan_entry(self.program.functions[name], self.program, self.placement.device)
        env = self.env(lane)
        address = self.engine.address(f"drive.{name}")
        return driver_function(
            plan.spec, address, env=ctypes.addressof(env), keep=(self.engine, env, self),
            out=self.outputs(name) if self.outputs is not None and not silent else None, silent=silent,
        )  # fmt: skip

    def closure(self, row: int, captured: tuple[Any, ...] = ()) -> Closure:
        """A row of the function table as a value."""
        entry = self.program.table[row]
        if entry.kind == "vm":

            def call(*args: Any) -> Any:
                return self.function(entry.name)(*[self.placement.value(a) for a in args])

            return Closure(entry.name, captured, call)
        if entry.kind == "packed":
            return Closure(entry.name, captured, lambda *args: self.placement.call(find_packed(entry.name), args))
        return Closure(entry.name, captured, self.interpreter.closure(row, ()).call)

    def env(self, lane: int) -> ctypes.Array[ctypes.c_uint64]:
        """The environment of a stream."""
        found = self.envs.get(lane)
        if found is None:
            env = (ctypes.c_uint64 * (ARENA_WORDS + len(self.words)))()
            for position, key in enumerate(self.words):
                env[ARENA_WORDS + position] = self._word(key, lane)
            if not self.placement.own_memory:
                weakref.finalize(self, _free_arena, env)
            found = self.envs.setdefault(lane, env)
        return found

    def give_up_arenas(self, most: int) -> None:
        """Give up the oldest arenas beyond a number, but for those at work: their streams may have ended, who knows."""
        for lane in tuple(self.arenas)[: max(0, len(self.arenas) - most)]:
            env = self.envs[lane]
            if not env[ARENA_LOCK]:
                env[0] = env[1] = 0
                del self.arenas[lane]

    def _word(self, key: list[Any], lane: int) -> int:
        kind, *rest = key
        value: Any
        if kind == "data":
            return int(self.constants[rest[0]].data_ptr)
        if kind == "fixed":
            if rest[0] == "function_offset":
                return member_offset(registry.PackedFunc.__dict__["function"])
            if rest[0] == "place":
                return device_number(self.placement.device)
            value = registry._TABLE if rest[0] == "table" else getattr(self.callbacks, _FIXED[_FIXED.index(rest[0])])
            if rest[0] == "grow":
                value = partial(value, lane)
        elif kind == "imm":
            value = float.fromhex(rest[1]) if rest[0] == "float" else rest[1]
        elif kind == "const":
            value = self.constants[rest[0]]
        elif kind == "row":
            value = self.closure(rest[0])
        elif kind == "name":
            value = self.program.table[rest[0]].name
        elif kind == "builtin":
            value = self.placement.builtins[rest[0]]
        else:
            raise ValueError(f"unknown word {key!r} of the environment")
        self.keep.append(value)
        return id(value)


def _free_arena(env: ctypes.Array[ctypes.c_uint64]) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(allocator_symbols()["free"])(env[0])


class Callbacks:
    """The functions of Python that native code asks for."""

    def __init__(self, owner: NativeProgram) -> None:
        self.owner = owner
        self.program = owner.program
        self.functions = list(owner.program.functions.values())
        self.local = threading.local()
        self.value = owner.placement.value
        self.truth = truth
        self.device = owner.placement.device
        if owner.placement.own_memory:
            self.allocate = self.device.memory.allocate

    def report(self, code: int, first: int, second: int) -> None:
        """Raise the error with a number."""
        program = self.program
        if code >= KERNEL_FAILED:
            raise self.failed(self.functions[code - KERNEL_FAILED], first & 0xFFFFFFFF, first >> 32, second)
        if code >= NO_VALUE:
            raise no_value(FAULTS[code - NO_VALUE], first, second)
        if code == 2:
            raise VMError("E632", f"{self.functions[first].name}: recursion too deep")
        if code == 3:
            raise VMError("E601", "division by zero in a shape computation")
        if code == 4:
            find_packed(program.table[first].name)
        if code == 5:
            raise VMError("E615", f"a tensor or storage computed at run time has the impossible extent {first}")
        if code == 6:
            raise VMError(
                "E638", f"a tensor of {first} bytes does not fit into {second} bytes, or is not aligned there"
            )
        if code == 7:
            raise VMError("E615", f"a tensor computed at run time is too large (extent {first})")
        if code == 8:
            raise VMError("E636", "a value that is not a function was called")
        if code == 10:
            raise VMError("E615", f"out of memory: {first} bytes of storage")
        raise InternalError("E904", f"native and Python checks disagree (code {code}, {first}, {second})")

    def failed(self, fn: VMFunction, at: int, status: int, slots: int) -> VMError:
        """The error of a check inside the kernel that instruction ``at`` calls; ``slots`` is their address."""
        instruction = fn.code[at]
        assert isinstance(instruction, Call)
        signature = self.program.kernels[self.program.table[instruction.function].name]
        known = (ctypes.c_int64 * len(fn.slots)).from_address(slots)
        values = [
            evaluate(a.dim, tuple(known)) if isinstance(a, Size) else getattr(a, "value", None)
            for a in instruction.args
        ]
        for k, position in enumerate(register_scalars(self.program, instruction), len(fn.slots)):
            values[position] = C_TYPES[signature.params[position].dtype].from_address(slots + 8 * k).value
        return kernel_failure(signature, status, values)

    def recheck(self, function: int, at: int, value: Any, slots: tuple[int, ...]) -> tuple[int, ...]:
        """Run one check instruction; the slots afterwards."""
        return run_check(self.program, self.functions[function], at, value, slots, self.owner.placement)

    def packed(self, name: str, *args: Any) -> Any:
        """A registered function called from a device's program."""
        return self.owner.placement.call(find_packed(name), args)

    def invoke(self, function: Any, *args: Any) -> Any:
        """A function value called in a device's program."""
        if isinstance(function, Closure):
            return function(*args)
        return self.owner.placement.call(registry.PackedFunc("a function", function), args)

    def new_block(self, chain: Any, count: int) -> tuple[Any, int]:
        """Memory of the device beside the arena: behind the blocks that a frame has, and where it lies."""
        block = self.allocate(self.device.index, count)
        return (chain, block), block.address

    def grow(self, lane: int, count: int) -> int:
        """A larger arena for a stream, in place of its former one; where it lies."""
        self.owner.arenas.pop(lane, None)
        self.owner.give_up_arenas(MOST_ARENAS - 1)
        block = self.owner.arenas[lane] = self.allocate(self.device.index, count)
        return block.address

    def explain(self, function: int, *args: Any) -> Any:
        """A call inside the program whose arguments failed the fast checks: raise, or convert and call."""
        depth = getattr(self.local, "depth", 0)
        if depth >= EXPLAIN_DEPTH:
            raise VMError("E632", f"{self.functions[function].name}: recursion too deep")
        self.local.depth = depth + 1
        try:
            return self.owner.function(self.functions[function].name)(*args)
        finally:
            self.local.depth = depth

    def note(self, error: BaseException, function: int, at: int) -> None:
        """Put a frame on an error that passes through."""
        fn = self.functions[function]
        if isinstance(error, UnityError):
            add_frame(error, self.program, fn, at)
        elif len(getattr(error, "__notes__", ())) < 12:
            error.add_note(frame_text(self.program, fn, at))

    def closure_of(self, head: Closure, *captured: Any) -> Closure:
        """A function with (more) captured values."""
        return Closure(head.name, head.captured + captured, head.call)
