"""Batch normalisation after a convolution goes into the convolution's weight.

Rewrite: ``batch_norm(conv2d(x, w), gamma, beta, mean, var)[0]`` -> ``conv2d(x, w * s) + (beta - mean * s)`` with
``s = gamma / sqrt(var + epsilon)`` per output channel; a bias added between them is taken along. The new weight is computed
by operators that ``fold_constant`` evaluates, so by default only constant weights and statistics are touched.

Floats of 16 bits and fewer would round the weight: there ``batch_norm(x, gamma, beta, mean, var)[0]`` -> ``x * s + (beta - mean *
s)``, in float32 and rounded once as before, so that no root and no quotient is left for each element.
"""

from __future__ import annotations

from ....ir.expr import Call, Tuple, Var
from ....ir.function import Function
from ....ir.relation import dims
from ....ir.types import Expr, TensorType
from ....op.common.lowering import SMALL_FLOATS
from ....op.common.table import R, constant
from ....op.common.type_rules import axis_attr, bool_attr, is_one
from ....op.elementwise import unary as elementwise
from ....op.elementwise.binary import add, divide, multiply, subtract
from ....op.manipulate import create, manipulate
from ....op.nn.conv import conv2d
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, each_binding, rewrite_calls


def _layout(call: Call, name: str, default: str) -> str:
    return str(call.attrs.get(name) or default)


def _per_channel(vector: Expr, rank: int, axis: int) -> Expr:
    return manipulate.expand_dims(vector, axis=[a for a in range(rank) if a != axis])


def _is_channel_bias(value: Expr, axis: int) -> bool:
    """True if a tensor has one number per channel and is broadcast along the other axes of an image."""
    known = dims(value.ty)
    if known is None or len(known) > 4 or len(known) < 4 - axis:
        return False
    offset = 4 - len(known)
    return all([is_one(d) for a, d in enumerate(known) if a + offset != axis])


class _Folder:
    def __init__(self, fn: Function, only_constants: bool) -> None:
        self.only_constants = only_constants
        self.known = Definitions(fn)

    def scaled(self, call: Call, at: Var) -> Expr | None:
        """The first result of a batch_norm of narrow floats as a product and a sum; None where it stays."""
        ty = call.args[0].ty
        if not isinstance(ty, TensorType) or ty.dtype is None or ty.dtype.name not in SMALL_FLOATS or ty.ndim < 0:
            return None
        parts = call.args[1:5]
        if bool_attr(call, "training", False) or not all([self.known.usable(p, at) for p in call.args]):
            return None
        if self.only_constants and not all([self.known.is_constant(p) for p in parts]):
            return None
        axis = axis_attr(call, ty.ndim, "axis", 1)
        gamma, beta, mean, var = [create.astype(p, dtype="float32") for p in parts]
        root = elementwise.sqrt(add(var, constant(float(call.attrs.get("epsilon", 1e-5)), "float32")))
        scale = divide(gamma if bool_attr(call, "scale", True) else constant(1.0, "float32"), root)
        moved = multiply(mean, scale)
        shift = subtract(beta, moved) if bool_attr(call, "center", True) else multiply(moved, constant(-1.0, "float32"))
        wide = create.astype(call.args[0], dtype="float32")
        made = add(multiply(wide, _per_channel(scale, ty.ndim, axis)), _per_channel(shift, ty.ndim, axis))
        return create.astype(made, dtype=ty.dtype.name)

    def fold(self, call: Call, at: Var) -> Expr | None:
        """The value that takes the place of the first result of a batch_norm bound to ``at``; None where it stands alone."""
        x = call.args[0]
        bias: Expr | None = None
        conv = self.known.only_use(x, R.nn.conv2d.name)
        if conv is None:
            shifted = self.known.only_use(x, R.add.name)
            if shifted is None:
                return None
            for value, other in ((shifted.args[0], shifted.args[1]), (shifted.args[1], shifted.args[0])):
                conv = self.known.only_use(value, R.nn.conv2d.name)
                bias = other
                if conv is not None:
                    break
        if conv is None or not isinstance(conv.ty, TensorType) or conv.ty.dtype is None or conv.ty.ndim != 4:
            return None
        if conv.ty.dtype.name in SMALL_FLOATS or not conv.ty.dtype.is_float or bool_attr(call, "training", False):
            return None
        weight, dtype = conv.args[1], conv.ty.dtype.name
        if not isinstance(weight.ty, TensorType) or weight.ty.dtype is not conv.ty.dtype:
            return None
        axis = axis_attr(call, 4, "axis", 1)
        out_layout = _layout(conv, "out_layout", _layout(conv, "data_layout", "NCHW"))
        if (
            out_layout.find("C") != axis
            or len(out_layout) != 4
            or (bias is not None and not _is_channel_bias(bias, axis))
        ):
            return None
        parts = [weight, *call.args[1:], *([bias] if bias is not None else [])]
        if not all([self.known.usable(p, at) for p in (conv.args[0], *parts)]):
            return None
        if self.only_constants and not all([self.known.is_constant(p) for p in parts]):
            return None
        gamma, beta, mean, var = call.args[1:5]
        root = elementwise.sqrt(add(var, constant(float(call.attrs.get("epsilon", 1e-5)), dtype)))
        scale: Expr = divide(gamma, root) if bool_attr(call, "scale", True) else divide(constant(1.0, dtype), root)
        channel = _layout(conv, "kernel_layout", "OIHW").find("O")
        scaled = multiply(weight, _per_channel(scale, 4, channel))
        made = conv2d(conv.args[0], scaled, **conv.attrs)
        shift: Expr = multiply(_per_channel(mean, 4, axis), _per_channel(scale, 4, axis))
        if bias is not None:
            shift = subtract(multiply(bias, _per_channel(scale, 4, axis)), shift)
            shift = add(_per_channel(beta, 4, axis), shift) if bool_attr(call, "center", True) else shift
        elif bool_attr(call, "center", True):
            shift = subtract(_per_channel(beta, 4, axis), shift)
        else:
            shift = multiply(shift, constant(-1.0, dtype))
        return add(made, shift)


@function_pass()
def fold_batch_norm_to_conv2d(fn: Function, *, only_constants: bool = True) -> Function:
    """Fold batch normalisation after a convolution into its weight and a bias; of narrow floats into a factor and a bias.

    Gives operators on constants that ``fold_constant`` evaluates.
    ``only_constants``: leave layers whose weight or statistics are not constants.
    """
    if not any([b.value.op_name == R.nn.batch_norm.name for _, b in each_binding(fn)]):
        return fn
    folder = _Folder(fn, only_constants)

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        made = folder.fold(call, rewriter.var) or folder.scaled(call, rewriter.var)
        return made and Tuple((made, call.args[3], call.args[4]), call.span)

    return rewrite_calls(fn, change, R.nn.batch_norm.name)
