"""Products and what stands between them computed in 16-bit floats: ``to_mixed_precision.with_options(dtype="bfloat16")``.

Rewrite: ``y = R.matmul(x, w)`` -> ``l = R.matmul(R.astype(x, "float16"), R.astype(w, "float16"))``,
``y = R.astype(l, "float32")``. Products and convolutions are always computed so (they accumulate in float32); simple operators
follow where all their operands are known in 16 bits; everything else (softmax, normalisations, reductions, exponentials, calls)
stays in float32. Every variable keeps its type, so the signature does not change and conversions nobody needs are left to
``dead_code``. Results change by rounding: it is the user's choice, never a default.

Recurrent layers take their weight in 16 bits.

Parameters named in ``narrow_inputs`` become 16-bit floats themselves: the one change of a signature.

With ``wide_results`` only the operands are narrow: ``R.matmul(.., out_dtype="float32")`` gives the float32 sums unrounded and
nothing follows in 16 bits.
"""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ffi.tensor import Tensor
from ....ir.builder import make_call
from ....ir.expr import Call, Constant, SeqExpr, Tuple, Var, VarBinding
from ....ir.function import Function
from ....ir.node import replace
from ....ir.op import row_of
from ....ir.relation import tensor_dtype
from ....ir.types import Expr, TensorType
from ....op.common.table import constant
from ....op.manipulate.create import astype
from ....support.errors import PassError
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..params.bind_params import with_head
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

_SMALL = ("float16", "bfloat16")


def _is_wide(value: Expr) -> bool:
    return tensor_dtype(value.ty) == "float32"


class _Narrowing:
    """The values of one function that are known in 16 bits."""

    def __init__(
        self, fn: Function, dtype: str, keep: tuple[str, ...], wide_results: bool, narrow_inputs: tuple[str, ...]
    ) -> None:
        self.dtype = dtype
        self.wide = wide_results
        self.keep = frozenset(keep)
        self.definitions = Definitions(fn)
        self.narrow: dict[Var, tuple[Any, Expr]] = {}
        """The 16-bit form of a variable, and the block in which it may be used (None: anywhere the variable may)."""
        self.constants: dict[int, tuple[Constant, Constant]] = {}
        self.inputs = {p: self.input(p) for p in fn.params if p.name in narrow_inputs and _is_wide(p)}

    def input(self, param: Var) -> Var:
        """A float32 parameter in 16 bits."""
        assert isinstance(param.ty, TensorType)
        return Var(param.name, replace(param.ty, dtype=DataType(self.dtype)), param.span)

    def known(self, value: Expr, rewriter: GraphRewriter) -> Expr | None:
        """The 16-bit form of an operand where there is one already."""
        if type(value) is Constant:
            found = self.constants.get(id(value.data))
            if found is None:
                array = value.data.numpy().astype(DataType(self.dtype).numpy)
                found = self.constants[id(value.data)] = (value, constant(Tensor(array)))
            return found[1]
        if value in self.inputs:
            return self.inputs[value]
        if isinstance(value, Var) and value in self.narrow:
            block, form = self.narrow[value]
            if block is self._here(rewriter):
                return form
        return None

    def _here(self, rewriter: GraphRewriter) -> Any:
        return self.definitions.home.get(rewriter.var)

    def to_narrow(self, value: Expr, rewriter: GraphRewriter, force: bool) -> Expr | None:
        """An operand in 16 bits: itself where it is not a float32 tensor, None where it would have to be converted first."""
        if type(value) is Tuple:
            fields = [self.to_narrow(f, rewriter, force) for f in value.fields]
            return (
                None
                if any([f is None for f in fields])
                else Tuple(tuple([f for f in fields if f is not None]), value.span)
            )
        if not _is_wide(value):
            return value
        found = self.known(value, rewriter)
        if found is None and force:
            found = rewriter.emit(astype(value, dtype=self.dtype))
            if isinstance(value, Var):
                self.narrow[value] = (self._here(rewriter), found)
        return found

    def layer(self, call: Call, operand: int, rewriter: GraphRewriter) -> Expr:
        """A recurrent layer with its weight in 16 bits."""
        weight = call.args[operand]
        if weight in self.definitions.changed or not all([_is_wide(v) for v in call.args]):
            return call
        narrow = self.to_narrow(weight, rewriter, True)
        assert narrow is not None
        return make_call(call.op, [*call.args[:operand], narrow, *call.args[operand + 1 :]], call.attrs, (), call.span)

    def call(self, call: Call, rewriter: GraphRewriter) -> Expr:
        """The call in 16 bits with its result in float32, or as it is."""
        row = row_of(call)
        if row.name in self.keep:
            return call
        if row.narrow_argument is not None:
            return self.layer(call, row.narrow_argument, rewriter)
        force = row.mixed_precision == "always"
        if self.wide:
            possible = force and "out_dtype" in [p.name for p in row.params]
        else:
            possible = force or row.mixed_precision == "follow"
        if not possible or not _is_wide(call) or call.attrs.get("out_dtype"):
            return call
        operands = [
            v for a in call.args for v in (a.fields if type(a) is Tuple else (a,)) if isinstance(v.ty, TensorType)
        ]
        plain = [v for v in operands if type(v) is not Constant]
        if any([v in self.definitions.changed for v in operands]) or not all([_is_wide(v) for v in operands]):
            return call
        if not force and (not plain or any([self.known(v, rewriter) is None for v in plain])):
            return call
        args = [a for a in [self.to_narrow(a, rewriter, force) for a in call.args] if a is not None]
        if self.wide:
            return make_call(call.op, args, {**call.attrs, "out_dtype": "float32"}, (), call.span)
        made = make_call(call.op, args, call.attrs, (), call.span)
        low = rewriter.emit(made)
        self.narrow[rewriter.var] = (self._here(rewriter), low)
        return astype(low, dtype="float32")


@function_pass()
def to_mixed_precision(
    fn: Function,
    *,
    dtype: str = "float16",
    keep: tuple[str, ...] = (),
    wide_results: bool = False,
    narrow_inputs: tuple[str, ...] = (),
) -> Function:
    """Compute products in 16-bit floats. Changes rounding. Types of variables stay, but for parameters in ``narrow_inputs``.

    ``dtype``: float16 or bfloat16; ``keep``: operators to leave in float32; ``wide_results``: products are not rounded;
    ``narrow_inputs``: names of float32 parameters that are given in 16 bits.
    """
    if dtype not in _SMALL:
        raise PassError("E560", f"dtype must be float16 or bfloat16, got {dtype!r}")
    narrowing = _Narrowing(fn, dtype, keep, wide_results, narrow_inputs)
    made = rewrite_calls(fn, narrowing.call)
    if not narrowing.inputs:
        return made
    assert type(made.body) is SeqExpr
    casts = [VarBinding(wide, astype(narrow, dtype="float32")) for wide, narrow in narrowing.inputs.items()]
    params = tuple([narrowing.inputs.get(p, p) for p in made.params])
    return replace(made, params=params, body=with_head(tuple(casts), made.body))
