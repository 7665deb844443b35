"""A build with the kernels chosen as asked: what every importer ends in. Not here: how they are chosen (``choose.py``)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...ffi.target import Target
from ...ffi.tensor import Tensor
from ...ir.function import Function, PrimFunc
from ...ir.module import IRModule
from ...support.options import bool_option
from ...transform.infra.passes import Pipeline
from ...vm.build import build
from ...vm.choices import Choices
from ...vm.executable.executable import Executable
from ...vm.stages import Passes, as_module
from .choose import analytic_choices, choose_measured, require_choose


@dataclass(slots=True, frozen=True)
class BuildOptions:
    """How a module is built once it is one: arguments of ``unity.compile``."""

    target: str | Target | None = None
    exec_mode: str = "native"
    pipeline: Passes | None = None
    tir_pipeline: Pipeline | None = None
    choose: str = "analytic"
    discard_parameters: bool = False


def compile_chosen(
    mod: IRModule | Function | PrimFunc, how: BuildOptions, discard: bool | Callable[[Tensor], None] = False
) -> Executable:
    """A module built with the kernels chosen as asked; ``discard`` as ``vm.build`` has it. Raises FrontendError E981."""
    choices: Any
    source = as_module(mod)
    if how.choose == "analytic":
        choices = Choices(partial(analytic_choices, source))
    else:
        require_choose(how.choose)
        source, choices = choose_measured(source, how.target, how.choose == "measured+winograd")
    made = build(
        source, how.target, exec_mode=how.exec_mode, pipeline=how.pipeline, tir_pipeline=how.tir_pipeline,
        discard_parameters=discard,
    )  # fmt: skip
    made.choices = choices
    if how.choose != "analytic" and bool_option("UNITY_EXPLAIN"):
        print(choices, file=sys.stderr)
    return made


__all__ = ["BuildOptions", "compile_chosen"]
