"""``VirtualMachine``: an executable loaded into this process, its functions callable from Python."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from ..ffi.calls.check import ArgumentChecker, Finished, OutHandler
from ..ffi.calls.entry_spec import ObjectArg, spec_of_kernel
from ..ffi.calls.fastcall import gated_kernel, kernel_function, of_bits
from ..ffi.calls.kernel_calls import BRIDGE, BRIDGE_ADDRESS
from ..ffi.device import CPU, DEVICE_KINDS, Device, device as make_device, memory_device
from ..ffi.dtype import DataType
from ..ffi.library import require_library
from ..ffi.machine_code.engine import Engine
from ..ffi.machine_code.objects import split_objects
from ..ffi.runtime import cpu_runtime as _cpu_runtime, cuda_runtime as _cuda_runtime  # noqa: F401 - they register themselves
from ..ffi.runtime.runtime import DRIVER, runtime_of
from ..ffi.targets.processor import lacking_features
from ..ffi.tensor import Tensor
from ..support.arguments import guarded_class
from ..support.errors import MissingExtraError, VMError
from .builtins.placement import Placement
from .builtins.values import Closure, to_value
from .captured import CapturedCalls, require_capturable
from .executable.bytecode import Program
from .executable.entry import plan_entry
from .executable.executable import Executable, not_pickled
from .foreign_kernels import foreign_sections, link_foreign
from .interpreter.interpret import Instrument, Interpreter
from .interpreter.kernels import raw_kernels
from .native.run import NativeProgram, has_own_memory
from .out_calls import OutCall, with_outputs
from .profile import Profile, profile

EXEC_MODES = ("native", "bytecode")


class BoundFunction(partial[Any]):
    """A function of a virtual machine: call it; ``signature`` says how. (A ``partial``: no Python frame on the way.)"""

    name: str
    signature: str

    def __repr__(self) -> str:
        return self.signature

    def __reduce__(self) -> Any:
        raise not_pickled()

    def __copy__(self) -> BoundFunction:
        return self  # as Python's own functions

    def __deepcopy__(self, memo: dict[int, Any]) -> BoundFunction:
        return self


@dataclass(slots=True, frozen=True)
class BenchmarkResult:
    """Seconds per call, one number per repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Median."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """Fastest repeat."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Slowest repeat."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        numbers = ", ".join([f"{name} {getattr(self, name) * 1e6:.3f} us" for name in ("mean", "median", "min", "std")])
        return f"{numbers} ({len(self.results)} repeats)"


@guarded_class
class VirtualMachine:
    """Runs an executable: ``vm["main"](x, w)`` takes numpy arrays, torch tensors, ``unity.Tensor``, numbers and tuples.

    ``device``: the CPU, or the one that the program was compiled for, such as ``unity.cuda(0)``. ``exec_mode``: "native" (machine
    code) or "bytecode" (interpreter: instruments, every check at every step).
    ``cuda_graph``: graph functions are captured once for each set of argument sizes, then launched in one call; None: as
    the executable was built (``relax.backend.use_cuda_graph`` of ``PassContext``).
    Several Python threads may call one virtual machine. Raises VMError E602 to E613 for arguments that do not fit, E639 for a
    function that cannot be captured.
    """

    def __init__(
        self,
        executable: Executable,
        device: Device | str | Sequence[Device] | None = None,
        exec_mode: str = "native",
        cuda_graph: bool | None = None,
    ) -> None:
        if exec_mode not in EXEC_MODES:
            raise VMError("E631", f"unknown exec_mode {exec_mode!r}", help=f"known: {', '.join(EXEC_MODES)}")
        if not isinstance(executable, Executable):
            raise VMError("E625", f"VirtualMachine takes an Executable, got {type(executable).__name__}",
                          help="compile a module first: unity.VirtualMachine(unity.compile(mod))")  # fmt: skip
        found = device if device is None or isinstance(device, (str, Device)) else device[0] if len(device) else None
        self.device = device_for(executable, None if found is None else make_device(found))
        self.placement = Placement(memory_device(self.device))
        for entry in executable.program.table:
            if entry.kind == "packed":
                require_library(entry.name)
        self.executable = executable
        self.exec_mode = exec_mode
        self.cuda_graph = "cuda_graph" in executable.options if cuda_graph is None else cuda_graph
        with self.placement.running:
            self.engine, self._foreign = link_kernels(executable, self.placement.device)
            constants = self.placement.constants(executable.program.constants)
        self.interpreter = Interpreter(executable.program, {}, self.placement, constants)
        self.native = NativeProgram(executable, self.interpreter, self.engine) if exec_mode == "native" else None
        if self.native is not None:
            self.native.outputs = self._outputs_of
        self.kernels = self.interpreter.kernels = raw_kernels(self.engine, executable.program)
        self._functions: dict[str, BoundFunction] = {}
        self._inputs: dict[str, tuple[list[Any], dict[str, Any]]] = {}
        self._outputs: dict[str, Any] = {}

    def __reduce__(self) -> Any:
        raise not_pickled()

    def __copy__(self) -> VirtualMachine:
        """Another machine for the same program."""
        return VirtualMachine(self.executable, self.device, self.exec_mode, self.cuda_graph)

    def __deepcopy__(self, memo: dict[int, Any]) -> VirtualMachine:
        return self.__copy__()

    def __getitem__(self, name: str) -> BoundFunction:
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = self._bind(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """The names that ``[]`` takes."""
        return iter(self.executable)

    def __contains__(self, name: str) -> bool:
        return name in self._functions or name in self.executable

    def _bind(self, name: str) -> BoundFunction:
        program = self.executable.program
        if name in program.functions and program.functions[name].exported:
            fn = program.functions[name]
            params = ", ".join([f"{p}: {annotation}" for p, annotation in fn.params])
            return _bound(self._graph_function(name), name, f"{name}({params}) -> {fn.ret}")
        if name in program.kernels:
            signature = program.kernels[name]
            params = ", ".join([f"{p.name}: {p.dtype}" for p in signature.params])
            return _bound(self._kernel_function(name), name, f"{name}({params})")
        close = ", ".join([*self.executable.functions, *program.kernels])
        raise VMError("E631", f"the program has no function {name!r}", help=f"it has: {close or 'none'}")

    def _graph_function(self, name: str) -> Callable[..., Any]:
        program, native = self.executable.program, self.native
        plain = (
            interpreted(program, self.interpreter, name, self._outputs_of(name)) if native is None else native.function(name)
        )  # fmt: skip
        indices = program.functions[name].host_results if self.placement.own_memory else ()
        if indices:
            plain = with_host_results(plain, frozenset(indices))
        if not self.cuda_graph:
            return plain
        require_capturable(program, name, self._foreign, self.placement.device)
        return CapturedCalls(
            name, program, self.placement, plain, lambda: [] if native is None else list(native.arenas.values())
        )

    def silent(self, name: str) -> Callable[..., Any] | None:
        """Return the graph function ``name`` in a form that raises ``Refused`` for arguments that do not fit, before anything runs;
        None where only the function itself can tell.
        """
        program = self.executable.program
        plan = plan_entry(program.functions[name], program)
        placed = self.placement.own_memory and program.functions[name].host_results
        if placed or self.cuda_graph or any([isinstance(leaf, ObjectArg) for leaf in plan.spec.leaves()]):
            return None
        if self.native is not None:
            return self.native.function(name, silent=True)
        return interpreted(program, self.interpreter, name, silent=True)

    def _outputs_of(self, name: str) -> OutHandler:
        """Calls of a function with ``out=``; what they need is made for the first one."""
        calls: list[OutCall] = []

        def call(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            if not calls:
                calls.append(out_call(self, name))
            return calls[0](args, kwargs, out)

        return call

    def _kernel_function(self, name: str) -> Callable[..., Any]:
        """A tensor program under its name: checked by machine code, or in Python where the file brings no entry for it and there is
        no LLVM to make one."""
        try:
            return self._checked_kernel(name) if self.native is None else self._native_kernel(name)
        except MissingExtraError:
            return self._checked_kernel(name)

    def _native_kernel(self, name: str) -> Callable[..., Any]:
        kernel, placement = self.kernels[name], self.placement
        signature, spec = kernel.signature, spec_of_kernel(kernel.signature, placement.device)
        entry = kernel_function(
            spec, kernel.address, messages=signature.messages, result=signature.result, keep=(self.engine,)
        )
        if not placement.own_memory:
            return entry
        general = running_in(placement, entry)
        result, keep = signature.result, (self.engine,)
        bare = signature.packed_calls or (result is not None and DataType(result).is_narrow)
        gate = 0 if bare else placement.gate()
        return gated_kernel(signature, kernel.address, general, gate, placement.device, keep) if gate else general

    def _checked_kernel(self, name: str) -> Callable[..., Any]:
        kernel, placement = self.kernels[name], self.placement
        checker = ArgumentChecker(spec_of_kernel(kernel.signature, placement.device))

        def call(*args: Any, **kwargs: Any) -> Any:
            values, symbols = checker.bind(args, kwargs)
            return kernel([Tensor(v) if hasattr(v, "ctypes") else v for v in values] + symbols)

        if placement.own_memory:
            call = running_in(placement, call)
        result = kernel.signature.result
        return call if result is None or not DataType(result).is_narrow else of_bits(call, result)

    def invoke_closure(self, closure: Closure, *args: Any) -> Any:
        """Call a closure that the program returned. Raises VMError E636."""
        if not callable(closure):
            raise VMError("E636", f"a {type(closure).__name__} is not a closure")
        return to_value(closure(*args))

    def save_function(self, name: str, saved_name: str, *args: Any) -> None:
        """Bind arguments to the function ``name``; ``vm[saved_name]()`` calls it."""
        function = self[name]
        values = tuple([self.placement.value(a) for a in args])
        self._functions[saved_name] = _bound(lambda: function(*values), saved_name, f"{saved_name}()")

    def set_input(self, name: str, *args: Any, **named: Any) -> None:
        """Keep arguments, by position or by parameter name, for ``invoke_stateful(name)``."""
        self[name]
        value = self.placement.value
        self._inputs[name] = ([value(a) for a in args], {key: value(a) for key, a in named.items()})

    def invoke_stateful(self, name: str) -> None:
        """Call a function with the arguments kept by ``set_input``. Raises VMError E637 where there are none."""
        if name not in self._inputs:
            raise VMError("E637", f"no input is set for {name!r}", help=f'call vm.set_input("{name}", ...) first')
        args, named = self._inputs[name]
        self._outputs[name] = self[name](*args, **named)

    def get_outputs(self, name: str) -> Any:
        """Return the result of the last ``invoke_stateful(name)``. Raises VMError E637 where there is none."""
        if name not in self._outputs:
            raise VMError("E637", f"{name!r} has no outputs yet", help=f'call vm.invoke_stateful("{name}") first')
        return self._outputs[name]

    def set_instrument(self, before: Instrument | None = None, after: Instrument | None = None) -> None:
        """Call ``before(name, args, None)`` and ``after(name, args, result)`` around every call inside the program; None removes
        one.

        Calls of tensor programs, graph functions and registered functions count; the call from outside and the VM's own operations
        do not. For a tensor program ``args`` holds its inputs, the tensors it writes (undefined before the call) and the values of
        its symbols, and ``result`` is None. If ``before`` returns ``SKIP`` (of ``unity.vm.interpreter.interpret``), the call is
        left out: its outputs stay unset, and ``after`` is not called. Raises VMError E637 in native mode.
        """
        if self.exec_mode != "bytecode":
            raise VMError("E637", "instruments need the interpreter", help='make the machine with exec_mode="bytecode"')
        self.interpreter.before, self.interpreter.after = before, after

    @property
    def module(self) -> VirtualMachine:
        """TVM's place for ``time_evaluator``: the machine itself."""
        return self

    def time_evaluator(
        self,
        name: str,
        device: Device | str | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0.0,
    ) -> Callable[..., BenchmarkResult]:
        """Return a function that times ``name`` on its arguments and returns a ``BenchmarkResult``, in seconds per call.

        It takes ``repeat`` means over ``number`` calls each; ``number`` grows until a mean covers ``min_repeat_ms`` milliseconds.
        ``device``: that of this machine. Raises VMError E612 for another one.
        """
        if device is not None and make_device(device) != self.device:
            raise VMError("E612", f"this machine runs on {self.device}, not on {make_device(device)}",
                          help="leave the device out, or make a machine on that one")  # fmt: skip
        function, wait = self[name], self.placement.device.sync

        def run(*args: Any) -> BenchmarkResult:
            values = [self.placement.value(a) for a in args]
            function(*values)
            wait()
            calls = number
            results: list[float] = []
            while len(results) < repeat:
                start = time.perf_counter()
                for _ in range(calls):
                    function(*values)
                wait()
                took = time.perf_counter() - start
                if took * 1000 < min_repeat_ms:
                    calls *= 2
                    continue
                results.append(took / calls)
            return BenchmarkResult(tuple(results))

        return run

    def profile(self, name: str, *args: Any, runs: int = 10) -> Profile:
        """Profile ``name`` on these arguments: a table of kernels (print it), a timeline and a roofline.

        The function runs ``runs`` times in the bytecode interpreter. Raises VMError E631, and what a call raises.
        """
        program = self.executable.program
        if name not in program.functions or not program.functions[name].exported:
            raise VMError("E631", f"the program has no graph function {name!r}", help="time_evaluator times a kernel")
        self.executable.count_work()
        checker = ArgumentChecker(plan_entry(program.functions[name], program, self.placement.device).spec)
        with self.placement.running:
            values = tuple([to_value(a) for a in checker.bind(args)[0]])
            return profile(self.interpreter, name, values, runs)


def device_for(executable: Executable, wanted: Device | None) -> Device:
    """The device of a machine, where its tensors lie: the one that is wanted, else the first that the program runs on. Raises
    VMError E612 for another one, ArtifactError E810."""
    if has_own_memory(executable):
        main = DEVICE_KINDS[executable.options["device"]]
        if wanted is not None and wanted.kind != main.name:
            raise VMError("E612", f"this program was compiled for {main.name}, it does not run on {wanted}",
                          help=f'VirtualMachine(ex, unity.device("{main.name}")), or compile it for another target')  # fmt: skip
        return wanted or make_device(main.name)
    kinds = [runtime_of(section).device for section in executable.objects if section != DRIVER]
    host_devices = [Device(kind.name) for kind in kinds if kind.host_memory and kind.name != CPU.kind]
    host_devices = list(dict.fromkeys([*host_devices, CPU]))
    if wanted is not None and wanted not in host_devices:
        raise VMError("E612", f"this program runs on {', '.join(map(str, host_devices))}, not on {wanted}",
                      help=f'compile it for that device: unity.compile(mod, target="{wanted.kind}")')  # fmt: skip
    return make_device(wanted or host_devices[0])


def with_host_results(function: Callable[..., Any], indices: frozenset[int]) -> Callable[..., Any]:
    """A function some of whose tensors, by their numbers, are copied to the host; what is given as ``out`` stays where it is."""

    def moved(value: Any, numbers: Iterator[int]) -> Any:
        if isinstance(value, tuple):
            return tuple([moved(v, numbers) for v in value])
        return value.to(CPU) if isinstance(value, Tensor) and next(numbers) in indices else value

    def call(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return found if kwargs.get("out") is not None else moved(found, count())

    return call


def running_in(placement: Placement, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of machine code, called as a program of a device."""
    running = placement.running

    def call(*args: Any, **kwargs: Any) -> Any:
        with running:
            return function(*args, **kwargs)

    return call


def interpreted(
    program: Program, interpreter: Interpreter, name: str, out: OutHandler | None = None, silent: bool = False
) -> Callable[..., Any]:
    """A function run by the interpreter, with the checks of its entry."""
    placement = interpreter.placement
    checker = ArgumentChecker(plan_entry(program.functions[name], program, placement.device).spec, out, silent)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = checker(*args, **kwargs)
        if isinstance(given, Finished):
            return given.value
        return interpreter.run(name, tuple([placement.value(a) for a in given]))

    return running_in(placement, call) if placement.own_memory else call


def out_call(vm: VirtualMachine, name: str) -> OutCall:
    """Calls with ``out=`` of a function: its derived form, compiled for the machine's mode; interpreted without LLVM."""
    program = vm.executable.program
    plan = with_outputs(program, name)
    plain: Callable[..., Any] = vm[name]
    order = ArgumentChecker(plan_entry(program.functions[name], program).spec).order
    direct = plain
    if plan is not None and plan.program is not program:
        interpreter = Interpreter(plan.program, vm.kernels, vm.placement, vm.interpreter.constants)
        direct = interpreted(plan.program, interpreter, name)
        if vm.native is not None:
            derived = Executable(plan.program, {k: v for k, v in vm.executable.objects.items() if k != DRIVER},
                                 vm.executable.triple, vm.executable.features, options=vm.executable.options)  # fmt: skip
            with vm.placement.running, suppress(MissingExtraError):
                engine, _ = link_kernels(derived, vm.placement.device)
                direct = NativeProgram(derived, interpreter, engine).function(name)
    return OutCall(plan, name, plain, direct, order)


def _bound(call: Callable[..., Any], name: str, signature: str) -> BoundFunction:
    function = BoundFunction(call)
    function.name, function.signature = name, signature
    return function


def require_processor(features: str) -> None:
    """Refuse VMError E451 for code that uses instructions this processor lacks, or AMX where the system does not allow it."""
    lacking = lacking_features(features)
    if lacking:
        raise VMError(
            "E451",
            f"the code is for a processor with {', '.join(lacking)}, which this one lacks",
            help="compile for this machine: leave -mcpu and -mattr out of the target, and UNITY_TARGET unset",
        )


def link_kernels(executable: Executable, device: Device) -> tuple[Engine, set[str]]:
    """The code of the tensor programs, each section loaded by the runtime of its target, and the names of those for another memory
    than that of ``device``, where the program's tensors lie."""
    require_processor(executable.features)
    engine = Engine({BRIDGE: BRIDGE_ADDRESS}, keep=[executable])
    program = executable.program
    kernels = {program.symbol(name): signature for name, signature in program.kernels.items()}
    sections = {name: runtime_of(name) for name in executable.objects if name != DRIVER}
    foreign, elsewhere = foreign_sections(sections, device), set[str]()
    for name, runtime in sections.items():
        objects = split_objects(executable.objects[name])
        if name in foreign:
            elsewhere |= link_foreign(engine, runtime, objects, program, device, foreign[name])
        else:
            runtime.link(engine, objects, kernels)
    return engine, elsewhere
