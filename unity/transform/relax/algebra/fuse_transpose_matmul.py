"""A product with a transposed operand reads it as it lies: no copy of the operand is made.

Rewrite: ``R.matmul(x, R.permute_dims(w, [1, 0]))`` -> ``R.einsum((x, w), "ik,jk->ij")``, for any order of axes of either operand
whose last axis is one of the matrix; of numbers of 8 bits the one that is summed over, as vectors of them are read along it.
"""

from __future__ import annotations

from ....ir.expr import Call, Tuple
from ....ir.function import Function
from ....ir.structural import structural_equal
from ....ir.types import Expr, TensorType
from ....op.common.table import R
from ....op.linalg.contraction import einsum
from ....op.manipulate.manipulate import permutation
from ...infra.backend import machine_in_use
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

BATCH = "abcdefgh"
"""Letters of the axes before those of the matrices."""


def _in_stored_layout(made: Call, letters: str) -> str | None:
    """The letters of the axes that a permutation brought into the order of ``letters``; None where they are not to be read so."""
    ty = made.args[0].ty
    if not isinstance(ty, TensorType) or ty.dtype is None:
        return None
    order = permutation(made, len(letters))
    turned = "".join([letters[order.index(axis)] for axis in range(len(letters))])
    return turned if turned[-1] == "k" or (turned[-1] in "ij" and ty.dtype.itemsize > 1) else None


@function_pass()
def fuse_transpose_matmul(fn: Function, *, where_fast: bool = False) -> Function:
    """Multiply by a transposed matrix without transposing it. Gives ``R.einsum``.

    ``where_fast``: only where the machine in use reads transposed matrices as fast as others.
    """
    if where_fast and not machine_in_use().transposes_operands:
        return fn

    known = Definitions(fn)

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        ranks = [arg.ty.ndim if isinstance(arg.ty, TensorType) else -1 for arg in value.args]
        if min(ranks) < 1 or max(ranks) - 2 > len(BATCH):
            return None
        batch = BATCH[: max(*ranks, 2) - 2]
        own = [batch[len(batch) - max(rank - 2, 0) :] for rank in ranks]
        rows, columns = ["" if rank == 1 else letter for rank, letter in zip(ranks, "ij")]
        operands, terms = list(value.args), [f"{own[0]}{rows}k", f"{own[1]}k{columns}"]
        for side, arg in enumerate(value.args):
            permuted = known.source(arg, rewriter.var, R.permute_dims.name)
            turned = _in_stored_layout(permuted, terms[side]) if permuted is not None else None
            if permuted is not None and turned is not None:
                operands[side], terms[side] = permuted.args[0], turned
        if operands == list(value.args):
            return None
        subscripts = f"{terms[0]},{terms[1]}->{batch}{rows}{columns}"
        made = einsum(Tuple(tuple(operands)), subscripts=subscripts, **value.attrs, span=value.span)
        return made if structural_equal(made.ty, value.ty) else None

    return rewrite_calls(fn, change, R.matmul.name)
