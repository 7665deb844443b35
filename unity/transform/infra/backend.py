"""``Backend``: everything about one kind of targets, and what passes and the build ask of the target in use.

A backend is plain functions put together: how its targets are written, how code for them is made, what runs it. Registered by
``unity.target.register_target``; those of this package (``unity/target/shipped``) when a target is
first asked for. Not here: any target (a folder of ``target/`` for each).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ffi.abi import KernelSignature
from ...ffi.runtime.runtime import Runtime, origin, register_runtime
from ...ffi.targets.target import Target, target as make_target
from ...ffi.targets.target_kind import KINDS, TargetKind, register_kind
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...support.arguments import checked
from ...support.errors import CodegenError
from ...support.lazy import load
from .passes import NO_PASSES, Pipeline

if TYPE_CHECKING:
    from ..default_schedule.base import Rule


@dataclass(slots=True, frozen=True)
class GpuMachine:
    """Facts about a device with threads: its compute capability (80 for 8.0), how many processors run blocks; of one block at most:
    threads, bytes of shared memory, and those of them that it has without asking; registers of a thread; whether tensor cores may
    take float32 for numbers of 19 bits; whether they have products of warpgroups, and bulk copies."""

    capability: int = 80
    processors: int = 108
    warp: int = 32
    threads: int = 1024
    shared_bytes: int = 163 << 10
    static_shared_bytes: int = 48 << 10
    registers: int = 255
    tf32: bool = False
    warpgroups: bool = False


@dataclass(slots=True, frozen=True)
class Machine:
    """Facts about a machine that passes and rules need: bytes of a vector register, how many there are, its tensor intrinsics or
    families of them, and what is known of its blocks of threads where it has any. ``transposes_operands``: products read matrices
    whose rows are columns in memory as fast as others. ``slow_intrinsics``: those that are slower than plain steps in their place.
    ``second_level``: bytes of a core's second-level cache. ``streams``: what is fetched to be read once stays out of the cache
    that cores share.
    """

    vector_bytes: int = 16
    registers: int = 16
    intrinsics: tuple[str, ...] = ()
    gpu: GpuMachine = GpuMachine()
    transposes_operands: bool = False
    slow_intrinsics: tuple[str, ...] = ()
    second_level: int = 1 << 20
    streams: bool = False

    def lanes(self, item_bytes: int) -> int:
        """Return the number of elements of ``item_bytes`` bytes in a vector."""
        return max(1, self.vector_bytes // item_bytes)

    @property
    def accumulators(self) -> int:
        """Registers that a tile may take: as many as leave room for operands."""
        return self.registers - 6

    @property
    def masks(self) -> bool:
        """True if masks have registers of their own: a part of a vector takes no longer than all of it, and elements with a step
        between them are picked by shuffles."""
        return self.vector_bytes >= 64


@dataclass(slots=True, frozen=True)
class KernelCode:
    """Code of tensor programs: ``data`` for the target's section, signatures and symbols by function name; ``key``: that of the
    object cache under which ``data`` lies already, "" where nowhere."""

    data: bytes
    signatures: dict[str, KernelSignature]
    symbols: dict[str, str]
    key: str = ""


Generate = Callable[[Mapping[str, PrimFunc], Target, str], Callable[[], KernelCode]]
"""(lowered tensor programs that call each other, target, end of their symbols) -> what makes their code, which may be called in
another thread. Raises CodegenError E52x for what cannot be expressed."""


def _any_machine(target: Target) -> Machine:
    """The least one."""
    return Machine()


@dataclass(slots=True, frozen=True)
class Backend:
    """A kind of targets: how descriptions are written (``kind``), what runs code (``runtime``), how code is made (``generate``).

    ``graph_pipeline`` are the graph passes (None: ``DEFAULT_PIPELINE``). ``machine`` describes the machine of a target. Scheduling
    tries ``rules``, the default schedules, in order; ``nests`` then choose the loops of what no rule scheduled. ``pipeline`` lowers
    scheduled tensor programs; ``checked_pipeline`` does with every index checked at run time (None: E530 where that is asked for).
    ``lowerings`` are those of operators (by name) that the kind has for itself. ``cache_key`` is whatever decides the code besides
    the program, the passes, the target's text and this package: versions of tools above all. None: code is made in each build.
    ``of_device`` is the target of a device of the runtime, by its index, where nobody names one.
    """

    kind: TargetKind
    runtime: Runtime
    generate: Generate
    pipeline: Pipeline
    checked_pipeline: Pipeline | None = None
    graph_pipeline: Pipeline | None = None
    machine: Callable[[Target], Machine] = _any_machine
    rules: tuple[Rule, ...] = ()
    nests: Pipeline = NO_PASSES
    lowerings: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    cache_key: Callable[[Target], str] | None = None
    of_device: Callable[[int], str] | None = None

    def lowering(self, checked: bool) -> Pipeline:
        """The lowering of tensor programs. Raises CodegenError E530 where indices cannot be checked."""
        if not checked:
            return self.pipeline
        if self.checked_pipeline is None:
            raise CodegenError("E530", f"code for the target {self.kind.name} cannot check its indices",
                               help="leave UNITY_BOUNDS unset")  # fmt: skip
        return self.checked_pipeline


BACKENDS: dict[str, Backend] = {}
"""Backends by kind."""


@checked
def register_target(backend: Backend) -> None:
    """Make a kind of targets known: ``Target(name)`` describes one, ``unity.compile(mod, target=name)`` builds for it. Called again
    with the same ``generate``, it replaces the first.

    Raises CodegenError E533 where the kind, the device or the section of saved programs belongs to another backend.
    """
    name = backend.kind.name
    load("compiler")
    known = BACKENDS.get(name)
    if known is not None and origin(known.generate) != origin(backend.generate):
        raise CodegenError("E533", f"there is a backend for targets of the kind {name!r} already",
                           help="give yours another name")  # fmt: skip
    register_runtime(backend.runtime)
    register_kind(backend.kind)
    BACKENDS[name] = backend


def backend_of(target: Target) -> Backend:
    """The backend of a target. Raises CodegenError E530 where there is none."""
    name = str(target.kind)
    found = BACKENDS.get(name)
    if found is None:
        load("compiler")
        found = BACKENDS.get(name)
    if found is None:
        listed = ", ".join([kind for kind, row in KINDS.items() if row.generates])
        help = f"code is generated for {listed}; unity.check_gpu runs programs for GPUs on the processor"
        raise CodegenError("E530", f"no code generation for target {name!r}", help=help)
    return found


def machine_in_use() -> Machine:
    """The machine of the target that code is generated for now. Raises CodegenError E530 where no code is."""
    target = make_target()
    return backend_of(target).machine(target)


def lowerings_in_use() -> Mapping[str, Callable[..., Any]]:
    """The lowerings of operators that the target in use has for itself; none where no code is generated for it."""
    target = make_target()
    return backend_of(target).lowerings if KINDS[str(target.kind)].generates else {}


def target_of(func: PrimFunc, default: Target) -> Target:
    """The target of a verified tensor program: its attribute ``target`` or that of the build. Raises CodegenError E531."""
    given: Any = func.attrs.get("target")
    if given is None:
        return default
    return make_target(given["target"] if isinstance(given, Mapping) and "target" in given else given)


def by_target(mod: IRModule, default: Target) -> dict[Target, dict[str, PrimFunc]]:
    """The tensor programs of a module by target. Raises CodegenError E531."""
    found: dict[Target, dict[str, PrimFunc]] = {}
    for name, fn in mod.prim_funcs().items():
        found.setdefault(target_of(fn, default), {})[name] = fn
    return found
