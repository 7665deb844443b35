"""``unity.compile``: modules become executables, torch models callables. What torch models need is loaded for the first one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..ffi.targets.target import Target
from ..ffi.tensor import Tensor
from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule
from ..support.errors import FrontendError
from ..support.lazy import load
from ..support.options import bool_option
from ..transform.infra.passes import Pipeline
from ..vm.build import build
from ..vm.choices import Choices
from ..vm.executable.executable import Executable
from ..vm.stages import Passes, as_module


@dataclass(slots=True, frozen=True)
class BuildOptions:
    """How a module is built once it is one: arguments of ``unity.compile``."""

    target: str | Target | None = None
    exec_mode: str = "native"
    pipeline: Passes | None = None
    tir_pipeline: Pipeline | None = None
    choose: str = "analytic"
    discard_parameters: bool = False


def compile(
    mod: IRModule | Function | PrimFunc | Any,
    target: str | Target | None = None,
    *,
    example_inputs: tuple[Any, ...] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    exec_mode: str = "native",
    pipeline: Passes | None = None,
    tir_pipeline: Pipeline | None = None,
    precision: str | None = None,
    choose: str = "analytic",
    calibration: Any = None,
    discard_parameters: bool = False,
) -> Any:
    """Compile ``mod``, a module (or one function, which becomes ``main``), to an Executable for ``target``, or a torch model to a
    ``CompiledModel``.

    A torch model is exported on ``example_inputs`` (and ``example_kwargs``, ``dynamic_shapes``, ``strict`` as in ``torch.export``);
    an ``ExportedProgram`` needs none. ``exec_mode="native"`` also compiles the driver; ``pipeline`` replaces the graph passes,
    ``tir_pipeline`` the lowering of tensor programs.

    ``precision`` ("bf16", "int8", "int4"; float32 by default) computes or stores in fewer bits; the ``accuracy`` of the result
    then compares it with float32 on the example inputs (for a module: where they are given; ``UNITY_EXPLAIN=1`` prints it).
    "int8" with ``calibration`` (a list of inputs, a tuple for each call) multiplies integers, else weights alone are 8 bits.
    ``choose="measured"`` times our kernels and registered library kernels for each product and convolution on this machine and
    keeps the fastest; ``unity.explain_choices`` shows the table (by default it is estimated from a cost model).
    ``"measured+winograd"`` also tries Winograd's algorithm for 3x3 convolutions, which rounds differently (docs/choose.md).

    ``discard_parameters=True`` halves the memory of a torch model: weights that the program keeps in another form (folded, packed)
    are given up by the model as soon as that form is made. The model cannot run afterwards (FrontendError E018), even if
    compiling fails later; the constants of a module are emptied likewise. The saved program holds no module text then.

    Raises VerifyError, PassError, CodegenError, VMError E62x, FrontendError E010 to E016, E693, E961, E962, E980, E981,
    PassError E987.
    """
    reduction = (
        None if precision is None and calibration is None else load("options").reduction_of(precision, calibration)
    )
    how = BuildOptions(target, exec_mode, pipeline, tir_pipeline, choose, discard_parameters)
    if isinstance(mod, (IRModule, Function, PrimFunc)) or not _is_torch(mod):
        meant = {"strict": strict or None, "example_kwargs": example_kwargs, "dynamic_shapes": dynamic_shapes}
        if given := [f"{name}=" for name, value in meant.items() if value is not None]:
            raise FrontendError(
                "E693", f"{', '.join(given)}: for torch models alone, got the type {type(mod).__name__}",
                help="the sizes of a module stand in its signature",
            )  # fmt: skip
        if reduction is not None:
            return load("options").compile_reduced(mod, how, reduction, example_inputs)
        return compile_chosen(mod, how, how.discard_parameters)
    return load("torch").compile_model(mod, how, reduction, example_inputs, example_kwargs, dynamic_shapes, strict)


def compile_chosen(
    mod: IRModule | Function | PrimFunc, how: BuildOptions, discard: bool | Callable[[Tensor], None] = False
) -> Executable:
    """A module built with the kernels chosen as asked; ``discard`` as ``vm.build`` has it. Raises FrontendError E981."""
    choices: Any
    given = as_module(mod)
    if how.choose == "analytic":
        source = given
        choices = Choices(lambda: load("options").analytic_choices(given))
    else:
        source, choices = load("options").choose_measured(given, how.target, how.choose)
    made = build(
        source, how.target, exec_mode=how.exec_mode, pipeline=how.pipeline, tir_pipeline=how.tir_pipeline,
        discard_parameters=discard,
    )  # fmt: skip
    made.choices = choices
    if how.choose != "analytic" and bool_option("UNITY_EXPLAIN"):
        print(choices, file=sys.stderr)
    return made


def _is_torch(value: object) -> bool:
    """True for torch modules and exported programs; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, (torch.nn.Module, torch.export.ExportedProgram))


__all__ = ["BuildOptions", "compile", "compile_chosen"]
