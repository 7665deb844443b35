"""Saved programs for devices run in a process that has never compiled anything, and loads no compiler for them, nor LLVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import unity
from unity.script import parse

RUN = """
import sys
sys.modules["llvmlite"] = None
import numpy as np
import unity
from unity.testing import emulated_gpu

with emulated_gpu("sm_80", races=False, traffic=False):
    machine = unity.VirtualMachine(unity.load(sys.argv[1]), unity.cuda(0))
    assert np.allclose(machine["main"](np.ones(4, "float32")).numpy(), np.e)
loaded = [name for name in sys.modules if name.startswith(("unity.target", "unity.transform", "unity.script", "llvmlite."))]
assert not loaded, loaded
"""
RUN_MODEL = """
import sys
sys.modules["llvmlite"] = None
import torch
import unity
from unity.testing import emulated_gpu

with emulated_gpu("sm_80", races=False, traffic=False):
    assert torch.equal(unity.load_model(sys.argv[1])(torch.ones(2, 4)), torch.ones(2, 4) * 2)
"""


def run(text: str, path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", text, str(path)], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"UNITY_CACHE": "off"})  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_saved_program(tmp_path: Path) -> None:
    mod = parse('@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    return R.exp(x)\n')
    unity.compile(mod, target="cuda").save(tmp_path / "exp.unity")
    run(RUN, tmp_path / "exp.unity")


def test_a_saved_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    unity.compile(Twice(), example_inputs=(torch.zeros(2, 4),), target="cuda").save(tmp_path / "twice.unity")
    run(RUN_MODEL, tmp_path / "twice.unity")
