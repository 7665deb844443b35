"""Programs through the lowering for devices, pass by pass: each module prints, parses back, verifies and runs with all its threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unity.ir.module import IRModule
from unity.ir.structural import assert_structural_equal
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.target import GPU_PIPELINE, check_gpu
from unity.transform import Pipeline

LAST_BARRIERS = max([place for place, step in enumerate(GPU_PIPELINE) if step.name == "thread_sync"])


def copied(mod: IRModule) -> IRModule:
    """The module, printed and parsed back. It must be the same."""
    verify(mod)
    again = parse(mod.script())
    assert_structural_equal(again, mod)
    return again


def lowered(mod: IRModule) -> IRModule:
    """The kernels of a scheduled module, which verifies, prints and parses back the same before and after every pass."""
    copied(mod)
    for step in GPU_PIPELINE:
        before, mod = mod, step(mod)
        if mod is not before:
            copied(mod)
    return mod


def through(
    mod: IRModule,
    inputs: Sequence[object],
    output: np.ndarray,
    expected: np.ndarray,
    rtol: float = 1e-5,
    pipeline: Pipeline = GPU_PIPELINE,
) -> IRModule:
    """Run a program after every pass that changes it; its last argument is ``output``. From the barriers on nothing may be found
    wrong, and the numbers are those expected after every pass. Gives the lowered module."""
    for place, step in enumerate(pipeline):
        before, mod = mod, step(mod)
        if mod is before:
            continue
        again = copied(mod)
        output[...] = 0
        report = check_gpu(again, *inputs, output, name="main", traffic=False)
        if place >= LAST_BARRIERS:
            assert report.ok, f"after {step}:\n{mod.script()}\n{report}"
        np.testing.assert_allclose(output, expected, rtol=rtol, atol=rtol, err_msg=f"after {step}:\n{mod.script()}")
    return mod
