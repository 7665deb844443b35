"""``unity.build``: a module through the stages to an executable, or the executable that an earlier build of it left.

The text of ``build`` is the line; the stages stand in ``stages.py``. Not here: which kernels compute what, torch
models (``unity.compile``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from ..ffi.discard import is_discarded
from ..ffi.native.native_helpers import trim_heap
from ..ffi.targets.target import Target
from ..ffi.tensor import Tensor
from ..ir.expr import Constant, Var
from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule
from ..ir.walk import collect, rewrite, walked_statement
from ..script import parse
from ..support.gc_pause import young_collection
from ..support.options import check_options
from ..support.progress import Progress
from ..support.recursion import deep_recursion
from ..target import shipped as _shipped  # noqa: F401 - the targets and tensor intrinsics of this package
from ..transform.infra.constant_lifetime import Releases, module_constants
from ..transform.infra.constant_provenance import peek
from ..transform.infra.context import USE_CUDA_GRAPH, PassContext
from ..transform.infra.passes import Pipeline
from .confined import check_confined
from .executable.executable import Executable
from .program_cache import cached_build
from .stages import BuildConfig, Passes, as_module, checked, configure, graph, kernels, link, plan, schedule, verified

TRIM_BYTES = 16 << 20
"""Builds with constants of this size together give back what they freed."""
INLINE_BYTES = 256
"""Constants up to this size stand in the module text; larger ones beside it."""


def build(
    mod: IRModule | Function | PrimFunc,
    target: str | Target | None = None,
    *,
    exec_mode: str = "native",
    pipeline: Passes | None = None,
    tir_pipeline: Pipeline | None = None,
    discard_parameters: bool | Callable[[Tensor], None] = False,
) -> Executable:
    """Build a module or one function, which becomes ``main``, for a target.

    ``mod``, ``target``, ``pipeline``, ``tir_pipeline``: as in ``unity.compile``; ``pipeline`` may also be a function, a list of
    passes, or a pipeline's text. ``exec_mode``: "native" also compiles the driver, so that loading a saved file compiles nothing;
    an executable of either mode runs in both. ``discard_parameters``: as in ``unity.compile``; a function is called with each
    constant before it is freed. Raises VerifyError, PassError, CodegenError, VMError E62x, OptionError E001.
    """
    check_options()
    config = configure(target, exec_mode=exec_mode, pipeline=pipeline, tir_pipeline=tir_pipeline)
    with Progress("compiling"), config.target, young_collection():
        source = verified(mod, config)
        if discard_parameters is not False:
            discard = None if discard_parameters is True else discard_parameters
            executable = build_anew(source, config, Releases(module_constants(source), discard))
        else:
            build_cache = cached_build(source, config)
            found = None if build_cache is None else build_cache.load(config)
            executable = found or build_anew(
                source if build_cache is None else build_cache.tracked(), config, Releases()
            )
            if build_cache is not None and found is None:
                build_cache.keep(executable)
    executable.describe = partial(module_text, source)
    walked_statement.cache_clear()
    _trim(executable.program.constants)  # what lowering needed
    return executable


def build_anew(mod: IRModule, config: BuildConfig, releases: Releases) -> Executable:
    """The stages of a verified module in order."""
    with releases:
        planned = plan(schedule(graph(checked(mod, config), config), config), config)
        _trim(module_constants(planned))  # weights folded or cut on the way to the packed ones
        executable = link(planned, kernels(planned, config), config)
    releases.sweep(executable.program.constants)
    return executable


def _trim(constants: list[Tensor]) -> None:
    """Give back what was freed on the way to large constants."""
    if sum([peek(constant).nbytes for constant in constants]) >= TRIM_BYTES:
        trim_heap()


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


def rebuild(text: str, constants: list[Tensor], options: dict[str, Any], trust: bool) -> Executable:
    """An executable from what ``module_text`` gave. Raises ArtifactError E808 where the text may not do what it does."""
    read = parse(text, scope={f"const_{index}": data for index, data in enumerate(constants)})
    if not trust:
        check_confined(as_module(read))
    with PassContext(config={USE_CUDA_GRAPH: True}) if "cuda_graph" in options else nullcontext():
        return build(read, options.get("target"), exec_mode=str(options.get("exec_mode", "native")))
