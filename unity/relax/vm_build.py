"""``unity.relax.build``: TVM's arguments of a build, handed to ``unity.compile``. Nothing is compiled here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..frontend.entry import compile
from ..transform.relax.params.bind_params import bind_params
from .transform import get_pipeline

_MODES = {"compiled": "native"}


def build(
    mod: Any,
    target: Any = None,
    params: Mapping[Any, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "native",
    **options: Any,
) -> Any:
    """As ``unity.compile``. ``params`` become constants of the function ``main``; ``relax_pipeline`` is a pipeline of graph passes
    or its name, ``tir_pipeline`` one of tensor programs or "default"; TVM's mode "compiled" is our "native".

    Raises what ``unity.compile`` and ``get_pipeline`` raise.
    """
    bound = bind_params.with_options(func_name="main", params=params)(mod) if params else mod
    if relax_pipeline not in (None, "default"):
        options["pipeline"] = get_pipeline(relax_pipeline) if isinstance(relax_pipeline, str) else relax_pipeline
    if tir_pipeline not in (None, "default"):
        options["tir_pipeline"] = tir_pipeline
    return compile(bound, target, exec_mode=_MODES.get(exec_mode, exec_mode), **options)
