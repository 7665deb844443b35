"""Every instruction that code for CUDA devices may have: through LLVM, which ends the process over one that it cannot select, and
through NVIDIA's assembler where there is one."""

from __future__ import annotations

import itertools

import pytest
from device_programs import FLOATS, INTEGERS, copy_body, device_function, ldmatrix_body, mma_body, wmma_body

import unity
from unity.ffi.dtype import DataType
from unity.ir import PrimFunc
from unity.ir.intrinsic import BINARY_MATH, UNARY_MATH
from unity.target.cuda.assemble import assemble, find_assembler
from unity.target.cuda.codegen import ptx_of, write_programs
from unity.target.cuda.matrix import MMA, WMMA

ARCHS = ("sm_75", "sm_80", "sm_90a")
XY = {"X": "float32", "Y": "float32"}


def ptx(func: PrimFunc, arch: str) -> str:
    """PTX of one kernel; assembled as well where that can be done."""
    written = write_programs({"kernel": func}, unity.Target(f"cuda -arch={arch}"))
    text = ptx_of(written.device.text, written.arch)
    assert ".entry unity_kernel" in text
    if find_assembler():
        (resources,) = assemble(text, arch).kernels.values()
        assert resources.spill_bytes == 0
    return text


def matrix_programs() -> list[tuple[str, PrimFunc, str]]:
    """(instruction, kernel, first architecture that has it)."""
    found = []
    for (shape, a, b, c), form in MMA.items():
        counts = tuple([4 * n // DataType(t).itemsize for n, t in ((form.a, a), (form.b, b), (form.c, c))])
        found.append((f"mma.sync.aligned.{shape}", device_function(mma_body(shape, a, b, c, counts), **XY), form.arch))
    for (operand, total), (form, _, _) in WMMA.items():
        for left, right in itertools.product(("row_major", "col_major"), repeat=2):
            found.append(("wmma.mma.sync", device_function(wmma_body(operand, total, left, right), **XY), form.arch))
    for trans, number in itertools.product((False, True), (1, 2, 4)):
        found.append((f"m8n8.x{number}", device_function(ldmatrix_body(trans, number), **XY), "sm_75"))
    for size, condition in itertools.product((4, 8, 16), ("", ", tx < 7")):
        found.append(("cp.async.c", device_function(copy_body(size, condition), **XY), "sm_80"))
    return found


@pytest.mark.parametrize("arch", ARCHS)
def test_matrix_and_copy_instructions(arch: str) -> None:
    for instruction, func, first in matrix_programs():
        if int(first[3:5]) <= int(arch[3:5]):
            assert instruction in ptx(func, arch)
            continue
        with pytest.raises(unity.UnityError, match=f"needs {first}") as refused:
            ptx(func, arch)
        assert refused.value.code == "E526"


def scalar_expressions(dtype: str) -> dict[str, list[str]]:
    """Expressions of X[tx] and Y[tx] by the type of their results."""
    found: dict[str, list[str]] = {dtype: ["T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), X[tx], 1, 32, 32)"]}
    same = found[dtype]
    same += [f"X[tx] {op} Y[tx]" for op in ("+", "-", "*")]
    same += [f"T.{name}(X[tx], Y[tx])" for name in ("min", "max", "floordiv", "floormod", "truncdiv", "truncmod")]
    same.append("T.if_then_else(X[tx] < Y[tx], X[tx], Y[tx])")
    tests = [f"X[tx] {op} Y[tx]" for op in ("<", "==", ">=")]
    if dtype in FLOATS:
        same += ["X[tx] / Y[tx]", "T.fma(X[tx], Y[tx], X[tx])", "T.ldexp(X[tx], tx)"]
        same += [f"T.{name}(X[tx])" for name in UNARY_MATH.split()]
        same += [f"T.{name}(X[tx], Y[tx])" for name in BINARY_MATH.split() if name != "ldexp"]
        tests += [f"T.{name}(X[tx])" for name in ("isnan", "isinf", "isfinite")]
    elif dtype != "bool":
        same += [f"T.{name}(X[tx])" for name in ("popcount", "clz", "bitwise_not", "abs")]
        names = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
        same += [f"T.{name}(X[tx], Y[tx])" for name in names]
    for other in FLOATS + INTEGERS:
        found.setdefault(other, []).append(f'T.Cast("{other}", X[tx])')
    found.setdefault("bool", []).extend(tests)
    return found


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_scalar_instructions(dtype: str, arch: str) -> None:
    """All of one type in one kernel."""
    results = scalar_expressions(dtype)
    lines = [
        f"Z_{kind}[{32 * place} + tx] = {expression}"
        for kind, expressions in results.items()
        for place, expression in enumerate(expressions)
    ]
    pointers = {"X": dtype, "Y": dtype, **{f"Z_{kind}": kind for kind in results}}
    assert "st.global" in ptx(device_function("\n".join(lines), **pointers), arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("dtype", [*FLOATS[:4], *INTEGERS[:-1]])
def test_atomic_sums(dtype: str, arch: str) -> None:
    text = ptx(device_function("T.atomic_add(T.address_of(X[tx % 3]), Y[tx])", X=dtype, Y=dtype), arch)
    assert "atom." in text or "red." in text
