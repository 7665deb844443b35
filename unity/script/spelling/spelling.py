"""The one spelling table of script: how each construct is written, for the reader and for the printer.

Here: rows of data only (operators with levels, node names, type names, keyword names, old names and their canonical form). Not
here: grammar (``script/parser/grammar.lark``) or any building of IR. Invariant: a spelling stands in exactly one row; what the
printer writes is ``canonical``, what the reader also accepts is an alias of it.
"""

from __future__ import annotations

from dataclasses import dataclass

# --------------------------------------------------------------------------------------------------- infix operators


@dataclass(slots=True, frozen=True)
class Infix:
    """A binary operator: ``text`` as written, binding ``level`` (higher binds tighter), ``node`` (class name in
    ``ir/scalar.py``) or ``op`` (operator name of a call) at tensor level, ``graph`` operator name at graph level."""

    text: str
    level: int
    node: str | None = None
    op: str | None = None
    graph: str | None = None
    right: bool = False


LEVEL_IF = 0
LEVEL_OR = 1
LEVEL_AND = 2
LEVEL_NOT = 3
LEVEL_COMPARE = 4
LEVEL_BIT_OR = 5
LEVEL_BIT_XOR = 6
LEVEL_BIT_AND = 7
LEVEL_SHIFT = 8
LEVEL_ADD = 9
LEVEL_MUL = 10
LEVEL_UNARY = 11
LEVEL_POWER = 12
LEVEL_ATOM = 13

INFIX: dict[str, Infix] = {
    row.text: row
    for row in (
        Infix("or", LEVEL_OR, node="Or", graph="R.logical_or"),
        Infix("and", LEVEL_AND, node="And", graph="R.logical_and"),
        Infix("==", LEVEL_COMPARE, node="EQ", graph="R.equal"),
        Infix("!=", LEVEL_COMPARE, node="NE", graph="R.not_equal"),
        Infix("<", LEVEL_COMPARE, node="LT", graph="R.less"),
        Infix("<=", LEVEL_COMPARE, node="LE", graph="R.less_equal"),
        Infix(">", LEVEL_COMPARE, node="GT", graph="R.greater"),
        Infix(">=", LEVEL_COMPARE, node="GE", graph="R.greater_equal"),
        Infix("|", LEVEL_BIT_OR, op="T.bitwise_or", graph="R.bitwise_or"),
        Infix("^", LEVEL_BIT_XOR, op="T.bitwise_xor", graph="R.bitwise_xor"),
        Infix("&", LEVEL_BIT_AND, op="T.bitwise_and", graph="R.bitwise_and"),
        Infix("<<", LEVEL_SHIFT, op="T.shift_left", graph="R.left_shift"),
        Infix(">>", LEVEL_SHIFT, op="T.shift_right", graph="R.right_shift"),
        Infix("+", LEVEL_ADD, node="Add", graph="R.add"),
        Infix("-", LEVEL_ADD, node="Sub", graph="R.subtract"),
        Infix("*", LEVEL_MUL, node="Mul", graph="R.multiply"),
        Infix("/", LEVEL_MUL, node="Div", graph="R.divide"),
        Infix("//", LEVEL_MUL, node="FloorDiv", graph="R.floor_divide"),
        Infix("%", LEVEL_MUL, node="FloorMod", graph="R.floor_mod"),
        Infix("@", LEVEL_MUL, graph="R.matmul"),
        Infix("**", LEVEL_POWER, op="T.pow", graph="R.power", right=True),
    )
}
"""``/`` at tensor level is for floats only: an integer ``Div`` node is written ``T.truncdiv(a, b)``."""

INFIX_BY_NODE: dict[str, Infix] = {row.node: row for row in INFIX.values() if row.node is not None}
INFIX_BY_OP: dict[str, Infix] = {row.op: row for row in INFIX.values() if row.op is not None}

PREFIX_GRAPH = {"-": "R.negative", "~": "R.bitwise_not", "not": "R.logical_not"}
# ------------------------------------------------------------------------------------------------------- tensor nodes


@dataclass(slots=True, frozen=True)
class NodeForm:
    """A scalar node written as a call ``T.<name>(fields...)``. ``fields`` are the positional names, in order.
    ``fold`` says that the spelling goes through the folding helper of ``ir/build.py`` (``helper``); node-name forms
    such as ``T.Add(1, 2)`` build the raw node."""

    name: str
    node: str
    fields: tuple[str, ...]
    helper: str | None = None


NODE_FORMS: dict[str, NodeForm] = {
    row.name: row
    for row in (
        NodeForm("T.Add", "Add", ("a", "b")),
        NodeForm("T.Sub", "Sub", ("a", "b")),
        NodeForm("T.Mul", "Mul", ("a", "b")),
        NodeForm("T.Div", "Div", ("a", "b")),
        NodeForm("T.Mod", "Mod", ("a", "b")),
        NodeForm("T.FloorDiv", "FloorDiv", ("a", "b")),
        NodeForm("T.FloorMod", "FloorMod", ("a", "b")),
        NodeForm("T.Min", "Min", ("a", "b")),
        NodeForm("T.Max", "Max", ("a", "b")),
        NodeForm("T.EQ", "EQ", ("a", "b")),
        NodeForm("T.NE", "NE", ("a", "b")),
        NodeForm("T.LT", "LT", ("a", "b")),
        NodeForm("T.LE", "LE", ("a", "b")),
        NodeForm("T.GT", "GT", ("a", "b")),
        NodeForm("T.GE", "GE", ("a", "b")),
        NodeForm("T.And", "And", ("a", "b")),
        NodeForm("T.Or", "Or", ("a", "b")),
        NodeForm("T.Not", "Not", ("a",)),
        NodeForm("T.Select", "Select", ("condition", "true_value", "false_value")),
        NodeForm("T.Ramp", "Ramp", ("base", "stride", "lanes")),
        NodeForm("T.Broadcast", "Broadcast", ("value", "lanes")),
        NodeForm("T.Shuffle", "Shuffle", ("vectors", "indices")),
        NodeForm("T.max", "Max", ("a", "b"), helper="maximum"),
        NodeForm("T.min", "Min", ("a", "b"), helper="minimum"),
        NodeForm("T.truncdiv", "Div", ("a", "b"), helper="truncdiv"),
        NodeForm("T.truncmod", "Mod", ("a", "b"), helper="truncmod"),
        NodeForm("T.floordiv", "FloorDiv", ("a", "b"), helper="floordiv"),
        NodeForm("T.floormod", "FloorMod", ("a", "b"), helper="floormod"),
        NodeForm("T.div", "Div", ("a", "b"), helper="div"),
    )
}

# ---------------------------------------------------------------------------------------------------------- data types

DTYPES: tuple[str, ...] = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float32", "float64", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int1", "int2", "int4", "uint1", "uint2", "uint4",
)  # fmt: skip
"""Scalar data types written ``T.<name>(value)`` or as an annotation ``T.<name>``; ``x<lanes>`` may follow."""

DTYPE_ALIASES = {"boolean": "bool", "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}

# --------------------------------------------------------------------------------------------------------- statements

LOOPS: dict[str, str] = {
    "range": "serial", "T.serial": "serial", "T.parallel": "parallel", "T.vectorized": "vectorized",
    "T.unroll": "unrolled", "T.unrolled": "unrolled", "T.thread_binding": "thread_binding",
}  # fmt: skip
"""Loop spelling -> ``For.kind``. ``T.grid`` is a nest of serial loops."""

LOOP_CANONICAL = {
    "serial": "T.serial", "parallel": "T.parallel", "vectorized": "T.vectorized", "unrolled": "T.unroll",
    "thread_binding": "T.thread_binding",
}  # fmt: skip

AXES: dict[str, str] = {
    "T.axis.spatial": "S", "T.axis.S": "S", "T.axis.reduce": "R", "T.axis.R": "R",
    "T.axis.scan": "scan", "T.axis.opaque": "opaque", "T.axis.O": "opaque",
}  # fmt: skip
"""Axis spelling -> ``IterVar.kind``. ``T.axis.remap("SSR", [...])`` takes each domain from the loop it names."""

AXIS_CANONICAL = {"S": "T.axis.spatial", "R": "T.axis.reduce", "scan": "T.axis.scan", "opaque": "T.axis.opaque"}
AXIS_LETTERS = {"S": "S", "R": "R", "C": "scan", "O": "opaque"}

# ---------------------------------------------------------------------------------------------------- names over time


@dataclass(slots=True, frozen=True)
class Renamed:
    """A name of an earlier or later era, and the name used here. ``same_arguments`` is False where the argument
    order or the meaning differs, so that an upgrade of the text must rewrite the call and not the name alone."""

    old: str
    new: str
    same_arguments: bool = True


RENAMED: dict[str, Renamed] = {
    row.old: row
    for row in (
        Renamed("T.sblock", "T.block"),
        Renamed("T.sblock_attr", "T.block_attr"),
        Renamed("T.sblock_alloc_buffer", "T.alloc_buffer"),
        Renamed("T.buffer_decl", "T.decl_buffer"),
        Renamed("T.boolean", "T.bool"),
        Renamed("T.ramp", "T.Ramp"),
        Renamed("T.broadcast", "T.Broadcast"),
        Renamed("T.shuffle", "T.Shuffle"),
        Renamed("T.select", "T.Select"),
        Renamed("T.let", "T.Let"),
        Renamed("T.fabs", "T.abs"),
        Renamed("T.power", "T.pow"),
        Renamed("T.left_shift", "T.shift_left"),
        Renamed("T.right_shift", "T.shift_right"),
        Renamed("T.indexdiv", "T.floordiv"),
        Renamed("T.indexmod", "T.floormod"),
        Renamed("T.tvm_call_packed", "T.call_packed"),
        Renamed("T.tvm_call_cpacked", "T.call_cpacked"),
        Renamed("T.Var", "T.var"),
        Renamed("R.call_tir", "R.call_dps", same_arguments=False),
        Renamed("R.call_dps_packed", "R.call_dps", same_arguments=False),
        Renamed("R.call_tir_inplace", "R.call_inplace", same_arguments=False),
        Renamed("R.call_tir_with_grad", "R.call_dps_with_grad", same_arguments=False),
        Renamed("R.match_shape", "R.match_cast", same_arguments=False),
        Renamed("R.Any", "R.Object"),
        Renamed("R.ShapeExpr", "R.shape"),
        Renamed("R.PrimValue", "R.prim_value"),
        Renamed("R.StringImm", "R.str"),
        Renamed("R.DataTypeImm", "R.dtype"),
        Renamed("I.cpu", "R.cpu"),
        Renamed("I.cuda", "R.cuda"),
        Renamed("I.gpu", "R.gpu"),
        Renamed("I.device", "R.device"),
    )
}

CANONICAL: dict[str, str] = {row.old: row.new for row in RENAMED.values()}

KEYWORDS: dict[str, str] = {
    "out_ty": "out_ty", "out_sinfo": "out_ty", "ty_args": "ty_args", "sinfo_args": "ty_args", "type_args": "ty_args",
    "tir_vars": "tir_vars", "packed_ints": "tir_vars",
}  # fmt: skip
"""Keyword arguments of the call family, every era -> the name used here."""

TVM_NAMES: dict[str, str] = {
    "T.block": "T.sblock",
    "T.block_attr": "T.sblock_attr",
    "R.call_inplace": "R.call_tir_inplace",
    "R.call_dps_with_grad": "R.call_tir_with_grad",
    "R.Object": "R.Any",
}
"""Names that ``script(dialect="tvm")`` (TVM 0.27) writes instead of ours. ``R.call_dps`` becomes ``R.call_tir`` for a
function of the module and ``R.call_dps_packed`` for an external one, with ``out_ty=``."""

TVM_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "R.nn.batch_norm": ("axis", "training"), "R.nn.group_norm": ("channel_axis", "axes"),
    "R.nn.instance_norm": ("channel_axis", "axes"), "R.slice_scatter": ("step",),
}  # fmt: skip
"""Attributes that TVM 0.27 gives another default, or none: they are written for it whatever they are."""

# --------------------------------------------------------------------------------------------------------- graph types

R_TYPES: tuple[str, ...] = ("Tensor", "Shape", "Prim", "Object", "Any", "Tuple", "Callable")
"""Type constructors of the ``R`` prefix. The 2022 era wrote them unqualified."""

TYPE_FIELDS: dict[str, tuple[str, ...]] = {
    "R.Tensor": ("shape", "dtype", "vdevice", "ndim"),
    "R.Shape": ("values", "ndim"),
    "R.Prim": ("dtype", "value"),
    "R.Object": (),
    "R.Tuple": ("*fields",),
    "R.Callable": ("params", "ret", "purity", "derive_func"),
    "T.Ptr": ("dtype", "scope"),
    "T.handle": ("dtype", "scope"),
}
"""Type constructor -> its arguments, in order."""

MODULE_ALIASES: dict[str, str] = {
    "I": "I", "ir": "I", "T": "T", "tir": "T", "tirx": "T", "Tx": "T", "R": "R", "relax": "R",
    "tvm.script": "I", "unity.script": "I", "tvm.script.ir": "I", "unity.script.ir": "I", "tvm.script.tir": "T",
    "unity.script.tir": "T", "tvm.script.tirx": "T", "tvm.script.relax": "R", "unity.script.relax": "R",
    "tvm.tir": "T", "tvm.relax": "R", "unity": "I", "tvm": "I",
    "R.op": "R", "tvm.relax.op": "R", "unity.relax.op": "R", "T.op": "T", "tvm.tir.op": "T", "unity.tir.op": "T",
}  # fmt: skip
"""Dotted prefix in text -> namespace letter."""

# ----------------------------------------------------------------------------------------------- tensor-level calls

DTYPE_FIRST: frozenset[str] = frozenset((
    "T.call_extern", "T.call_pure_extern", "T.call_llvm_intrin", "T.call_llvm_pure_intrin", "T.reinterpret",
    "T.type_annotation", "T.ptx_mma", "T.ptx_ldmatrix", "T.ptx_cp_async",
    "T.ptx_cp_async_bulk", "T.ptx_cp_async_bulk_tensor", "T.ptx_cp_async_bulk_tensor_store",
    "T.ptx_cp_async_bulk_tensor_im2col",
    "T.ptx_wgmma",
))  # fmt: skip
"""Intrinsics whose first argument is the result type. All others with a ``given`` result take ``dtype=``."""

DTYPE_DEFAULT: dict[str, str] = {
    "T.call_packed": "int32", "T.call_cpacked": "int32", "T.dp4a": "int32", "T.undef": "float32",
    "T.lookup_param": "handle", "T.tvm_thread_allreduce": "handle", "T.tvm_warp_activemask": "uint32",
    "T.get_active_lane_mask": "bool", "T.ptx_elect_sync": "bool",
}  # fmt: skip
"""Result type where ``dtype=`` is not written."""

NAME_FIRST: frozenset[str] = frozenset((
    "T.call_extern", "T.call_pure_extern", "T.call_llvm_intrin", "T.call_llvm_pure_intrin", "T.call_packed",
    "T.call_cpacked",
))  # fmt: skip
"""Intrinsics whose first stored argument is the callee's name as a StringImm."""

# Allocation: ``T.alloc_buffer`` directly in the body of a block adds to ``Block.alloc_buffers``; anywhere else it is the
# statement ``AllocBuffer``. ``T.allocate_buffer`` is the statement everywhere (needed where it stands directly in a
# block). ``T.alloc_local``/``T.alloc_shared`` are the statement with that scope.
UNQUALIFIED = {name: f"R.{name}" for name in (*R_TYPES, "dataflow", "output", "call_tir", "call_dps", "match_shape")}
UNQUALIFIED |= {"ir_module": "I.ir_module", "prim_func": "T.prim_func"}
"""Names that may be written without their namespace (2021), and what they mean."""
