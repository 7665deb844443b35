"""Stores of vectors of which the first lanes are active: what lies behind them stays, for every type and number of lanes."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from levels import LEVELS, Level
from lowering import LOOPS

import unity
from unity.ffi.machine_code.llvm import assembly
from unity.script import parse
from unity.target.cpu.codegen import build_kernels, compile_options
from unity.transform.tir.pipeline import lower_prim_funcs

NARROWED = [
    ("float32", "bfloat16"), ("float32", "float16"), ("float32", "int8"), ("float64", "float32"), ("int32", "int16"),
    ("int32", "uint8"), ("int64", "int32"), ("int64", "int16"), ("int64", "int8"), ("int32", "bool"),
]  # fmt: skip
BEHIND = 8
"""Elements behind the vector."""


def narrowing(source: str, result: str, lanes: int, active: int, filled: bool = True) -> unity.PrimFunc:
    """A program that fills ``b`` with ones, if asked for, and converts the first ``active`` elements of a vector into it."""
    value = f"a[T.Ramp(0, 1, {lanes})]"
    value = (
        f"{value} != T.Broadcast(T.int32(0), {lanes})" if result == "bool" else f'T.Cast("{result}x{lanes}", {value})'
    )
    return parse(f"""
@T.prim_func
def f{active}(a: T.Buffer(({lanes},), "{source}"), b: T.Buffer(({lanes + BEHIND},), "{result}")):
    for i in range({(lanes + BEHIND) * filled}):
        b[i] = T.Cast("{result}", 1)
    b.vstore([T.Ramp(0, 1, {lanes})], {value}, predicate=T.Ramp(0, 1, {lanes}) < T.Broadcast({active}, {lanes}))
""")


CASES = [
    (*pair, lanes, LEVELS[(i + j + half) % 4])
    for i, pair in enumerate(NARROWED)
    for j, lanes in enumerate((2, 4, 8, 16))
    for half in (0, 2)
]
"""All pairs of types with all numbers of lanes, either on every level."""


@pytest.mark.parametrize(("source", "result", "lanes", "level"), CASES, indirect=["level"])
def test_what_lies_behind_stays(level: Level, source: str, result: str, lanes: int) -> None:
    programs = {f"f{k}": narrowing(source, result, lanes, k) for k in range(1, lanes + 1)}
    compiled = unity.VirtualMachine(unity.compile(unity.IRModule(programs, {}, {})))
    kind = ml_dtypes.bfloat16 if result == "bfloat16" else np.dtype(result)
    data = np.arange(2, lanes + 2).astype(source)
    level.require()
    for active in range(1, lanes + 1):
        out = np.zeros(lanes + BEHIND, kind)
        compiled[f"f{active}"](data, out)
        expected = np.ones(lanes + BEHIND, kind)
        expected[:active] = data[:active].astype(kind)
        np.testing.assert_array_equal(out.astype("float64"), expected.astype("float64"))


@pytest.mark.parametrize(("source", "result"), [pair for pair in NARROWED if pair != ("float64", "float32")])
def test_no_wider_element_is_stored(source: str, result: str) -> None:
    """In code for AVX-512, whatever machine this is."""
    target = unity.Target("llvm -mcpu=x86-64-v4")
    programs = {f"f{lanes}": narrowing(source, result, lanes, 1, filled=False) for lanes in (2, 4, 8, 16)}
    library = build_kernels(lower_prim_funcs(programs, LOOPS), target)
    text = assembly(library.ir_text, compile_options(target))
    assert "{%k1}" in text
    assert not re.findall(r"v(?:movs[sd]|mov[dq]|movlps|extractps|pextr[dq])\t.*, -?\d*\(%r.*", text)
