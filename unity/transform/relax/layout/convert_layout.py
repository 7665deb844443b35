"""Convolutions compute with channels last, and what stands between them follows.

Rewrite: ``y = R.nn.conv2d(x, w); z = R.nn.relu(y)`` -> ``y1 = R.nn.conv2d(x, w1, kernel_layout="HWIO", out_layout="NHWC");
z1 = R.nn.relu(y1); z = R.permute_dims(z1, (0, 3, 1, 2))`` with ``w1`` the weight transposed (a constant that ``fold_constant``
computes). The first convolution of a chain reads its operand as it stands. Every variable keeps its type; a transposition
nobody needs is removed.

With channels last, outputs of a convolution at one place are neighbours in memory for every size of image, and a 1x1
convolution is a matrix product. A convolution follows where its weight is computed from constants and its output channels
(those of a group, unless it is depthwise) fill a vector; a function is left as it is where its convolutions are too small to
pay for the transpositions at its borders. A convolution in groups that has channels last already gets a constant weight whose
channels are last as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....ir.build import int_value
from ....ir.builder import make_call
from ....ir.expr import BindingBlock, Call, IntImm, Op, Tuple, TupleGetItem, Var, op
from ....ir.function import Function
from ....ir.module import IRModule
from ....ir.relation import dims, tensor_dtype
from ....ir.types import Expr, TensorType, TupleType
from ....ir.walk import collect
from ....op.common.channels_last import Unconverted, channels_first_layout, channels_last_layout, rank_of, rule_of
from ....op.common.table import R
from ....op.common.type_rules import int_attr, is_one
from ....op.manipulate.manipulate import expand_dims, permutation, permute_dims, reshape
from ....support.errors import PassError
from ...infra.backend import machine_in_use
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..normalize.dead_code import clean_function
from ..rewriting.graph_rewriter import GraphRewriter, each_binding
from .transposed_convolution import as_convolution, phase_features

CONVOLUTIONS = (R.nn.conv1d.name, R.nn.conv2d.name, R.nn.conv3d.name)
TRANSPOSED = (R.nn.conv1d_transpose.name, R.nn.conv2d_transpose.name, R.nn.conv3d_transpose.name)
PAYS = 700
"""Multiply-adds that pay for transposing one element: the share of their time that channels last save, measured."""
THIN = 6
"""Factor by which a multiply-add of a depthwise convolution saves more."""
GROUPED = {"uint8": 10, "int8": 10, "bfloat16": 50}
"""The same of one of types that have instructions which take neighbouring channels: of bfloat16 where the machine has one."""
PAIRED = ("dot_16x2_bf16_avx512_local", "amx_bf16bf16f32")
"""Tensor intrinsics of pairs of bfloat16."""
UNKNOWN = 64
"""The number that a symbolic extent is taken for."""


def _kernel(table: Table, call: Call, rank: int) -> str | None:
    """The layout asked for the weight of a convolution, None where none is. Raises PassError E745 for one that cannot be."""
    layouts = {op(name).name: [str(layout) for layout in given] for name, given in table.items()}.get(call.op_name)
    if layouts is None or layouts[0] == channels_first_layout(rank):
        return None
    usual = "OI" + channels_first_layout(rank)[2:]
    kernel = layouts[1] if len(layouts) > 1 else usual
    if layouts[0] != channels_last_layout(rank) or sorted(kernel) != sorted(usual):
        raise PassError("E745", f"{call.op_name} cannot be computed in the layouts {layouts}",
                        help=f"data: {channels_last_layout(rank)}; weight: the letters of {usual} in any order")  # fmt: skip
    return kernel


def _count(value: Expr) -> int:
    """Elements of a tensor."""
    return math.prod([int_value(extent, UNKNOWN) for extent in dims(value.ty) or ()])


def _extent(value: Expr, axis: int) -> int:
    """A constant extent of a tensor, at least one."""
    extent = (dims(value.ty) or ())[axis]
    return max(1, extent.value) if type(extent) is IntImm else UNKNOWN


def _grouped(data: Expr, result: str) -> int:
    """The factor of a convolution by whose type instructions take neighbouring channels; 0 where none does."""
    name = tensor_dtype(data.ty)
    if result == "int32":
        return GROUPED[name] if name.endswith("int8") else 0
    paired = name == "bfloat16" and result == "float32" and _extent(data, 1) % 2 == 0
    machine = machine_in_use()
    fast = [one for one in machine.intrinsics if one in PAIRED and one not in machine.slow_intrinsics]
    return GROUPED[name] if paired and fast else 0


def call_text(call: Call) -> str:
    """A convolution by operator, shapes and attributes: ``nn.conv2d [1,3,9,9] x [8,3,3,3] float32 strides=(2, 2)``."""
    shapes = [",".join([str(n.value if type(n) is IntImm else n) for n in dims(a.ty) or ()]) for a in call.args]
    attrs = [f"{key}={call.attrs[key]}" for key in ("strides", "padding", "dilation", "groups") if key in call.attrs]
    operands = " x ".join([f"[{shape}]" for shape in shapes])
    return f"{call.op_name.removeprefix('R.')} {operands} {tensor_dtype(call.ty)} {' '.join(attrs)}"


def convolution_texts(mod: IRModule) -> list[str]:
    """The convolutions of a module, by ``call_text``, each once."""
    calls = [call for fn in mod.graph_functions().values() for call in collect(fn, Call)]
    return list(dict.fromkeys([call_text(c) for c in calls if c.op_name in (*CONVOLUTIONS, *TRANSPOSED)]))


Table = Mapping[str, Sequence[str]]
"""Layouts of data and weight by operator."""


class _Converter:
    """The channels-last forms known in one function."""

    def __init__(
        self, fn: Function, only_constants: bool, lanes: int, asked: Callable[[Call], Table] | None, keep: Sequence[str]
    ) -> None:
        self.only_constants, self.lanes, self.asked, self.keep = only_constants, lanes, asked, frozenset(keep)
        self.definitions = Definitions(fn)
        self.forms: dict[Var, tuple[BindingBlock | None, Expr]] = {}
        """The form of a variable, and the block it was made in."""
        self.tuples: dict[Var, tuple[BindingBlock | None, Var, bool]] = {}
        """Tuples of results: the block, the variable of the other form, whether all its fields have channels last."""
        self.rewriter = GraphRewriter(self.rule)
        self.saved = 0

    def rule(self, value: Expr, rewriter: GraphRewriter) -> Any:
        """The value to bind in place of another."""
        if type(value) is TupleGetItem:
            return self.field(value)
        return self.call(value) if type(value) is Call else value

    def here(self) -> BindingBlock | None:
        """The block being rewritten."""
        return self.definitions.home.get(self.rewriter.var)

    def known(self, value: Expr) -> Expr | None:
        """The form of a variable that may be used here, or None."""
        if not isinstance(value, Var) or value not in self.forms:
            return None
        block, form = self.forms[value]
        return form if block is self.here() else None

    def operand(self, value: Expr, rank: int) -> Expr | None:
        """An operand that broadcasts to ``rank`` axes, with channels last."""
        found = self.known(value)
        have = rank_of(value)
        if found is not None and have == rank:
            return found
        if have < 0 or have > rank:
            return None
        if have == 0:
            return value
        wide = value if have == rank else expand_dims(value, axis=list(range(rank - have)))
        form = self.rewriter.emit(self.last(wide))
        if have == rank and isinstance(value, Var) and value not in self.definitions.changed:
            self.forms[value] = (self.here(), form)
        return form

    def last(self, value: Expr) -> Expr:
        """The transposition to channels last."""
        rank = rank_of(value)
        return permute_dims(value, axes=[0, *range(2, rank), 1])

    def first(self, form: Expr) -> Expr:
        """The transposition back; without one where a single place holds all channels."""
        rank, known = rank_of(form), dims(form.ty)
        if known is not None and all([is_one(n) for n in known[1:-1]]):
            return reshape(form, [known[0], known[-1], *known[1:-1]])
        return permute_dims(form, axes=[0, rank - 1, *range(1, rank - 1)])

    def convolution(self, call: Call) -> Expr | None:
        """A convolution with channels last, None where it stays."""
        assert isinstance(call.ty, TensorType)
        data, weight = call.args
        rank, shape = call.ty.ndim, dims(weight.ty)
        space = channels_first_layout(rank)
        layouts = {call.attrs.get("data_layout", space), call.attrs.get("out_layout") or space}
        if layouts != {space} or call.attrs.get("kernel_layout", "OI" + space[2:]) != "OI" + space[2:]:
            return None
        if shape is None or dims(call.ty) is None or call.ty.dtype is None:
            return None
        grouped = _grouped(data, call.ty.dtype.name)
        if not call.ty.dtype.is_float and not grouped:
            return None
        groups, features = int_attr(call, "groups", 1), shape[0]
        asked = _kernel(self.asked(call), call, rank) if self.asked else None
        if self.asked:
            return None if asked is None else self.channels_last(call, self.operand(data, rank), asked)
        lanes = self.lanes or machine_in_use().lanes(call.ty.dtype.itemsize)
        depthwise = groups > 1 and is_one(shape[1]) and type(features) is IntImm and features.value == groups
        if type(features) is not IntImm or features.value < lanes:
            return None
        if self.only_constants and not self.definitions.is_constant(weight):
            return None
        grouped = 0 if depthwise and call.ty.dtype.is_float else grouped
        form = self.operand(data, rank) if grouped else self.known(data)
        if groups > 1 and (form is None or (not depthwise and features.value // groups < lanes)):
            return None
        self.saved += _count(call) * _count(weight) // features.value * (THIN if depthwise else grouped or 1)
        return self.channels_last(call, form, space[2:] + ("OI" if depthwise else "IO"))

    def channels_last(self, call: Call, form: Expr | None, kernel_layout: str) -> Expr:
        """The convolution of a form of its data (of the data itself where there is none) with results in channels last."""
        assert type(call.op) is Op
        data, weight = call.args
        rank = rank_of(data)
        order = ("IO" if call.op_name in TRANSPOSED else "OI") + channels_first_layout(rank)[2:]
        kernel = self.rewriter.emit(permute_dims(weight, axes=[order.index(c) for c in kernel_layout]), "weight")
        attrs = {
            **call.attrs,
            "data_layout": channels_first_layout(rank) if form is None else channels_last_layout(rank),
            "kernel_layout": kernel_layout,
            "out_layout": channels_last_layout(rank),
        }
        return make_call(call.op, [data if form is None else form, kernel], attrs, call.ty_args, call.span)

    def neighbours(self, call: Call) -> Call | None:
        """A convolution in groups that has channels last, with the channels of its constant weight last too; None for another."""
        assert isinstance(call.ty, TensorType) and type(call.op) is Op
        (data, weight), last = call.args, channels_last_layout(call.ty.ndim)
        given, wanted = call.attrs.get("kernel_layout", "OI" + last[1:-1]), last[1:-1] + "IO"
        layouts = {call.attrs.get("data_layout"), call.attrs.get("out_layout") or last}
        if self.asked or layouts != {last} or sorted(given) != sorted(wanted) or int_attr(call, "groups", 1) == 1:
            return None
        is_float = call.ty.dtype is not None and call.ty.dtype.is_float
        if given.endswith("O") or not is_float or dims(weight.ty) is None or not self.definitions.is_constant(weight):
            return None
        self.saved += THIN * _count(call) * _count(weight) // _extent(weight, given.index("O"))
        kernel = self.rewriter.emit(permute_dims(weight, axes=[given.index(c) for c in wanted]), "weight")
        return make_call(call.op, [data, kernel], {**call.attrs, "kernel_layout": wanted}, call.ty_args, call.span)

    def transposed(self, call: Call) -> Expr | None:
        """A transposed convolution with channels last, None where it stays."""
        assert isinstance(call.ty, TensorType)
        if self.asked:
            return None
        data, weight = call.args
        features = phase_features(call)
        if features is None or call.ty.dtype is None or not call.ty.dtype.is_float:
            return None
        if features < (self.lanes or machine_in_use().lanes(call.ty.dtype.itemsize)):
            return None
        if self.only_constants and not self.definitions.is_constant(weight):
            return None
        form = self.known(data)
        made = as_convolution(call, form)
        if made is not None:
            self.saved += THIN * _count(data) * _count(weight) // _extent(weight, 0)
        elif form is not None:
            made = self.channels_last(call, form, channels_last_layout(call.ty.ndim)[1:-1] + "IO")
        return made

    def call(self, call: Call) -> Expr:
        """The value to bind in place of a call."""
        name, var, follow = call.op_name, self.rewriter.var, rule_of(call)
        if name not in CONVOLUTIONS and name not in TRANSPOSED and follow is None:
            return call
        operands = [v for a in call.args for v in (a.fields if type(a) is Tuple else (a,))]
        if any([v in self.definitions.changed for v in (*operands, var) if isinstance(v, Var)]):
            return call
        if name in CONVOLUTIONS or name in TRANSPOSED:
            known = (
                isinstance(call.ty, TensorType)
                and call.ty.ndim > 2
                and not (self.keep and call_text(call) in self.keep)
            )
            if known and name in CONVOLUTIONS and (found := self.neighbours(call)) is not None:
                return found
            made = None if not known else self.convolution(call) if name in CONVOLUTIONS else self.transposed(call)
        else:
            if follow is None or not any([self.known(v) is not None for v in operands]):
                return call
            given = follow(call, self)
            if isinstance(given, Unconverted):
                return given.value
            made = given
        if made is None:
            return call
        form = self.rewriter.emit(made)
        if isinstance(call.ty, TupleType):
            every = name == R.split.name
            self.tuples[var] = (self.here(), form, every)
            fields = [self.rewriter.emit(TupleGetItem(form, k)) for k in range(len(call.ty.fields))]
            return Tuple(
                tuple([self.rewriter.emit(self.first(f)) if every or k == 0 else f for k, f in enumerate(fields)])
            )
        self.forms[var] = (self.here(), form)
        return self.first(form)

    def field(self, value: TupleGetItem) -> Expr:
        """A field of a tuple whose other form is known."""
        source, var = value.tuple_value, self.rewriter.var
        if not isinstance(source, Var) or source not in self.tuples or var in self.definitions.changed:
            return value
        block, form, every = self.tuples[source]
        if block is not self.here() or not (every or value.index == 0):
            return value
        made = self.rewriter.emit(TupleGetItem(form, value.index))
        self.forms[var] = (block, made)
        return self.first(made)


def _transposed(fn: Function) -> int:
    """Elements that calls of ``R.permute_dims`` move, constants aside."""
    known = Definitions(fn)
    moving = [v for v in known.value.values() if type(v) is Call and v.op_name == R.permute_dims.name]
    moving = [v for v in moving if permutation(v, rank_of(v)) != tuple(range(rank_of(v)))]
    return sum([_count(v) for v in moving if not known.is_constant(v)])


@function_pass()
def convert_layout(
    fn: Function,
    *,
    only_constants: bool = True,
    always: bool = False,
    lanes: int = 0,
    desired: Table | None = None,
    layout_cb: Callable[[Call], Table] | None = None,
    keep: Sequence[str] = (),
) -> Function:
    """Compute convolutions with channels last, and what stands between them.

    Gives weights as ``R.permute_dims`` of constants; ``fold_constant`` computes them. Types of variables stay.
    ``only_constants``: leave convolutions whose weight is not a constant; ``always``: do not weigh the transpositions; ``lanes``:
    output channels from which a convolution follows (0: a vector of this machine); ``keep``: convolutions that stay, by
    ``call_text``.

    ``desired``: layouts of data and weight by operator, ``{"R.nn.conv2d": ["NHWC", "OHWI"]}``; these convolutions then follow
    whatever it costs, and no other. ``layout_cb``: a function of a call that gives such a table for it.
    """
    if not any([b.value.op_name in (*CONVOLUTIONS, *TRANSPOSED) for _, b in each_binding(fn)]):
        return fn
    asked = layout_cb or (lambda call: desired or {}) if layout_cb or desired else None
    converter = _Converter(fn, only_constants, lanes, asked, keep)
    made = converter.rewriter.function(fn)
    if not converter.saved and not asked:
        return fn
    made = clean_function(made)
    moved = _transposed(made) - _transposed(fn)
    return made if always or asked or converter.saved > PAYS * moved else fn
