"""``unity.compile(..., precision=...)``: which passes reduce the precision of a module, before it is built.

``bf16``: products and convolutions of bfloat16 operands with float32 sums; everything else stays in float32. ``int8``, ``int4``:
weights alone are stored in fewer bits; ``int8`` with calibration inputs: products of integers. Invariant: the module that is
built holds the reduced operators, so that a saved file and a build from its text compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.module import IRModule
from ..support.errors import FrontendError
from ..transform.base import Pipeline
from ..transform.relax.canonicalize import canonicalize
from ..transform.relax.dead_code import dead_code
from ..transform.relax.fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d
from ..transform.relax.fold_constant import fold_constant
from ..transform.relax.normalize import normalize
from ..transform.relax.quantize_products import observed, quantize_products, ranges_of
from ..transform.relax.quantize_weights import quantize_weights
from ..transform.relax.to_mixed_precision import to_mixed_precision
from ..vm import build
from .accuracy import as_inputs

PREPARE = (normalize, fold_batch_norm_to_conv2d, canonicalize, fold_constant)
"""What comes before: weights as constants, in float32."""
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
    calibration: tuple[Any, ...] | None = None
    """Inputs of calls, for the static quantisation of products."""

    def apply(self, mod: IRModule, run: Callable[[IRModule, Any], Any]) -> IRModule:
        """The module with its operators reduced; ``run(module, inputs)`` calls ``main`` of a module."""
        if self.calibration is None:
            return self.passes(mod)
        return quantize(mod, self.calibration, run)


def quantize(mod: IRModule, calibration: Sequence[Any], run: Callable[[IRModule, Any], Any] | None = None) -> IRModule:
    """The module with its products in 8-bit integers (``transform/relax/quantize_products.py``).

    ``calibration``: inputs of ``main``, a tuple for each call. The ranges of the data are those seen on them.
    Raises PassError E987 for inputs that give no ranges.
    """
    for step in PREPARE:
        mod = step(mod)
    call = run if run is not None else lambda module, inputs: build.compile(module)["main"](*as_inputs(inputs))
    if not calibration:
        ranges_of([])
    return dead_code(quantize_products(mod, ranges_of(_all(call, observed(mod), calibration))))


def _all(call: Callable[[IRModule, Any], Any], mod: IRModule, calibration: Sequence[Any]) -> list[Any]:
    return [call(mod, inputs) for inputs in calibration]


def reduction_of(precision: str | None, calibration: Any = None) -> Reduction | None:
    """What a ``precision=`` stands for; None for float32. Raises FrontendError E980 for another name, E987 for calibration inputs
    with a precision that takes none."""
    name = ALIASES.get(precision, precision) if isinstance(precision, str) else precision
    if calibration is not None and name != "int8":
        raise FrontendError("E987", f'calibration= is for precision="int8", not for {precision!r}')
    if name is None or name == "float32":
        return None
    passes = PRECISIONS.get(name) if isinstance(name, str) else None
    if passes is None:
        raise FrontendError("E980", f"unknown precision {precision!r}",
                            help=f"known: float32, {', '.join(PRECISIONS)}")  # fmt: skip
    return Reduction(name, passes, None if calibration is None else tuple(calibration))


__all__ = ["PRECISIONS", "Reduction", "quantize", "reduction_of"]
