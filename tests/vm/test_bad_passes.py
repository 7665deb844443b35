"""A pass that leaves a size which nothing binds is named: right behind it where modules are verified, else where no code can be made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import unity
from unity.ir import AllocBuffer, Var, replace, rewrite
from unity.script import parse
from unity.support.errors import InternalError, VerifyError
from unity.transform import prim_func_pass
from unity.transform.relax.pipeline import DEFAULT_PIPELINE
from unity.transform.tir.pipeline import CPU_PIPELINE

PROGRAM = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    T.func_attr({"tir.is_scheduled": True})
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    held = T.alloc_buffer((n,), "float32")
    for i in range(n):
        held[i] = A[i] * T.float32(2)
    for i in range(n):
        C[i] = held[i] + A[n - 1 - i]
"""


@prim_func_pass(name="test_bad.other_symbol")
def other_symbol(func: Any) -> Any:
    """The sizes of what is allocated become other symbols, which nothing binds."""

    def anew(alloc: AllocBuffer) -> AllocBuffer:
        sizes = [Var(s.name, s.ty) if isinstance(s, Var) else s for s in alloc.buffer.shape]
        return replace(alloc, buffer=replace(alloc.buffer, shape=tuple(sizes)))

    return replace(func, body=rewrite(func.body, {AllocBuffer: anew}))


@pytest.mark.parametrize("level", ["1", "2"])
def test_the_pass_is_named(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setenv("UNITY_VERIFY", level)
    lowering = CPU_PIPELINE.insert_after("version_predicates", other_symbol)
    with pytest.raises(
        InternalError, match=r"pass test_bad.other_symbol broke .*E340.*variable n is not defined"
    ) as caught:
        unity.compile(parse(PROGRAM), tir_pipeline=lowering)
    assert caught.value.code == "E904"
    saved = re.search(r"saved in (\S+\.py)", caught.value.help or "")
    assert saved is not None
    Path(saved[1]).unlink()


def test_a_program_that_was_none_before_its_lowering() -> None:
    graph = DEFAULT_PIPELINE.insert_after(DEFAULT_PIPELINE.passes[-1].name, other_symbol)
    with pytest.raises(VerifyError, match=r"E340.*variable n is not defined"):
        unity.compile(parse(PROGRAM), pipeline=graph)
