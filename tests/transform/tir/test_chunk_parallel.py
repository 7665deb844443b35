"""Chunks of parallel loops are decided by a pass; code generation does as it says."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir.expr import IntImm
from unity.ir.interpret import run
from unity.ir.stmt import AttrStmt, For
from unity.ir.walk import collect, substitute
from unity.script import parse
from unity.support.errors import CodegenError
from unity.transform.tir.analysis.parallel_cost import PARALLEL_CHUNK, SHARED_WORK
from unity.transform.tir.loops.chunk_parallel import chunk_parallel
from unity.transform.tir.pipeline import CPU_PIPELINE


def program(loops, shape="n, m"):
    return parse(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, ({shape}), "float32")
    B = T.match_buffer(b, ({shape}), "float32")
{loops}
        B[i, j] = T.exp(A[i, j])
""")


ROWS = "    for i in T.parallel(n):\n      for j in range(m):"
BOTH = "    for i in T.parallel(n):\n      for j in T.parallel(m):"


def chunks(func):
    return [attr for attr in collect(func.body, AttrStmt) if attr.key == PARALLEL_CHUNK]


@pytest.mark.parametrize(
    "n, m, expected", [(1000, 2, 1000), (1000, 1 << 12, 16), (1, 1 << 20, 1), (65, 1 << 16, 2), (0, 5, 0)]
)
def test_symbolic_work_is_shared_where_there_is_enough(n, m, expected):
    (attr,) = chunks(chunk_parallel.on(program(ROWS)))
    loop = attr.body
    assert type(loop) is For and loop.kind == "parallel"
    symbols = {loop.extent: n, loop.body.extent: m}
    value = substitute(attr.value, {symbol: IntImm(number, symbol.ty) for symbol, number in symbols.items()})
    probe = parse('@T.prim_func\ndef main(A: T.Buffer((1,), "int64")):\n    A[0] = T.int64(0)\n')
    stored = unity.ir.replace(probe.body, value=value)
    out = np.zeros(1, "int64")
    run(unity.ir.replace(probe, body=stored), "main", out)
    assert out[0] == expected and (expected == n) == (n * m * 40 < SHARED_WORK or n <= 1)


def test_few_outer_iterations_become_one_loop():
    func = chunk_parallel.on(program(BOTH.replace("T.parallel(n)", "T.parallel(3)"), "3, m"))
    (attr,) = chunks(func)
    assert len(collect(func.body, For)) == 1 and "i_j" in str(attr)
    many = chunk_parallel.on(program(BOTH.replace("T.parallel(n)", "T.parallel(300)"), "300, m"))
    assert len(chunks(many)) == 1 and len(collect(many.body, For)) == 2


def test_said_once():
    func = chunk_parallel.on(program(ROWS))
    assert chunk_parallel.on(func) is func
    serial = program(ROWS.replace("T.parallel(n)", "range(n)"))
    assert chunk_parallel.on(serial) is serial


@pytest.mark.parametrize(
    "chunk, code",
    [("T.int64(7)", None), ("n - n - T.int64(3)", None), ("T.float32(2)", "E523"), ("T.int32(2)", "E523")],
)
def test_code_generation_does_as_it_is_told(chunk, code):
    func = program(
        f'    with T.attr(0, "{PARALLEL_CHUNK}", {chunk}):\n     for i in T.parallel(n):\n      for j in range(m):'
    )
    x, y = np.linspace(-1, 1, 60, dtype="float32").reshape(20, 3), np.zeros((20, 3), "float32")
    if code is not None:
        with pytest.raises(CodegenError) as caught:
            unity.compile(func)
        assert caught.value.code == code
        return
    unity.compile(func, tir_pipeline=CPU_PIPELINE)["main"](x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=3e-7)
