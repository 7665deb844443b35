"""``unity.compile(..., precision=...)``: which passes reduce the precision of a module, before it is built.

``bf16``: products and convolutions of bfloat16 operands with float32 sums; everything else stays in float32. ``int8``, ``int4``:
weights alone are stored in fewer bits; ``int8`` with calibration inputs: products of integers. Invariant: the module that is
built holds the reduced operators, so that a saved file and a build from its text compute the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.module import IRModule
from ...support.errors import FrontendError
from ...support.options import bool_option
from ...transform.infra.passes import Pipeline
from ...transform.relax.algebra.canonicalize import canonicalize
from ...transform.relax.algebra.fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d
from ...transform.relax.algebra.fold_constant import fold_constant
from ...transform.relax.normalize.dead_code import dead_code
from ...transform.relax.normalize.normalize import normalize
from ...transform.relax.precision.quantize_products import quantize_products
from ...transform.relax.precision.quantize_weights import quantize_weights
from ...transform.relax.precision.to_mixed_precision import to_mixed_precision
from ...vm.build import build
from ...vm.executable.executable import Executable
from .accuracy import as_inputs
from .calibration import Calibration, Quantization, Run, calibrate as decide

PREPARE = (normalize, fold_batch_norm_to_conv2d, canonicalize, fold_constant)
"""The passes that come before: weights as constants, in float32."""
BF16 = to_mixed_precision.with_options(dtype="bfloat16", wide_results=True)
PRECISIONS: dict[str, Pipeline] = {
    "bf16": Pipeline((*PREPARE, BF16, fold_constant, dead_code)),
    "int8": Pipeline((*PREPARE, quantize_weights, dead_code)),
    "int4": Pipeline((*PREPARE, quantize_weights.with_options(bits=4), dead_code)),
}
"""Passes by the name of the precision."""
ALIASES = {"bfloat16": "bf16", "fp32": "float32", "f32": "float32"}


@dataclass(slots=True, frozen=True)
class Reduction:
    """A precision asked for: its name and passes."""

    name: str
    passes: Pipeline
    calibration: Calibration | None = None
    """For the static quantisation of products."""

    def apply(self, mod: IRModule, run: Run) -> tuple[IRModule, Quantization | None]:
        """The module with its operators reduced, and what calibration decided."""
        if self.calibration is None:
            return self.passes(mod), None
        decided = calibrate(mod, self.calibration, run)
        if bool_option("UNITY_EXPLAIN"):
            print(decided, file=sys.stderr)
        return quantize(mod, decided), decided


def calibrate(mod: IRModule, calibration: Calibration | Sequence[Any], run: Run | None = None) -> Quantization:
    """Choose the layers of a module to quantise, with the ranges of their data and their cost in accuracy; prints as a table.

    ``mod``: the module. ``calibration``: a ``Calibration``, or inputs of ``main``, one tuple for each call. ``run``: a function
    that executes a module on such inputs; None: compiled. Raises PassError E987 for inputs that give no ranges.
    """
    return decide(_prepared(mod), _calibration(calibration), runs_of(build) if run is None else run)


def runs_of(build: Callable[[IRModule], Executable]) -> Run:
    """A function that runs ``main`` of modules, each built once."""
    machines: dict[IRModule, Executable] = {}

    def run(module: IRModule, inputs: Any, *more: Any) -> Any:
        if module not in machines:
            machines[module] = build(module)
        return machines[module]["main"](*as_inputs(inputs), *more)

    return run


def quantize(mod: IRModule, calibration: Calibration | Quantization | Sequence[Any]) -> IRModule:
    """Return the module ``mod`` with its products in 8-bit integers.

    ``calibration``: a ``Calibration``, inputs of ``main`` (one tuple for each call), or the result of ``calibrate``. Ranges of data
    are those seen on the inputs. Raises PassError E987 for inputs that give no ranges. Source:
    ``transform/relax/precision/quantize_products.py``.
    """
    decided = calibration if isinstance(calibration, Quantization) else calibrate(mod, calibration)
    compiled = quantize_products(_prepared(mod), decided.ranges)
    return dead_code(fold_constant(BF16(compiled)) if decided.rest == "bf16" else compiled)


def _prepared(mod: IRModule) -> IRModule:
    for step in (*PREPARE, dead_code):
        mod = step(mod)
    return mod


def _calibration(given: Calibration | Sequence[Any]) -> Calibration:
    if not isinstance(given, (Calibration, Iterable)):
        raise FrontendError("E987", f"calibration={given!r} is not a list of inputs", help="calibration=[(x1,), (x2,)]")
    return given if isinstance(given, Calibration) else Calibration(tuple(given))


def reduction_of(precision: str | None, calibration: Any = None) -> Reduction | None:
    """The reduction that a ``precision=`` stands for; None for float32. Raises FrontendError E980 for another name, E987 for
    calibration inputs with a precision that takes none."""
    name = ALIASES.get(precision, precision) if isinstance(precision, str) else precision
    if calibration is not None and name != "int8":
        raise FrontendError("E987", f'calibration= is for precision="int8", not for {precision!r}')
    if name is None or name == "float32":
        return None
    passes = PRECISIONS.get(name) if isinstance(name, str) else None
    if passes is None:
        raise FrontendError("E980", f"unknown precision {precision!r}",
                            help=f"known: float32, {', '.join(PRECISIONS)}")  # fmt: skip
    return Reduction(name, passes, None if calibration is None else _calibration(calibration))


__all__ = ["PRECISIONS", "Calibration", "Quantization", "Reduction", "calibrate", "quantize", "reduction_of"]
