"""``unity.compile``: modules become executables, torch models callables. What torch models need is loaded for the first one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
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
    """Options of building a module: arguments of ``unity.compile``."""

    target: str | Target | None = None
    exec_mode: str = "native"
    pipeline: Passes | None = None
    tir_pipeline: Pipeline | None = None
    choose: str = "analytic"
    discard_parameters: bool = False
    tune: Any = None
    examples: Any = ()
    """Leading arguments of ``main``: the sizes that schedules are searched for."""


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
    tune: Any = None,
) -> Any:
    """Compile a module or one function to an ``Executable``, or a torch model to a ``CompiledModel``.

    ``mod``: an ``IRModule``, a function (it becomes ``main``), a ``torch.nn.Module``, or a ``torch.export.ExportedProgram``.
    ``target``: a ``Target`` or its text; None: the current one. ``example_inputs``, ``example_kwargs``, ``dynamic_shapes``:
    arguments of ``torch.export``. ``strict``: raise FrontendError E010 for a torch operator that cannot be translated, instead of
    running it in torch. ``exec_mode``: "native" also compiles the driver, "bytecode" does not. ``pipeline`` and ``tir_pipeline``
    replace the graph passes and the lowering of tensor programs.

    ``precision``: "bf16", "int8" or "int4"; None: float32. With "int8" and ``calibration`` (a list of inputs, one tuple for each
    call) products are computed in integers; without it only weights have fewer bits. The result's ``accuracy`` compares it with
    float32 on ``example_inputs``; ``UNITY_EXPLAIN=1`` prints it.

    ``choose``: "analytic" keeps our kernel of each product and convolution; "measured" tries registered library kernels, other
    layouts of convolutions and results that are stored instead of used on in the same kernel, in the whole program with
    ``example_inputs`` on this machine, and keeps what is fastest; "measured+winograd" also tries Winograd's algorithm for 3x3
    convolutions, which rounds differently. ``unity.explain_choices`` shows the table.

    ``tune``: a number of trials: schedules of the tensor programs are searched for by measurement on this machine, and kept where
    they are faster than the default ones; later builds with ``tune`` find them again. Or a database of ``unity.meta_schedule``.
    Programs of symbolic sizes are timed at those of ``example_inputs`` and stay programs for all sizes.

    ``discard_parameters``: free each weight that the program keeps in another form (folded, packed) as soon as that form is made.
    This halves the memory of a torch model, which cannot run afterwards (FrontendError E018), even if compiling fails later. The
    constants of a module are freed likewise. The saved file then holds no module text.

    Raises VerifyError, PassError (E987 for calibration), CodegenError, VMError E62x, and FrontendError: E010 to E016 for models,
    E693, E961, E962, E980, E981 and E989 for arguments.
    """
    reduction = (
        None if precision is None and calibration is None else load("options").reduction_of(precision, calibration)
    )
    how = BuildOptions(target, exec_mode, pipeline, tir_pipeline, choose, discard_parameters, tune)
    if isinstance(mod, (IRModule, Function, PrimFunc)) or not _is_torch(mod):
        meant = {"strict": strict or None, "example_kwargs": example_kwargs, "dynamic_shapes": dynamic_shapes}
        if given := [f"{name}=" for name, value in meant.items() if value is not None]:
            raise FrontendError(
                "E693", f"{', '.join(given)}: for torch models alone, got the type {type(mod).__name__}",
                help="the sizes of a module stand in its signature",
            )  # fmt: skip
        if reduction is not None:
            return load("options").compile_reduced(mod, how, reduction, example_inputs)
        how = replace(how, examples=() if example_inputs is None else example_inputs)
        return compile_chosen(mod, how, how.discard_parameters)
    return load("torch").compile_model(mod, how, reduction, example_inputs, example_kwargs, dynamic_shapes, strict)


def compile_chosen(
    mod: IRModule | Function | PrimFunc, how: BuildOptions, discard: bool | Callable[[Tensor], None] = False
) -> Executable:
    """A module built with the kernels chosen as asked; ``discard`` as ``vm.build`` has it. Raises FrontendError E981."""
    choices: Any
    given, passes, graph = as_module(mod), how.pipeline, None
    if how.choose == "analytic":
        source = given
        choices = Choices(lambda: load("options").analytic_choices(given))
    else:
        source, point, choices = load("options").choose_measured(given, how)
        passes, graph = point.passes or passes, None if point.is_default else point.graph_passes
    with nullcontext() if how.tune is None else load("options").schedule_database(source, how, graph):
        made = build(
            source, how.target, exec_mode=how.exec_mode, pipeline=passes, tir_pipeline=how.tir_pipeline,
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
