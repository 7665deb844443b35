"""Symbols of shapes are known to be sizes, whether they are dimensions, parts of one or parameters too; data is left as written."""

import pytest

from unity.script import parse
from unity.transform.tir.expressions.simplify import simplify

TEXT = """
@T.prim_func
def f(A: T.Buffer((M,), "float32"), B: T.Buffer((M,), "float32")PARAM):
    for v in T.serial((M + 4) // 5):
        if M - v * 5 - 4 > 0:
            for k in T.serial(5):
                B[v * 5 + k] = A[T.min(v * 5 + k, M - 1)]
        elif n >= 0:
            B[v * 5] = A[T.min(v * 5 + 4, M - 1)]
"""


@pytest.mark.parametrize("size", ["n", "4 * (n // 4)", "n * 3", "n // 2 * 6"])
@pytest.mark.parametrize("param", ["", ", n: T.int64"])
def test_decided_minima_go(size, param):
    text = TEXT.replace("PARAM", param).replace("M", size if size == "n" else f"({size})")
    if not param:
        text = text.replace("A: T.Buffer", 'C: T.Buffer((n,), "float32"), A: T.Buffer')
        text = text.replace(":\n    for", ":\n    n = T.int64()\n    for", 1) if "n = T.int64()" not in text else text
    made = simplify.on(parse(text)).script()
    assert "T.min" not in made and "n >= 0" not in made


def test_data_wraps():
    text = """
@T.prim_func
def f(n: T.int32, A: T.Buffer((4,), "int32")):
    for i in T.serial(4):
        if n + 1 > n:
            A[i] = n
"""
    assert "n + 1 > n" in simplify.on(parse(text)).script()
