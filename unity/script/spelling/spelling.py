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

PREFIX_GRAPH = {"-": "R.negative", "~": "R.bitwise_not", "not": "R.logical_not"}

# ------------------------------------------------------------------------------------------------------- tensor nodes

FOLDED: dict[str, str] = {
    "T.max": "maximum", "T.min": "minimum", "T.truncdiv": "truncdiv", "T.truncmod": "truncmod", "T.floordiv": "floordiv",
    "T.floormod": "floormod", "T.div": "div",
}  # fmt: skip
"""Calls that go through a folding helper of ``ir/build.py``."""

NODE_FORMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((
        "T.Add", "T.Sub", "T.Mul", "T.Div", "T.Mod", "T.FloorDiv", "T.FloorMod", "T.Min", "T.Max", "T.EQ", "T.NE", "T.LT", "T.LE",
        "T.GT", "T.GE", "T.And", "T.Or",
    ), ("a", "b")),
    "T.Not": ("a",), "T.Select": ("condition", "true_value", "false_value"), "T.Ramp": ("base", "stride", "lanes"),
    "T.Broadcast": ("value", "lanes"), "T.Shuffle": ("vectors", "indices"), **dict.fromkeys(FOLDED, ("a", "b")),
}  # fmt: skip
"""Scalar nodes as calls, with their arguments in order: the class of the name in ``ir/scalar.py`` as it is, and ``FOLDED``."""

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
    "T.serial": "serial", "range": "serial", "T.parallel": "parallel", "T.vectorized": "vectorized",
    "T.unroll": "unrolled", "T.unrolled": "unrolled", "T.thread_binding": "thread_binding",
}  # fmt: skip
"""Loop spelling -> ``For.kind``, of each kind the canonical one first. ``T.grid`` is a nest of serial loops."""

LOOP_CANONICAL = {kind: name for name, kind in reversed(LOOPS.items())}

AXES: dict[str, str] = {
    "T.axis.spatial": "S", "T.axis.S": "S", "T.axis.reduce": "R", "T.axis.R": "R",
    "T.axis.scan": "scan", "T.axis.opaque": "opaque", "T.axis.O": "opaque",
}  # fmt: skip
"""Axis spelling -> ``IterVar.kind``, the canonical one first. ``T.axis.remap("SSR", [...])`` takes each domain from the loop it
names."""

AXIS_CANONICAL = {kind: name for name, kind in reversed(AXES.items())}
AXIS_LETTERS = {"S": "S", "R": "R", "C": "scan", "O": "opaque"}

# ---------------------------------------------------------------------------------------------------- names over time

CANONICAL: dict[str, str] = {
    "T.sblock": "T.block", "T.sblock_attr": "T.block_attr", "T.sblock_alloc_buffer": "T.alloc_buffer",
    "T.buffer_decl": "T.decl_buffer", "T.boolean": "T.bool", "T.ramp": "T.Ramp", "T.broadcast": "T.Broadcast",
    "T.shuffle": "T.Shuffle", "T.select": "T.Select", "T.let": "T.Let", "T.fabs": "T.abs", "T.power": "T.pow",
    "T.left_shift": "T.shift_left", "T.right_shift": "T.shift_right", "T.indexdiv": "T.floordiv", "T.indexmod": "T.floormod",
    "T.tvm_call_packed": "T.call_packed", "T.tvm_call_cpacked": "T.call_cpacked", "T.Var": "T.var", "T.function": "T.prim_func",
    "T.Tensor": "T.Buffer", "T.decl_tensor": "T.decl_buffer", "T.alloc_tensor": "T.alloc_buffer", "R.call_tir": "R.call_dps",
    "R.call_dps_packed": "R.call_dps", "R.call_tir_inplace": "R.call_inplace", "R.call_tir_with_grad": "R.call_dps_with_grad",
    "R.match_shape": "R.match_cast", "R.Any": "R.Object", "R.ShapeExpr": "R.shape", "R.PrimValue": "R.prim_value",
    "R.StringImm": "R.str", "R.DataTypeImm": "R.dtype", "I.cpu": "R.cpu", "I.cuda": "R.cuda", "I.gpu": "R.gpu",
    "I.device": "R.device", "R.vdevice": "I.vdevice", "R.dummy_global_info": "I.dummy_global_info",
}  # fmt: skip
"""Names of earlier or later eras, and the names used here."""

REORDERED = frozenset((
    "R.call_tir", "R.call_dps_packed", "R.call_tir_inplace", "R.call_tir_with_grad", "R.match_shape",
))  # fmt: skip
"""Those of them whose order of arguments or meaning differs: an upgrade of the text rewrites the call and not the name alone."""

KEYWORDS: dict[str, str] = {
    "out_ty": "out_ty", "out_sinfo": "out_ty", "ty_args": "ty_args", "sinfo_args": "ty_args", "type_args": "ty_args",
    "tir_vars": "tir_vars", "packed_ints": "tir_vars",
}  # fmt: skip
"""Keyword arguments of the call family, every era -> the name used here."""

DPS_KEYWORDS = KEYWORDS | {"ty_args": "out_ty"}
"""The same for calls of functions that write their results to memory they are given."""

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
    "I": "I", "ir": "I", "T": "T", "tir": "T", "tirx": "T", "Tx": "T", "s_tir": "T", "Ts": "T", "R": "R", "relax": "R",
    "tvm.script": "I", "unity.script": "I", "tvm.script.ir": "I", "unity.script.ir": "I", "tvm.script.tir": "T",
    "unity.script.tir": "T", "tvm.script.tirx": "T", "unity.script.tirx": "T", "tvm.script.s_tir": "T",
    "unity.script.s_tir": "T", "tvm.script.relax": "R", "unity.script.relax": "R",
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
