"""``unity.compile``: modules become executables, torch models callables. What torch models need is loaded for the first one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule
from ..support.late import late_function
from ..target.target import Target
from ..transform.base import Pipeline
from ..vm import build

compile_model = late_function("unity.frontend.compiled_model", "compile_model")


def compile(
    mod: IRModule | Function | PrimFunc | Any,
    target: str | Target | None = None,
    *,
    example_inputs: tuple[Any, ...] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    exec_mode: str = "native",
    pipeline: Pipeline | Callable[[IRModule], IRModule] | str | None = None,
    tir_pipeline: Pipeline | None = None,
) -> Any:
    """Compile a module (or one function, which becomes ``main``) to an Executable, or a torch model to a ``CompiledModel``.

    A torch model is exported on ``example_inputs`` (and ``example_kwargs``, ``dynamic_shapes`` as in ``torch.export``); an
    ``ExportedProgram`` needs none. ``exec_mode="native"`` also compiles the driver; ``pipeline`` replaces the graph passes,
    ``tir_pipeline`` the lowering of tensor programs. Raises VerifyError, PassError, CodegenError, VMError E62x,
    FrontendError E010 to E016, E961, E962.
    """
    if isinstance(mod, (IRModule, Function, PrimFunc)) or not _is_torch(mod):
        return build.compile(mod, target, exec_mode=exec_mode, pipeline=pipeline, tir_pipeline=tir_pipeline)
    return compile_model(
        mod, target, example_inputs, example_kwargs, dynamic_shapes, strict, exec_mode, pipeline, tir_pipeline
    )


def _is_torch(value: object) -> bool:
    """True for torch modules and exported programs; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, (torch.nn.Module, torch.export.ExportedProgram))


__all__ = ["compile"]
