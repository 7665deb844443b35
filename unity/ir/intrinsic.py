"""The table of tensor-level intrinsics ``T.<name>``: arity, result type, effect.

Result rules: ``same`` as the first argument, ``bool`` of its lanes, ``given`` by the call's own dtype argument (``ty`` of
the call), ``handle``, ``int32``, ``void``. Effects: ``pure``, ``read`` (reads memory), ``effect``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .intrinsic_docs import DOCS


@dataclass(slots=True, frozen=True)
class Intrinsic:
    """A row; ``arity`` is (least, most) number of arguments, most -1 for any."""

    name: str
    arity: tuple[int, int]
    result: str
    effect: str
    doc: str


INTRINSICS: dict[str, Intrinsic] = {}


def _rows(names: str, arity: int | tuple[int, int], result: str, effect: str = "pure") -> None:
    for name in names.split():
        bounds = arity if isinstance(arity, tuple) else (arity, arity)
        INTRINSICS[f"T.{name}"] = Intrinsic(f"T.{name}", bounds, result, effect, DOCS[name])


UNARY_MATH = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "sigmoid floor ceil trunc round nearbyint fabs abs"
)
BINARY_MATH = "pow atan2 fmod hypot ldexp copysign nextafter"

_rows(UNARY_MATH, 1, "same")
_rows(BINARY_MATH, 2, "same")
_rows("fma", 3, "same")
_rows("popcount clz bitwise_not", 1, "same")
_rows("bitwise_and bitwise_or bitwise_xor shift_left shift_right", 2, "same")
_rows("dp4a", 3, "given")
_rows("q_multiply_shift", 4, "same")
_rows("q_multiply_shift_per_axis", (6, 7), "same")
_rows("reinterpret", 1, "given")
_rows("isnan isinf isfinite isnullptr", 1, "bool")
_rows("likely tvm_thread_invariant", 1, "same")
_rows("if_then_else", 3, "second")
_rows("address_of", 1, "handle")
_rows("tvm_access_ptr", 5, "handle")
_rows("handle_add_byte_offset ptr_byte_offset", (2, 3), "handle")
_rows("type_annotation", 0, "given")
_rows("atomic_add", 2, "given", "effect")
_rows("prefetch", (1, 4), "void", "effect")
_rows("assume", 1, "bool", "effect")
_rows("undef", 0, "given")
_rows("vectorlow vectorhigh", 1, "given")
_rows("vectorcombine", 2, "given")
_rows("vscale", 0, "int32")
_rows("get_active_lane_mask", 2, "given")
_rows("call_extern", (1, -1), "given", "effect")
_rows("call_pure_extern", (1, -1), "given")
_rows("call_packed tvm_call_packed call_cpacked", (1, -1), "given", "effect")
_rows("call_llvm_intrin", (1, -1), "given", "effect")
_rows("call_llvm_pure_intrin", (1, -1), "given")
_rows("lookup_param", 1, "given", "read")
_rows("ret", 1, "void", "effect")
_rows("thread_return break_loop continue_loop", 0, "void", "effect")
_rows("tvm_tuple", (0, -1), "handle")
_rows("tvm_stack_alloca", 2, "handle", "effect")
_rows("tvm_storage_sync", (1, -1), "void", "effect")
_rows("tvm_thread_allreduce", (5, -1), "given", "effect")
_rows("tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_shuffle_xor", 5, "second", "effect")
_rows("tvm_warp_activemask", 0, "given", "effect")
_rows("tvm_fill_fragment", 6, "void", "effect")
_rows("tvm_load_matrix_sync tvm_store_matrix_sync", 8, "void", "effect")
_rows("tvm_mma_sync tvm_bmma_sync", 8, "void", "effect")
_rows("ptx_ex2", 1, "same")
_rows("ptx_mma", (12, 16), "given", "effect")
_rows("ptx_ldmatrix", (6, 8), "given", "effect")
_rows("ptx_cp_async", (5, 6), "given", "effect")
_rows("ptx_commit_group", 0, "void", "effect")
_rows("ptx_wait_group", 1, "void", "effect")
_rows("create_barriers ptx_arrive_barrier ptx_cp_async_barrier", 1, "void", "effect")
_rows("ptx_init_barrier_thread_count ptx_arrive_barrier_expect_tx", 2, "void", "effect")
_rows("ptx_wait_barrier", (1, 2), "void", "effect")
_rows("ptx_cp_async_bulk", 6, "given", "effect")
_rows("ptx_cp_async_bulk_tensor", (8, 20), "given", "effect")
_rows("ptx_cp_async_bulk_tensor_store", (7, 19), "given", "effect")
_rows("ptx_cp_async_bulk_tensor_im2col", (17, 29), "given", "effect")
_rows("ptx_cp_async_bulk_commit_group", 0, "void", "effect")
_rows("ptx_cp_async_bulk_wait_group", 1, "void", "effect")
_rows("ptx_wgmma", (14, 15), "given", "effect")
_rows("ptx_wgmma_fence ptx_wgmma_commit_group ptx_fence_proxy_async", 0, "void", "effect")
_rows("ptx_wgmma_wait_group", 1, "void", "effect")
_rows("ptx_setmaxnreg", 2, "void", "effect")
_rows("ptx_elect_sync", 0, "given", "effect")
_rows("start_profile_intrinsic end_profile_intrinsic", 1, "void", "effect")
