"""Every lowering pass on every program: the result runs the same in the reference interpreter, prints, and parses back."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import LOOPS
from tir_programs import HEADER, PROGRAMS, arguments

from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.ir.structural import structural_equal
from unity.ir.verifier.verifier import verify
from unity.script import parse, script


def read(text: str) -> PrimFunc:
    """The function ``main`` of a script."""
    found = parse(HEADER + text)
    return found["main"] if isinstance(found, IRModule) else found  # type: ignore[no-any-return]


def results(func: PrimFunc, name: str) -> list[np.ndarray]:
    """Arguments after an interpreted run."""
    arrays = arguments(name)
    run(func, None, *arrays)
    return arrays


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_each_pass_keeps_the_meaning(name: str) -> None:
    func = read(PROGRAMS[name])
    expected = results(func, name)
    for step in LOOPS:
        lowered = step.on(func)
        if lowered is func:
            continue
        verify(lowered, 2)
        text = script(lowered)
        assert structural_equal(read(text), lowered), f"{step.name} prints what reads back differently:\n{text}"
        for got, want in zip(results(lowered, name), expected, strict=True):
            tolerance = 2e-2 if name == "narrow" else 1e-6
            np.testing.assert_allclose(
                got.astype("float64"),
                want.astype("float64"),
                rtol=tolerance,
                atol=1e-6,
                err_msg=f"after {step.name}:\n{text}",
            )
        assert step.on(lowered) is lowered or step.name in ("order_loops", "simplify"), f"{step.name} is not idempotent"
        func = lowered
