"""LLVM intrinsics that kernels may call by name, and errors for other calls by name.

LLVM ends the process at an intrinsic that it cannot select, so there is a table: each row compiles for its first architecture
with PTX 8.0, the lowest version that is written. Not here: intrinsics that take constants, and those with a name in script.
"""

from __future__ import annotations

from difflib import get_close_matches

from ...ir.build import dtype_of
from ...ir.expr import Call
from ...ir.intrinsic import INTRINSICS as KNOWN
from ...support.errors import CodegenError
from ..cpu.calls import called_name, from_native, native, without_arity
from ..llvm.lltypes import llvm_type
from ..llvm.writer import FunctionWriter, Intrinsics
from .registers import require

_F, _D, _I, _L, _B, _H = "float", "double", "i32", "i64", "i1", "<2 x half>"
_ROWS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("sm_75", _F, (_F,), "nvvm.ex2.approx.f nvvm.ex2.approx.ftz.f nvvm.lg2.approx.f nvvm.lg2.approx.ftz.f nvvm.sin.approx.f "
     "nvvm.sin.approx.ftz.f nvvm.cos.approx.f nvvm.cos.approx.ftz.f nvvm.rcp.approx.ftz.f nvvm.rsqrt.approx.f "
     "nvvm.rsqrt.approx.ftz.f nvvm.sqrt.approx.f nvvm.sqrt.approx.ftz.f nvvm.rcp.rn.f nvvm.sqrt.rn.f nvvm.saturate.f "
     "sqrt.f32 fabs.f32 floor.f32 ceil.f32 trunc.f32 rint.f32 roundeven.f32"),
    ("sm_75", _F, (_F, _F), "nvvm.div.approx.f nvvm.div.approx.ftz.f nvvm.div.full nvvm.div.rn.f nvvm.mul.rn.f nvvm.mul.rz.f "
     "nvvm.add.rn.f nvvm.add.rz.f nvvm.fmin.f nvvm.fmax.f copysign.f32 minnum.f32 maxnum.f32 minimum.f32 maximum.f32"),
    ("sm_80", _F, (_F, _F), "nvvm.fmin.nan.f nvvm.fmax.nan.f"),
    ("sm_75", _F, (_F, _F, _F), "nvvm.fma.rn.f nvvm.fma.rz.f nvvm.fma.rm.f nvvm.fma.rp.f fma.f32"),
    ("sm_75", _D, (_D,), "nvvm.rcp.approx.ftz.d nvvm.rsqrt.approx.d sqrt.f64 fabs.f64"),
    ("sm_75", _D, (_D, _D, _D), "fma.f64"),
    ("sm_80", _H, (_F, _F), "nvvm.ff2f16x2.rn"),
    ("sm_75", _I, (), "nvvm.read.ptx.sreg.laneid nvvm.read.ptx.sreg.warpid nvvm.read.ptx.sreg.nwarpid nvvm.read.ptx.sreg.smid "
     "nvvm.read.ptx.sreg.nsmid nvvm.read.ptx.sreg.clock nvvm.read.ptx.sreg.lanemask.eq nvvm.read.ptx.sreg.lanemask.lt "
     "nvvm.read.ptx.sreg.lanemask.le nvvm.read.ptx.sreg.lanemask.gt nvvm.read.ptx.sreg.lanemask.ge nvvm.activemask"),
    ("sm_75", _L, (), "nvvm.read.ptx.sreg.clock64 nvvm.read.ptx.sreg.globaltimer"),
    ("sm_75", _I, (_I,), "ctpop.i32 bitreverse.i32 bswap.i32"),
    ("sm_75", _L, (_L,), "ctpop.i64 bitreverse.i64 bswap.i64"),
    ("sm_75", _I, (_I, _I), "nvvm.mulhi.i nvvm.mulhi.ui nvvm.mul24.i nvvm.mul24.ui nvvm.match.any.sync.i32 umin.i32 umax.i32 "
     "smin.i32 smax.i32 uadd.sat.i32 sadd.sat.i32 usub.sat.i32 ssub.sat.i32"),
    ("sm_80", _I, (_I, _I), "nvvm.redux.sync.add nvvm.redux.sync.min nvvm.redux.sync.max nvvm.redux.sync.umin "
     "nvvm.redux.sync.umax nvvm.redux.sync.and nvvm.redux.sync.or nvvm.redux.sync.xor"),
    ("sm_75", _I, (_I, _I, _I), "nvvm.prmt nvvm.sad.i nvvm.sad.ui nvvm.fns nvvm.idp4a.s.s nvvm.idp4a.s.u nvvm.idp4a.u.s "
     "nvvm.idp4a.u.u fshl.i32 fshr.i32"),
    ("sm_75", _L, (_L, _L), "nvvm.mulhi.ll nvvm.mulhi.ull"),
    ("sm_75", _I, (_I, _L), "nvvm.match.any.sync.i64"),
    ("sm_75", _I, (_I, _B), "nvvm.vote.ballot.sync"),
    ("sm_75", _B, (_I, _B), "nvvm.vote.all.sync nvvm.vote.any.sync nvvm.vote.uni.sync"),
    ("sm_75", _I, (_I, _I, _I, _I), "nvvm.shfl.sync.idx.i32 nvvm.shfl.sync.up.i32 nvvm.shfl.sync.down.i32 nvvm.shfl.sync.bfly.i32"),
    ("sm_75", _F, (_I, _F, _I, _I), "nvvm.shfl.sync.idx.f32 nvvm.shfl.sync.up.f32 nvvm.shfl.sync.down.f32 nvvm.shfl.sync.bfly.f32"),
    ("sm_75", "void", (), "nvvm.membar.cta nvvm.membar.gl nvvm.membar.sys nvvm.exit"),
    ("sm_75", "void", (_I,), "nvvm.bar.warp.sync nvvm.barrier.cta.sync.aligned.all nvvm.nanosleep"),
    ("sm_75", "void", (_I, _I), "nvvm.barrier.cta.sync.aligned.count nvvm.barrier.cta.arrive.aligned.count"),
)  # fmt: skip
"""First architecture, types of the result and of the operands, names."""
TABLE = {f"llvm.{name}": (arch, result, given) for arch, result, given, names in _ROWS for name in names.split()}
"""The first architecture of each intrinsic, and the types of its result and operands."""
_ELSEWHERE = {
    "__syncthreads": 'T.tvm_storage_sync("shared")', "__syncwarp": 'T.tvm_storage_sync("warp")', "atomicAdd": "T.atomic_add",
    "__shfl_sync": "T.tvm_warp_shuffle", "__shfl_up_sync": "T.tvm_warp_shuffle_up", "__shfl_xor_sync": "T.tvm_warp_shuffle_xor",
    "__shfl_down_sync": "T.tvm_warp_shuffle_down", "__activemask": "T.tvm_warp_activemask", "__popc": "T.popcount",
    "__dp4a": "T.dp4a", "__clz": "T.clz", "printf": "unity.check_gpu, and print its buffers",
}  # fmt: skip
"""The intrinsics of script for functions of CUDA's headers."""


def call_llvm(w: FunctionWriter, call: Call) -> str:
    """Call an intrinsic of the table, with exactly its types."""
    name = called_name(call)
    name = name if name.startswith("llvm.") else f"llvm.{name}"
    row = TABLE.get(name)
    if row is None:
        similar = get_close_matches(name, TABLE, 3, 0.7) or list(TABLE)[:3]
        raise CodegenError("E527", f"{name} is not among the intrinsics of LLVM that kernels may call", call.span,
                           help=f"there are {', '.join(similar)} and others: docs/gpu.md#code")  # fmt: skip
    arch, result, params = row
    require(w, arch, call)
    operands = without_arity(call)
    kinds = tuple([llvm_type(dtype_of(a)) for a in operands])
    expected = dtype_of(call)
    if kinds != params or llvm_type(expected) != result:
        shown, wanted = ", ".join(kinds), ", ".join(params)
        raise CodegenError(
            "E527", f"{name} is ({wanted}) -> {result}, called as ({shown}) -> {llvm_type(expected)}", call.span
        )
    given = ", ".join([f"{kind} {native(w, w.value(a), dtype_of(a))}" for kind, a in zip(kinds, operands)])
    w.module.declare(f"@{name}", f"declare {result} @{name}({', '.join(params)})\n")
    return from_native(w, w.call(result, f"@{name}", given), expected)


def refuse_call(w: FunctionWriter, call: Call) -> str:
    """Refuse a function of the host or of CUDA's headers: none is linked to kernels. Raises CodegenError E527."""
    name = called_name(call)
    plain = f"T.{name.strip('_').removesuffix('f')}"
    instead = _ELSEWHERE.get(name, plain if plain in KNOWN else "")
    help = f"use {instead}" if instead else "write it in script, or name an instruction by T.call_llvm_pure_intrin"
    if "packed" in call.op_name:
        help = "registered functions run on the host: call them outside of the kernel, in a program of their own"
    raise CodegenError("E527", f"a kernel cannot call {name!r}: no functions are linked to it", call.span, help=help)


EMITTERS: Intrinsics = {
    **dict.fromkeys(("T.call_llvm_intrin", "T.call_llvm_pure_intrin"), call_llvm),
    **dict.fromkeys(
        ("T.call_extern", "T.call_pure_extern", "T.call_packed", "T.tvm_call_packed", "T.call_cpacked"), refuse_call
    ),
}
