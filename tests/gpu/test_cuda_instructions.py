"""Every instruction that code for CUDA devices may have: through LLVM, which ends the process over one that it cannot select, and
through NVIDIA's assembler where there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from device_programs import FLOATS, INTEGERS, device_function, matrix_programs, scalar_expressions

import unity
from unity.ir import PrimFunc
from unity.target.cuda.assemble import assemble, find_assembler
from unity.target.cuda.codegen import ptx_of, write_programs

ARCHS = ("sm_75", "sm_80", "sm_90a")


def ptx(func: PrimFunc, arch: str) -> str:
    """PTX of one kernel."""
    written = write_programs({"kernel": func}, unity.Target(f"cuda -arch={arch}"))
    text = ptx_of(written.device, written.arch)
    assert ".entry unity_kernel" in text
    return text


def assembled(func: PrimFunc, arch: str) -> str:
    """PTX of one kernel, which the assembler takes where there is one."""
    text = ptx(func, arch)
    if find_assembler():
        (resources,) = assemble(text, arch).kernels.values()
        assert resources.spill_bytes == 0
    return text


@pytest.mark.parametrize("arch", ARCHS)
def test_matrix_and_copy_instructions(arch: str) -> None:
    for instruction, func, first in matrix_programs():
        if int(first[3:5]) <= int(arch[3:5]):
            assert instruction in assembled(func, arch)
            continue
        with pytest.raises(unity.UnityError, match=f"needs {first}") as refused:
            ptx(func, arch)
        assert refused.value.code == "E526"


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
    assert "st.global" in assembled(device_function("\n".join(lines), **pointers), arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("dtype", [*FLOATS[:4], *INTEGERS[:-1]])
def test_atomic_sums(dtype: str, arch: str) -> None:
    text = assembled(device_function("T.atomic_add(T.address_of(X[tx % 3]), Y[tx])", X=dtype, Y=dtype), arch)
    assert "atom." in text or "red." in text


def test_intrinsic_table() -> None:
    """Every intrinsic of script, with operands of many kinds, has code or is refused; in a process of its own, which LLVM may end."""
    script = Path(__file__).with_name("intrinsic_table.py")
    ran = subprocess.run([sys.executable, str(script), "sm_80"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert len(ran.stdout.split()) > 50
