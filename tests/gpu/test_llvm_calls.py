"""Intrinsics of LLVM by name in kernels: all of the table compile, for the first architecture of each; the rest is refused."""

from __future__ import annotations

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import device_function
from test_cuda_instructions import ptx

import unity
from unity.script import parse
from unity.target.cuda.codegen import write_programs
from unity.target.cuda.llvm_calls import TABLE

TYPES = {
    "float": "float32",
    "double": "float64",
    "i32": "int32",
    "i64": "int64",
    "i1": "bool",
    "<2 x half>": "float16x2",
}


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_the_table_compiles(arch: str) -> None:
    """All intrinsics of an architecture in one kernel: LLVM would end the process over one that it lacks."""
    lines, used = [], set()
    for name, (first, result, params) in TABLE.items():
        if first != arch:
            continue
        operands = [f'T.Cast("{TYPES[kind]}", X[tx + {k}])' for k, kind in enumerate(params)]
        used.add(TYPES.get(result, ""))
        text = f'T.call_llvm_intrin("{TYPES.get(result, "void")}", "{name}", {", ".join(operands)})'.replace(", )", ")")
        if result == "void":
            lines += [text] if name != "llvm.nvvm.exit" else []
        elif result == "<2 x half>":
            lines.append(f"Y_{TYPES[result][:-2]}[T.Ramp(tx * 2, 1, 2)] = {text}")
        else:
            lines.append(f"Y_{TYPES[result]}[tx] = {text}")
    buffers = {"X": "float32", **{f"Y_{kind.removesuffix('x2')}": kind.removesuffix("x2") for kind in used if kind}}
    assert "st.global" in ptx(device_function("\n".join(lines), **buffers), arch)


@pytest.mark.gpu
def test_values_on_the_device() -> None:
    lines = [
        'Y[tx] = T.call_llvm_pure_intrin("int32", "llvm.nvvm.read.ptx.sreg.laneid")',
        'Y[32 + tx] = T.call_llvm_intrin("int32", "nvvm.redux.sync.add", X[tx], T.int32(-1))',
        'Y[64 + tx] = T.call_llvm_intrin("int32", "llvm.nvvm.vote.ballot.sync", T.int32(-1), X[tx] > 5)',
        'Y[96 + tx] = T.call_llvm_pure_intrin("int32", "llvm.nvvm.prmt", T.uint32(3), X[tx], X[tx], 0x0123)',
    ]
    head = '@T.prim_func\ndef main(X: T.Buffer((32,), "int32"), Y: T.Buffer((128,), "int32")):\n    for tx in T.thread_binding(32, "threadIdx.x"):\n'
    x = np.arange(32, dtype="int32")
    executable = unity.compile(parse(head + "\n".join([f"        {line}" for line in lines])), target="cuda")
    with device_or_emulated():
        y = unity.tensor(np.zeros(128, "int32"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
        found = y.numpy().reshape(4, 32)
    wanted = [x, np.full(32, x.sum()), np.full(32, -64), x.astype(">i4").view("<i4")]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "line, arch, message",
    [
        ('T.call_llvm_intrin("int32", "llvm.nvvm.redux.sync.add", X[tx], X[tx])', "sm_75", "E526.*needs sm_80"),
        (
            'T.call_llvm_intrin("float32", "llvm.nvvm.redux.sync.add", X[tx], X[tx])',
            "sm_80",
            r"E527.*\(i32, i32\) -> i32, called as",
        ),
        ('T.call_llvm_intrin("float32", "llvm.sin.f32", T.float32(1))', "sm_80", "E527.*not among"),
        ('T.call_llvm_pure_intrin("int32", "llvm.nvvm.prnt", X[tx])', "sm_80", r"E527(.|\n)*llvm.nvvm.prmt"),
        ('T.call_extern("float32", "__expf", T.float32(1))', "sm_80", r"E527.*__expf(.|\n)*use T.exp"),
        ('T.call_extern("void", "__syncthreads")', "sm_80", r"E527(.|\n)*tvm_storage_sync"),
        ('T.call_packed("f", X[tx])', "sm_80", r"E527(.|\n)*outside of the kernel"),
    ],
)
def test_what_is_refused(line: str, arch: str, message: str) -> None:
    with pytest.raises(unity.UnityError, match=message):
        write_programs({"kernel": device_function(line, X="int32")}, unity.Target(f"cuda -arch={arch}"))
