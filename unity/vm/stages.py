"""``unity.stages``: a build as a line of stages, each a function that can be called alone.

    parse / import -> check -> graph -> schedule -> plan -> lower -> generate -> link -> run

``build.py`` calls them in order; whole builds, kernels and schedules are found again in the object cache. Not here: parsing
(``unity.script.parse``), importing (``unity.frontend``), passes, code generators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..arith.cost import cost_of
from ..arith.formula import NoFormula, to_formula
from ..ffi.abi import Dim
from ..ffi.machine_code.objects import join_objects
from ..ffi.targets.target import Target, target as make_target
from ..ir.build import add
from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule, module
from ..ir.verifier.verifier import verify
from ..script import parse
from ..support.errors import InternalError, PassError, VMError
from ..support.options import bool_option, int_option
from ..support.progress import report_progress
from ..support.recursion import deep_recursion
from ..support.schema import Misfit
from ..target.signature import symbol_vars
from ..transform.default_schedule.apply import schedule_nests
from ..transform.infra.backend import backend_of, by_target
from ..transform.infra.constant_lifetime import watching
from ..transform.infra.passes import NO_PASSES, Pass, PassContext, Pipeline
from ..transform.relax.pipeline import DEVICE_PLAN_PIPELINE, GRAPH_PIPELINE, PLAN_PIPELINE, SCHEDULE_PIPELINE
from ..transform.tir.buffers.instrument_bounds import instrument_bounds
from ..transform.tir.check_bounds import check_bounds
from ..transform.tir.expressions.simplify import bind_shared
from ..transform.tir.pipeline import lower_prim_funcs
from .compiler.module import compile_module
from .data_types import check_data_types
from .executable.bytecode import Program
from .executable.executable import Executable
from .executable.verifier import verify_program
from .kernel_cache import CompiledKernels, compile_kernels, is_own
from .native.run import add_driver
from .own_code import pack_own_code
from .virtual_machine import EXEC_MODES, VirtualMachine

Passes = Callable[[IRModule], IRModule] | Sequence[Pass] | str
"""Graph passes as they are given: a pipeline or another function, passes in order, the text of a pipeline."""
NESTS_ALONE = Pipeline((schedule_nests,))
"""The scheduling of what passes that a caller chose left without a schedule."""


@dataclass(slots=True, frozen=True)
class BuildConfig:
    """The passes and the target of a build, stage by stage; ``configure`` makes one."""

    target: Target
    graph: Callable[[IRModule], IRModule]
    schedule: Pipeline
    plan: Pipeline
    lowering: Pipeline
    exec_mode: str
    cuda_graph: bool = False

    def lowering_for(self, target: Target) -> Pipeline:
        """The lowering of tensor programs of a target: another one than the build's has its backend's. Raises CodegenError E530."""
        return self.lowering if target == self.target else backend_of(target).lowering(bool_option("UNITY_BOUNDS"))

    @property
    def options(self) -> dict[str, str]:
        """The options that a saved program keeps, to be built again."""
        device = backend_of(self.target).runtime.device.name
        found = {"target": str(self.target), "exec_mode": self.exec_mode, "device": device}
        return found | ({"cuda_graph": "1"} if self.cuda_graph else {})


def configure(
    target: str | Target | None = None, *, exec_mode: str = "native", pipeline: Passes | None = None,
    tir_pipeline: Pipeline | None = None,
) -> BuildConfig:  # fmt: skip
    """A build for a target; ``pipeline`` takes the place of the passes of ``graph``, ``schedule`` and ``plan`` together. What
    it leaves unscheduled is scheduled nest by nest.

    Raises VMError E631 for an unknown mode, CodegenError E530 and E531 for a target, PassError for a pipeline.
    """
    if exec_mode not in EXEC_MODES:
        raise VMError("E631", f"unknown exec_mode {exec_mode!r}", help=f"known: {', '.join(EXEC_MODES)}")
    chosen = make_target(target)
    backend = backend_of(chosen)
    given = backend.graph_pipeline if pipeline is None else pipeline
    stages: tuple[Callable[[IRModule], IRModule], Pipeline, Pipeline]
    on_host = backend.runtime.device.host_memory
    if given is None:
        stages = GRAPH_PIPELINE, SCHEDULE_PIPELINE, PLAN_PIPELINE if on_host else DEVICE_PLAN_PIPELINE
    else:
        stages = given if callable(given) else Pipeline.of(given), NESTS_ALONE, NO_PASSES
    lowering = backend.lowering(bool_option("UNITY_BOUNDS")) if tir_pipeline is None else Pipeline.of(tir_pipeline)
    captured = PassContext.current().cuda_graph and not on_host
    return BuildConfig(chosen, *stages, lowering, exec_mode, captured)


def as_module(mod: object) -> IRModule:
    """The module behind what a build takes; a function becomes its ``main``. Raises VMError E625 for anything else."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, (Function, PrimFunc)):
        name = str(mod.attrs.get("global_symbol", "main"))
        return module({name: mod.with_attrs({"global_symbol": name, **mod.attrs})})
    raise VMError("E625", f"unity.compile takes an IRModule or a function of one, or a torch.nn.Module, got a {type(mod).__name__}",
                  help='a torch model: unity.compile(model, example_inputs=(x,)); a Python function of torch tensors: '
                  'torch.compile(f, backend="unity")')  # fmt: skip


def verified(mod: IRModule | Function | PrimFunc, config: BuildConfig) -> IRModule:
    """The module after the verifier: before it nothing may be asked of what stands in there. Raises VerifyError, VMError E62x."""
    source = bind_shared(as_module(mod))  # before anything visits every place
    with config.target:
        if int_option("UNITY_VERIFY") >= 1:
            verify(source)
        check_data_types(source)
    return source


def checked(mod: IRModule, config: BuildConfig) -> IRModule:
    """A verified module with checks of indices where they cannot be proved."""
    with config.target:
        return mod if instrument_bounds in config.lowering else check_bounds(mod)


def check(mod: IRModule | Function | PrimFunc, config: BuildConfig) -> IRModule:
    """The module, verified, with checks of indices where they cannot be proved. Raises VerifyError, VMError E62x."""
    return checked(verified(mod, config), config)


def graph(mod: IRModule, config: BuildConfig) -> IRModule:
    """Operators become calls of tensor programs: rewritten, fused, lowered one by one. Raises PassError."""
    return _apply(mod, config.graph, config)


def schedule(mod: IRModule, config: BuildConfig) -> IRModule:
    """The loops of tensor programs are chosen, by the rules of the target and then nest by nest, constants packed as they want
    them."""
    return _apply(mod, config.schedule, config)


def plan(mod: IRModule, config: BuildConfig) -> IRModule:
    """Graph functions say which memory each call writes to: the form that becomes bytecode."""
    return _apply(mod, config.plan, config)


def _apply(mod: IRModule, passes: Callable[[IRModule], IRModule], config: BuildConfig) -> IRModule:
    """The module after passes."""
    with config.target:
        if not isinstance(passes, Pipeline):
            report_progress("graph passes", 0, 1)
            result = passes(mod)
            if not isinstance(result, IRModule):
                raise PassError("E690", f"the pipeline returned {type(result).__name__}, expected IRModule")
            return result
        context = PassContext.current()
        watched = context.is_special or not is_own(passes)  # somebody may look at modules that were rewritten
        for done, step in enumerate(passes):
            report_progress(step.name, done, len(passes.passes))
            if watched:
                mod = context.run(step, mod)
                continue
            with watching(mod):
                mod = context.run(step, mod)
        return mod


def lower(mod: IRModule, config: BuildConfig) -> dict[str, PrimFunc]:
    """The tensor programs as flat loops over one-dimensional buffers, each lowered for its target. Raises PassError."""
    lowered: dict[str, PrimFunc] = {}
    for target, functions in by_target(mod, config.target).items():
        with target:
            lowered |= lower_prim_funcs(functions, config.lowering_for(target))
    return lowered


def generate(programs: Mapping[str, PrimFunc], config: BuildConfig) -> CompiledKernels:
    """Machine code of lowered tensor programs. Raises CodegenError."""
    kernels = CompiledKernels()
    for target, functions in by_target(IRModule(dict(programs), {}, {}), config.target).items():
        with target:
            code = backend_of(target).generate(functions, target, "")()
        kernels.add(target, [code.data], {name: (s, code.symbols[name]) for name, s in code.signatures.items()})
    return kernels


def kernels(mod: IRModule, config: BuildConfig) -> CompiledKernels:
    """``lower`` and ``generate`` in one, program by program: those that were compiled before are found again."""
    code = CompiledKernels()
    for target, functions in by_target(mod, config.target).items():
        compile_kernels(functions, config.lowering_for(target), target, code)
    return code


def link(mod: IRModule, code: CompiledKernels, config: BuildConfig) -> Executable:
    """Bytecode of the graph functions, the code of the programs that they call, and the native driver. Raises VMError E62x."""
    program = compile_module(mod, code.signatures, code.symbols)
    objects = {section: join_objects(data) for section, data in code.sections.items()}
    features = {part for place in (config.target, *code.targets) for part in place.required_features.split(",") if part}
    executable = Executable(program, objects, config.target.triple, ",".join(sorted(features)), options=config.options)
    executable.start, executable.own_code, executable.count = (
        VirtualMachine,
        pack_own_code,
        partial(kernel_costs, mod, program),
    )
    if int_option("UNITY_VERIFY") >= 1:
        _verified(program)
    if config.exec_mode == "native":
        add_driver(executable, config.target.processor)
    return executable


def run(executable: Executable, exec_mode: str = "native") -> VirtualMachine:
    """A machine that runs the functions of an executable. Raises VMError E612, E631."""
    return VirtualMachine(executable, exec_mode=exec_mode)


def _verified(program: Program) -> None:
    """Raise InternalError E906 where the verifier refuses what was compiled: no file of it could be loaded."""
    try:
        verify_program(program)
    except Misfit as error:
        raise InternalError("E906", f"the bytecode breaks its own rules: {error}") from error


def kernel_costs(mod: IRModule, program: Program) -> dict[str, tuple[Dim, Dim]]:
    """Operations and bytes of the compiled tensor programs, where formulas of their symbols can say them."""
    found: dict[str, tuple[Dim, Dim]] = {}
    with deep_recursion():
        for name, fn in mod.prim_funcs().items():
            if name not in program.kernels:
                continue
            number = {var: index for index, var in enumerate(symbol_vars(fn))}
            cost = cost_of(fn)
            try:
                flops, moved = [to_formula(e, number.__getitem__) for e in (cost.flops, add(cost.read, cost.written))]
            except (NoFormula, KeyError):  # an extent that is loaded, or a symbol that no shape gives
                continue
            found[name] = (flops, moved)
    return found


__all__ = [
    "BuildConfig", "as_module", "check", "configure", "generate", "graph", "kernels", "link", "lower", "parse", "plan", "run",
    "schedule",
]  # fmt: skip
