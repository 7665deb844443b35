"""CUDA ``wmma`` 16x16x16: fill, load, multiply, store. A buffer of fragments is a matrix of tiles in
any compact layout; a fragment's number counts them along rows.

A transposed operand lies in its fragment as in memory and is read as column-major. Names as in TVM.
"""

from __future__ import annotations

from functools import partial

from ...ir.function import PrimFunc
from ...transform.schedule.core.tensor_intrin import Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]
TYPES = {"f16": "float16", "f32": "float32", "s8": "int8", "s32": "int32"}
SCOPES = {"shared": "shared", "shared_dyn": "shared.dyn", "global": "global"}
SIZE = "16, 16, 16"
PRODUCTS = (("f16", "f32"), ("f16", "f16"), ("s8", "s32"))
"""Types of the operands and of the accumulator."""


def _fragment(name: str, part: str, dtype: str) -> Operand:
    return Operand(name, (16, 16), dtype, f"wmma.{part}", 16, True)


def _number(name: str) -> str:
    """The number of the fragment of its buffer, counted along rows of tiles."""
    return f"{name}_offset // {name}_stride // 16 * ({name}_stride // 16) + {name}_offset % {name}_stride // 16"


def _memory(name: str, dtype: str, scope: str) -> Operand:
    return Operand(name, (16, 16), dtype, SCOPES[scope], 16, True)


_COPY = """
for i, j in T.grid(16, 16):
    with T.block("copy"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj]
"""


def fill(kind: str) -> Pair:
    """An accumulator of zeros."""
    dtype = TYPES[kind]
    operands = [_fragment("C", "accumulator", dtype)]
    loops = f"""
for i, j in T.grid(16, 16):
    with T.block("init"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.{dtype}(0)
"""
    call = f"T.tvm_fill_fragment(C.data, {SIZE}, {_number('C')}, T.{dtype}(0))"
    return program(operands, "", "C", loops), program(operands, "", "C", call)


def load(kind: str, operand: str, trans: bool, scope: str) -> Pair:
    """A fragment of operand "a" or "b" from memory."""
    dtype, layout = TYPES[kind], "col_major" if trans else "row_major"
    operands = [_memory("A", dtype, scope), _fragment("C", f"matrix_{operand}", dtype)]
    call = f'T.tvm_load_matrix_sync(C.data, {SIZE}, {_number("C")}, T.address_of(A[0, 0]), A_stride, "{layout}")'
    return program(operands, "A", "C", _COPY), program(operands, "A", "C", call)


def sync(kind: str, total: str, trans: bool) -> Pair:
    """``C += A @ B``, or ``A @ B.T``."""
    dtype, wide = TYPES[kind], TYPES[total]
    operands = [
        _fragment("A", "matrix_a", dtype),
        _fragment("B", "matrix_b", dtype),
        _fragment("C", "accumulator", wide),
    ]
    left, right = "A[vi, vk]", "B[vj, vk]" if trans else "B[vk, vj]"
    if dtype != wide:
        left, right = [f'T.Cast("{wide}", {side})' for side in (left, right)]
    loops = f"""
for i, j, k in T.grid(16, 16, 16):
    with T.block("update"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + {left} * {right}
"""
    a, b, c = _number("A"), _number("B"), _number("C")
    call = f"T.tvm_mma_sync(C.data, {c}, A.data, {a}, B.data, {b}, C.data, {c})"
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", call)


def store(kind: str, scope: str) -> Pair:
    """An accumulator to memory."""
    dtype = TYPES[kind]
    operands = [_fragment("A", "accumulator", dtype), _memory("C", dtype, scope)]
    call = f'T.tvm_store_matrix_sync(A.data, {SIZE}, {_number("A")}, T.address_of(C[0, 0]), C_stride, "row_major")'
    return program(operands, "A", "C", _COPY), program(operands, "A", "C", call)


def _table() -> dict[str, Maker]:
    found: dict[str, Maker] = {}
    for kind in ("f16", "f32", "s32"):
        found[f"wmma_fill_16x16x16_{kind}"] = partial(fill, kind)
        for scope in SCOPES:
            found[f"wmma_store_16x16x16_{kind}_{scope}"] = partial(store, kind, scope)
    for kind in ("f16", "s8"):
        for operand in ("a", "b"):
            for trans in (False, True):
                for scope in ("shared", "shared_dyn"):
                    name = f"wmma_load_16x16x16_{kind}_{operand}{'_trans' if trans else ''}_{scope}"
                    found[name] = partial(load, kind, operand, trans, scope)
    for kind, total in PRODUCTS:
        for trans in (False, True):
            name = f"wmma_sync_16x16x16_{kind}{kind}{total}{'_trans' if trans else ''}"
            found[name] = partial(sync, kind, total, trans)
    return found


WMMA_INTRINSICS = _table()
"""Makers by name."""


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """Names of the intrinsics of one matrix product: "init", "load_a", "load_b", "compute", "store".

    Types as "float16", "float32", "int8", "int32"; scopes as "shared", "shared.dyn", "global" (the last for storing).
    Raises KeyError for a combination that the instruction does not have.
    """
    short = {name: kind for kind, name in TYPES.items()}
    kind, total, suffix = short[in_dtype], short[out_dtype], "_trans" if trans_b else ""
    if (kind, total) not in PRODUCTS:
        raise KeyError(f"wmma multiplies {in_dtype} into {out_dtype}: no such instruction")
    load_from, store_to = load_scope.replace(".", "_"), store_scope.replace(".", "_")
    group = {
        "init": f"wmma_fill_16x16x16_{total}", "load_a": f"wmma_load_16x16x16_{kind}_a_{load_from}",
        "load_b": f"wmma_load_16x16x16_{kind}_b{suffix}_{load_from}", "compute": f"wmma_sync_16x16x16_{kind}{kind}{total}{suffix}",
        "store": f"wmma_store_16x16x16_{total}_{store_to}",
    }  # fmt: skip
    for name in group.values():
        if name not in WMMA_INTRINSICS:
            raise KeyError(name)
    return group
