"""``unity.compile``: a module through its pipelines to an executable. The one place where the compiler rooms meet the VM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import script as _script  # noqa: F401 - importing it fills the printer hooks
from ..arith.cost import cost_of
from ..arith.formula import NoFormula, to_formula
from ..ffi.abi import Dim
from ..ffi.discard import is_discarded
from ..ffi.object_archive import join_objects
from ..ffi.target import Target, target as make_target
from ..ffi.tensor import Tensor
from ..ffi.trim import trim_heap
from ..ir.build import add
from ..ir.expr import Constant, Var
from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule, module
from ..ir.verifier.verifier import verify
from ..ir.walk import collect, rewrite
from ..script.reader.module import parse
from ..support.errors import InternalError, VMError
from ..support.gc_pause import no_collection, young_collection
from ..support.options import bool_option, int_option
from ..support.progress import Progress
from ..support.recursion import deep_recursion
from ..support.schema import Misfit
from ..target.signature import symbol_vars
from ..transform.infra.backend import backend_of, by_target
from ..transform.infra.constant_lifetime import Releases, module_constants
from ..transform.infra.constant_provenance import peek
from ..transform.infra.passes import Pass, PassContext, Pipeline
from ..transform.relax.pipeline import DEFAULT_PIPELINE
from ..transform.tir.buffers.instrument_bounds import instrument_bounds
from ..transform.tir.check_bounds import check_bounds
from ..transform.tir.expressions.bind_shared import bind_shared
from .compiler.module import compile_module
from .confined import check_confined
from .data_types import check_data_types
from .executable.bytecode import Program
from .executable.executable import RECOMPILE, Executable
from .executable.verifier import verify_program
from .kernel_cache import CompiledKernels, compile_kernels, is_own
from .native.run import add_driver
from .program_cache import remembered_build
from .virtual_machine import EXEC_MODES

TRIM_BYTES = 16 << 20
"""Builds with constants of this size together give back what they freed."""
Passes = Callable[[IRModule], IRModule] | Sequence[Pass] | str
"""Graph passes as they are given: a pipeline or another function, passes in order, the text of a pipeline."""
INLINE_BYTES = 256
"""Constants up to this size stand in the module text; larger ones beside it."""


def compile(
    mod: IRModule | Function | PrimFunc,
    target: str | Target | None = None,
    *,
    exec_mode: str = "native",
    pipeline: Passes | None = None,
    tir_pipeline: Pipeline | None = None,
    discard_parameters: bool | Callable[[Tensor], None] = False,
) -> Executable:
    """Compile a module (or one function, which becomes ``main``) for a target.

    ``exec_mode="native"`` also compiles the driver, so that loading a saved file compiles nothing; an executable of either mode
    runs in both. ``pipeline`` replaces the graph passes (a pipeline, a function, a list of passes, or a pipeline's text),
    ``tir_pipeline`` the lowering of tensor programs. With ``discard_parameters`` the constants of the module that the program
    reads in another form (folded, packed) let go of their memory as soon as that form is made, even if the build fails later; a
    function is called with each before. The saved program then holds no module text. Raises VerifyError, PassError,
    CodegenError, VMError E62x.
    """
    if exec_mode not in EXEC_MODES:
        raise VMError("E631", f"unknown exec_mode {exec_mode!r}", help=f"known: {', '.join(EXEC_MODES)}")
    source = bind_shared(as_module(mod))  # before anything visits every place
    chosen = make_target(target)
    backend = backend_of(chosen)
    passes = _passes(pipeline, backend.graph_pipeline or DEFAULT_PIPELINE)
    lowering = tir_pipeline or backend.lowering(bool_option("UNITY_BOUNDS"))
    with Progress("compiling") as progress, chosen, young_collection():
        remembered, made = None, None
        options = {"target": str(chosen), "exec_mode": exec_mode}
        if discard_parameters is False:
            with no_collection():
                remembered = remembered_build(source, passes, lowering, chosen, exec_mode)
                made = None if remembered is None else remembered.load(chosen, options)
        if made is None:
            if int_option("UNITY_VERIFY") >= 1:
                verify(source)
            check_data_types(source)
            traced = source if remembered is None else remembered.traced()
            if instrument_bounds not in lowering:
                traced = check_bounds(traced)
            releases = _releases(source, discard_parameters)
            made = _made(traced, passes, lowering, chosen, options, progress, releases)
            if remembered is not None:
                remembered.keep(made)
    made.describe = lambda: module_text(source)
    _trim(made.program.constants)  # what lowering needed
    return made


def _passes(given: Passes | None, default: Pipeline) -> Callable[[IRModule], IRModule]:
    """The graph passes that were asked for."""
    if isinstance(given, str):
        return Pipeline.parse(given)
    if given is None or callable(given):
        return given or default
    return Pipeline(given)


def _trim(constants: list[Tensor]) -> None:
    """Give back what was freed on the way to large constants."""
    if sum([peek(constant).nbytes for constant in constants]) >= TRIM_BYTES:
        trim_heap()


def _made(
    mod: IRModule, passes: Callable[[IRModule], IRModule], tir_passes: Pipeline, target: Target, options: dict[str, Any],
    progress: Progress, releases: Releases,
) -> Executable:  # fmt: skip
    """The executable of a module."""
    graph = _graph_passes(mod, passes, progress, releases)
    _trim(module_constants(graph))  # weights folded or cut on the way to the packed ones
    kernels = CompiledKernels()
    places = by_target(graph, target)
    for place, functions in places.items():
        lowering = tir_passes if place == target else backend_of(place).lowering(bool_option("UNITY_BOUNDS"))
        compile_kernels(functions, lowering, place, progress, kernels)
    program = compile_module(graph, kernels.signatures, kernels.symbols)
    objects = {section: join_objects(data) for section, data in kernels.sections.items()}
    made = Executable(program, objects, target.triple, needed_features([target, *places]), options=options)
    made.count = lambda: kernel_costs(graph, program)
    releases.sweep(program.constants)
    if int_option("UNITY_VERIFY") >= 1:
        _verified(program)
    if options["exec_mode"] == "native":
        add_driver(made, target.processor)
    return made


build = compile


def needed_features(targets: Iterable[Target]) -> str:
    """The features that the code of targets needs of a processor."""
    return ",".join(sorted({part for target in targets for part in target.required_features.split(",") if part}))


def _verified(program: Program) -> None:
    """Raise InternalError E906 where the verifier refuses what was compiled: no file of it could be loaded."""
    try:
        verify_program(program)
    except Misfit as error:
        raise InternalError("E906", f"the bytecode breaks its own rules: {error}") from error


def _releases(source: IRModule, discard_parameters: bool | Callable[[Tensor], None]) -> Releases:
    """The constants that the build may give up: those it makes, and those of its module where it is told so."""
    if discard_parameters is False:
        return Releases()
    return Releases(module_constants(source), None if discard_parameters is True else discard_parameters)


def _graph_passes(
    mod: IRModule, passes: Callable[[IRModule], IRModule], progress: Progress, releases: Releases
) -> IRModule:
    """The module after the graph passes."""
    if not isinstance(passes, Pipeline):
        progress.at("graph passes", 0, 1)
        return passes(mod)
    context = PassContext.current()
    watched = context.is_special or not is_own(passes)  # somebody may look at modules that were rewritten
    for done, step in enumerate(passes):
        progress.at(step.name, done, len(passes.passes))
        if watched:
            mod = context.run(step, mod)
            continue
        with releases.watching(mod):
            mod = context.run(step, mod)
    return mod


def as_module(mod: object) -> IRModule:
    """The module behind what ``compile`` takes. Raises VMError E625 for anything else."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, (Function, PrimFunc)):
        name = str(mod.attrs.get("global_symbol", "main"))
        attrs = {"global_symbol": name, **mod.attrs}
        if isinstance(mod, Function):
            return module({name: Function(mod.params, mod.body, mod.ret_ty, mod.pure, attrs, mod.span)})
        return module({name: PrimFunc(mod.params, mod.buffer_map, mod.body, mod.ret_ty, attrs, mod.span)})
    raise VMError("E625", f"unity.compile takes an IRModule or a function of one, or a torch.nn.Module, got a {type(mod).__name__}",
                  help='a torch model: unity.compile(model, example_inputs=(x,)); a Python function of torch tensors: '
                  'torch.compile(f, backend="unity")')  # fmt: skip


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


def module_text(mod: IRModule) -> tuple[str, list[Tensor]]:
    """The module as script, and the larger constants, which it calls ``const_0``, ``const_1``, ...; nothing where some are gone."""
    if any([is_discarded(c.data) for c in collect(mod, Constant)]):
        return "", []
    found: list[Tensor] = []
    names: dict[int, Var] = {}

    def name(node: Constant) -> Any:
        if node.data.numpy().nbytes <= INLINE_BYTES:
            return node
        var = names.get(id(node.data))
        if var is None:
            var = names[id(node.data)] = Var(f"const_{len(found)}", node.ty)
            found.append(node.data)
        return var

    with deep_recursion():
        return rewrite(mod, {Constant: name}).script(), found


def _recompile(text: str, constants: list[Tensor], options: dict[str, Any], trust: bool) -> Executable:
    """An executable from what ``module_text`` gave. Raises ArtifactError E808 where the text may not do what it does."""
    read = parse(text, scope={f"const_{index}": data for index, data in enumerate(constants)})
    if not trust:
        check_confined(as_module(read))
    return compile(read, options.get("target"), exec_mode=str(options.get("exec_mode", "native")))


RECOMPILE.append(_recompile)
