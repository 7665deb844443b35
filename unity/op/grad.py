"""Marks for the gradient pass: the identity.

``no_grad`` stops the gradient; between ``start_checkpoint`` and ``end_checkpoint`` values are computed again in the backward pass
instead of being kept.
"""

from __future__ import annotations

from .. import te
from .common.gradients import Rule, identity_grad, not_differentiable
from .common.table import Operator, rows
from .common.type_rules import tensor_arg

row = rows("grad")


def _mark(name: str, doc: str, grad: Rule = identity_grad) -> Operator:
    return row(
        f"grad.{name}",
        ("input",),
        lambda call: tensor_arg(call, 0, "input"),
        doc,
        lower=lambda call, x: te.compute(x.shape, lambda *i: x[i], name),
        ref=lambda x: x.copy(),
        grad=grad,
        samples="f32[2,3]",
    )


no_grad = _mark("no_grad", "Returns input and lets no gradient flow through it.", not_differentiable)
start_checkpoint = _mark(
    "start_checkpoint", "Returns input and begins a segment that the backward pass computes again."
)
end_checkpoint = _mark("end_checkpoint", "Returns input and ends a segment that the backward pass computes again.")
