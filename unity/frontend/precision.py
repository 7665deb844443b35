"""``unity.compile(..., precision=...)``: which passes reduce the precision of a module, before it is built.

``bf16``: products and convolutions of bfloat16 operands with float32 sums; everything else stays in float32. ``int8``, ``int4``:
weights alone are stored in fewer bits. Invariant: the module that is built holds the reduced operators, so that a saved file and a
build from its text compute the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.module import IRModule
from ..support.errors import FrontendError
from ..transform.base import Pipeline
from ..transform.relax.canonicalize import canonicalize
from ..transform.relax.dead_code import dead_code
from ..transform.relax.fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d
from ..transform.relax.fold_constant import fold_constant
from ..transform.relax.normalize import normalize
from ..transform.relax.to_mixed_precision import to_mixed_precision

PREPARE = (normalize, fold_batch_norm_to_conv2d, canonicalize, fold_constant)
"""What comes before: weights as constants, in float32."""
BF16 = to_mixed_precision.with_options(dtype="bfloat16", wide_results=True)
PRECISIONS: dict[str, Pipeline] = {
    "bf16": Pipeline((*PREPARE, BF16, fold_constant, dead_code)),
}
"""Passes by the name of the precision."""
ALIASES = {"bfloat16": "bf16", "fp32": "float32", "f32": "float32"}


@dataclass(slots=True, frozen=True)
class Reduction:
    """A precision asked for: its name and passes."""

    name: str
    passes: Pipeline

    def apply(self, mod: IRModule) -> IRModule:
        """The module with its operators reduced."""
        return self.passes(mod)


def reduction_of(precision: str | None) -> Reduction | None:
    """What a ``precision=`` stands for; None for float32. Raises FrontendError E980 for another name."""
    name = ALIASES.get(precision, precision) if isinstance(precision, str) else precision
    if name is None or name == "float32":
        return None
    passes = PRECISIONS.get(name) if isinstance(name, str) else None
    if passes is None:
        raise FrontendError("E980", f"unknown precision {precision!r}",
                            help=f"known: float32, {', '.join(PRECISIONS)}")  # fmt: skip
    return Reduction(name, passes)


__all__ = ["PRECISIONS", "Reduction", "reduction_of"]
