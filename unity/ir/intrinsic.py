"""The table of tensor-level intrinsics ``T.<name>``: arity, result type, effect.

Result rules: ``same`` as the first argument, ``bool`` of its lanes, ``given`` by the call's own dtype argument (``ty`` of
the call), ``handle``, ``int32``, ``void``. Effects: ``pure``, ``read`` (reads memory), ``effect``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Intrinsic:
    """A row; ``arity`` is (least, most) number of arguments, most -1 for any."""

    name: str
    arity: tuple[int, int]
    result: str
    effect: str
    doc: str


INTRINSICS: dict[str, Intrinsic] = {}


def _rows(arity: int | tuple[int, int], result: str, effect: str = "pure", **docs: str) -> tuple[str, ...]:
    """Rows of intrinsics with their meaning in one sentence: for editors, ``help`` and the stubs."""
    for name, doc in docs.items():
        bounds = arity if isinstance(arity, tuple) else (arity, arity)
        INTRINSICS[f"T.{name}"] = Intrinsic(f"T.{name}", bounds, result, effect, doc)
    return tuple(docs)


UNARY_MATH = _rows(1, "same",
    exp="e to the power x.", exp2="2 to the power x.", exp10="10 to the power x.", log="Natural logarithm.",
    log2="Logarithm to base 2.", log10="Logarithm to base 10.", log1p="log(1 + x) without loss of digits near 0.",
    sqrt="Square root.", rsqrt="1 / sqrt(x).", sin="Sine of radians.", cos="Cosine of radians.", tan="Tangent of radians.",
    asin="Inverse sine, in radians.", acos="Inverse cosine, in radians.", atan="Inverse tangent, in radians.",
    sinh="Hyperbolic sine.", cosh="Hyperbolic cosine.", tanh="Hyperbolic tangent.", asinh="Inverse hyperbolic sine.",
    acosh="Inverse hyperbolic cosine.", atanh="Inverse hyperbolic tangent.", erf="Error function.",
    sigmoid="1 / (1 + exp(-x)).", floor="Largest integer not above x.", ceil="Smallest integer not below x.",
    trunc="Integer part.", round="Nearest integer, halves to even.", nearbyint="Nearest integer, halves to even.",
    abs="Absolute value.",
)  # fmt: skip
BINARY_MATH = _rows(2, "same",
    pow="x to the power y.", atan2="Angle of the point (second, first argument), in radians.",
    fmod="Remainder of division towards 0.", hypot="sqrt(x * x + y * y) without overflow.",
    ldexp="x times 2 to the power of the second argument.", copysign="The first argument with the sign of the second.",
    nextafter="The float next to x in the direction of y.",
)  # fmt: skip
_rows(3, "same", fma="x * y + z, rounded once.")
_rows(
    1, "same", popcount="Number of bits that are set.", clz="Number of leading zero bits.", bitwise_not="Inverted bits."
)
_rows(2, "same",
    bitwise_and="Bits set in both.", bitwise_or="Bits set in either.", bitwise_xor="Bits set in exactly one.",
    shift_left="Bits shifted left.", shift_right="Bits shifted right, keeping the sign.",
)  # fmt: skip
_rows(3, "given", dp4a="Dot product of four bytes, added to the third argument.")
_rows(
    4, "same", q_multiply_shift="Fixed-point product of x and y with q fractional bits, shifted left by s and rounded."
)
_rows((6, 7), "same", q_multiply_shift_per_axis="Fixed-point product with a shift before and after it, rounded.")
_rows(1, "given", reinterpret="The bits of a value as another type of the same width.")
_rows(1, "bool",
    isnan="True if x is NaN.", isinf="True if x is infinite.", isfinite="True if x is neither infinite nor NaN.",
    isnullptr="True for a null pointer.",
)  # fmt: skip
_rows(1, "same",
    likely="A condition that is expected to hold.", tvm_thread_invariant="A value that is the same in all threads.",
)  # fmt: skip
_rows(3, "second", if_then_else="The second argument if the first holds, else the third; only that one is evaluated.")
_rows(1, "handle", address_of="The address of an element.")
_rows(5, "handle", tvm_access_ptr="Pointer to part of a buffer: type, data, offset, extent, 1 read | 2 write.")
_rows((2, 3), "handle", handle_add_byte_offset="A pointer moved by bytes.", ptr_byte_offset="A pointer moved by bytes.")
_rows(0, "given", type_annotation="A type as an argument.")
_rows(2, "given", "effect", atomic_add="Adds to an element atomically and returns its old value.")
_rows((1, 4), "void", "effect",
    prefetch="Fetches the cache line of an address: address, 1 for write, locality from 0 to 3, 1 for data.",
)  # fmt: skip
_rows(1, "bool", "effect", assume="Promises that a condition holds.")
_rows(0, "given", undef="A value that is not defined.")
_rows(1, "given", vectorlow="The first half of a vector.", vectorhigh="The second half of a vector.")
_rows(2, "given", vectorcombine="A vector made of two halves.")
_rows(0, "int32", vscale="Number of 128-bit pieces in a scalable vector.")
_rows(2, "given", get_active_lane_mask="Lanes i with base + i below a limit, as a mask.")
_rows((1, -1), "given", "effect", call_extern="Calls a C function by name.")
_rows((1, -1), "given", call_pure_extern="Calls a C function without effects by name.")
_rows((1, -1), "given", "effect",
    call_packed="Calls a registered function by name.", tvm_call_packed="Calls a registered function by name.",
    call_cpacked="Calls a registered function by name.",
)  # fmt: skip
_rows((1, -1), "given", "effect", call_llvm_intrin="Calls an intrinsic of LLVM by name.")
_rows((1, -1), "given", call_llvm_pure_intrin="Calls an intrinsic of LLVM without effects by name.")
_rows(1, "given", "read", lookup_param="A parameter of the module by name.")
_rows(1, "void", "effect", ret="Returns a value from the function.")
_rows(0, "void", "effect",
    thread_return="Ends the thread.", break_loop="Leaves the loop.", continue_loop="Begins the next iteration of the loop.",
)  # fmt: skip
_rows((0, -1), "handle", tvm_tuple="Arguments as a tuple.")
_rows(2, "handle", "effect", tvm_stack_alloca="Allocates a number of values of a kind on the stack.")
_rows((1, -1), "void", "effect", tvm_storage_sync="Waits for all threads of a scope.")
_rows((5, -1), "given", "effect", tvm_thread_allreduce="Combines a value of each thread and gives all the result.")
_rows(5, "second", "effect",
    tvm_warp_shuffle="The value of another lane of the warp.", tvm_warp_shuffle_up="The value of a lower lane of the warp.",
    tvm_warp_shuffle_down="The value of a higher lane of the warp.",
    tvm_warp_shuffle_xor="The value of the lane whose number differs in some bits.",
)  # fmt: skip
_rows(0, "given", "effect", tvm_warp_activemask="Mask of the active lanes.")
_rows(6, "void", "effect", tvm_fill_fragment="Fills a fragment of a matrix unit.")
_rows(8, "void", "effect",
    tvm_load_matrix_sync="Loads a fragment of a matrix unit.", tvm_store_matrix_sync="Stores a fragment of a matrix unit.",
)  # fmt: skip
_rows(8, "void", "effect",
    tvm_mma_sync="Multiplies fragments and adds to a third.", tvm_bmma_sync="Multiplies fragments of bits and adds to a third.",
)  # fmt: skip
_rows(1, "same", ptx_ex2="PTX ex2.approx: 2 to the power of a float32, up to two units in the last place.")
_rows((12, 16), "given", "effect", ptx_mma="PTX mma.sync on registers of a warp.")
_rows((6, 8), "given", "effect", ptx_ldmatrix="PTX ldmatrix: loads matrices from shared memory.")
_rows((5, 6), "given", "effect", ptx_cp_async="PTX cp.async: copies to shared memory asynchronously.")
_rows(0, "void", "effect", ptx_commit_group="Closes a group of asynchronous copies.")
_rows(1, "void", "effect", ptx_wait_group="Waits until at most so many groups of copies are open.")
_rows(1, "void", "effect",
    create_barriers="Gives the block so many barriers (mbarrier), which the others name by their numbers.",
    ptx_arrive_barrier="Arrives at a barrier without waiting.",
    ptx_cp_async_barrier="Arrives at a barrier when the cp.async copies of the thread have come.",
)  # fmt: skip
_rows(2, "void", "effect",
    ptx_init_barrier_thread_count="Begins a barrier whose phases end after so many arrivals: barrier, arrivals.",
    ptx_arrive_barrier_expect_tx="Arrives at a barrier whose phase waits for so many bytes more: barrier, bytes.",
)  # fmt: skip
_rows((1, 2), "void", "effect",
    ptx_wait_barrier="Waits until the phase of a barrier with a parity (0) has ended: barrier, parity.",
)  # fmt: skip
_rows(6, "given", "effect",
    ptx_cp_async_bulk="PTX cp.async.bulk: shared pointer and offset, global pointer and offset, bytes, barrier.",
)  # fmt: skip
_rows((8, 20), "given", "effect",
    ptx_cp_async_bulk_tensor="PTX cp.async.bulk.tensor: a box of a tensor to shared memory, with a tensor map made by the host.",
)  # fmt: skip
_rows((7, 19), "given", "effect",
    ptx_cp_async_bulk_tensor_store="PTX cp.async.bulk.tensor: a box of a tensor from shared memory, without a barrier.",
)  # fmt: skip
_rows((17, 29), "given", "effect",
    ptx_cp_async_bulk_tensor_im2col="PTX cp.async.bulk.tensor.im2col: pixels under a convolution's window to shared memory.",
)  # fmt: skip
_rows(0, "void", "effect", ptx_cp_async_bulk_commit_group="Closes a group of bulk copies to global memory.")
_rows(1, "void", "effect",
    ptx_cp_async_bulk_wait_group="Waits until at most so many groups of bulk copies to global memory are open.",
)  # fmt: skip
_rows((14, 15), "given", "effect",
    ptx_wgmma="PTX wgmma.mma_async: a product of a warpgroup whose factors lie in shared memory.",
)  # fmt: skip
_rows(0, "void", "effect",
    ptx_wgmma_fence="Orders registers and shared memory before products of the warpgroup.",
    ptx_wgmma_commit_group="Closes a group of products of the warpgroup.",
    ptx_fence_proxy_async="Orders stores of the thread to shared memory before bulk copies and products read it.",
)  # fmt: skip
_rows(1, "void", "effect", ptx_wgmma_wait_group="Waits until at most so many groups of products are open.")
_rows(2, "void", "effect",
    ptx_setmaxnreg="Gives the threads of a warpgroup more registers (True) or fewer (False), up to a number.",
)  # fmt: skip
_rows(0, "given", "effect", ptx_elect_sync="True in one lane of the warp.")
_rows(
    1,
    "void",
    "effect",
    start_profile_intrinsic="Begins a profiled region.",
    end_profile_intrinsic="Ends a profiled region.",
)
