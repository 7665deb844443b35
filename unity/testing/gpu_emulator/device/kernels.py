"""Modules loaded into an emulated device, and launches of their kernels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from ....ir.interpret.threads.findings import Finding, Log, Site
from ....ir.interpret.threads.lanes import Geometry
from ..instructions import compile_program
from ..machine.batch import Launch, Options
from ..machine.findings import Fault
from ..machine.link import Program, link
from ..machine.reading import number
from ..machine.run import run_launch
from ..memory.device_memory import Allocation, DeviceMemory
from ..ptx.program import Module, Number, Symbol, Variable
from ..ptx.reader import read_module
from ..ptx.tokens import refused
from .attributes import Limits

LOOKED_THROUGH = 1 << 24
"""Bytes of the largest allocation that is looked through for being wholly written."""
Three = tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Kernel:
    """A kernel of a loaded module; ``dynamic_limit`` is what was asked for of shared memory beyond the default."""

    program: Program
    dynamic_limit: int = 0

    @property
    def threads(self) -> int:
        """The most threads of a block, as its text promises."""
        limits = self.program.kernel.limits
        found = limits.get("reqntid") or limits.get("maxntid") or (1024,)
        return int(np.prod(found))


@dataclass(slots=True, eq=False)
class LoadedModule:
    """A module with its kernels by name and its variables in memory."""

    module: Module
    kernels: dict[str, Kernel]
    variables: dict[str, Allocation]


@dataclass(slots=True)
class LaunchRecord:
    """One launch as it was: ``findings`` of its threads, ``traffic`` of its accesses, ``instructions`` that were run."""

    kernel: str
    grid: Three
    block: Three
    shared: int
    stream: int
    instructions: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list, repr=False)
    traffic: list[Site] = field(default_factory=list, repr=False)
    fault: int = 0
    """The status that it left, 0 where it ended well."""


def load_module(text: str, memory: DeviceMemory, limits: Limits, name: str) -> LoadedModule:
    """Read, place and compile a module. Raises InterpreterError E390 or E391."""
    module = read_module(text, name)
    wanted = "".join([letter for letter in module.target if letter.isdigit()])
    own = limits.major * 10 + limits.minor
    fits = int(wanted or 0) == own if module.target[-1] == "a" else int(wanted or 0) <= own
    if not fits:
        raise refused(f"the module is for {module.target}, and the device is sm_{own}")
    variables: dict[str, Allocation] = {}
    for variable in module.variables.values():
        if variable.space in ("global", "const"):
            made = memory.allocate(max(variable.size, 1), variable.name)
            if made is None:
                raise refused(f"no memory is left for {variable.name}")
            variables[variable.name] = made
    addresses = {one: memory.base + made.start for one, made in variables.items()}
    for variable in module.variables.values():
        if variable.name in variables:
            made = variables[variable.name]
            memory.fill(slice(made.start, made.start + made.size), 0)
            start = slice(made.start, made.start + variable.size)
            memory.fill(start, _initial(variable, addresses))
            if variable.space == "const":
                made.constant = True
                memory.constants.append(made)
    kernels = {}
    for function in module.functions.values():
        if function.entry and function.defined:
            program = link(module, function.name, addresses)
            compile_program(program)
            kernels[function.name] = Kernel(program)
    return LoadedModule(module, kernels, variables)


def _initial(variable: Variable, addresses: dict[str, int]) -> np.ndarray:
    """The bytes of a variable, zeros behind the values that its text gives."""
    made = np.zeros(variable.size // variable.type.bytes, variable.type.numpy)
    for k, value in enumerate(variable.values):
        if isinstance(value, Symbol):
            if value.name not in addresses or variable.type.bytes != 8:
                raise refused(f"{variable.name} holds the address of {value.name}, which is not modelled")
            value = Number(addresses[value.name] + value.offset)
        if not isinstance(value, Number):
            raise refused(f"the values of {variable.name} are not modelled")
        made[k : k + 1] = number(value, variable.type)
    return made.view(np.uint8)


def launch_kernel(
    kernel: Kernel, memory: DeviceMemory, record: LaunchRecord, arguments: bytes, options: Options
) -> Fault | None:
    """Run a kernel over its grid, and note in the record what happened; the fault that ended it, if any."""
    program = kernel.program
    padded = arguments + b"\0" * (-len(arguments) % 16)
    _name_arguments(program, memory, arguments)
    log = Log()
    launch = Launch(
        program,
        Geometry(record.grid, record.block),
        np.frombuffer(padded, np.uint8),
        record.shared,
        memory,
        log,
        options,
    )
    start = time.perf_counter()
    fault = None
    try:
        run_launch(launch)
    except Fault as error:
        fault = error
        record.fault = error.code
        log.add(("fault", error.code), error.reason, 1)
    record.seconds = time.perf_counter() - start
    record.instructions = launch.instructions
    record.findings = list(log.findings.values())
    record.traffic = [site for site in log.sites if site.requests]
    for allocation in memory.live:
        if not allocation.full and allocation.size <= LOOKED_THROUGH:
            allocation.full = bool(memory.written[allocation.start : allocation.start + allocation.size].all())
    return fault


def _name_arguments(program: Program, memory: DeviceMemory, arguments: bytes) -> None:
    """Call allocations by the parameters that point at them, for messages."""
    for (offset, size), param in zip(program.params, program.kernel.params):
        if size == 8:
            found = memory.find(int.from_bytes(arguments[offset : offset + 8], "little"))
            if found is not None and not found.constant:
                found.name = param.name
