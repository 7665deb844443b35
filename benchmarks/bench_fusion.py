"""Chains of operators against PyTorch eager, and against this compiler without fusion, in one run on one thread.

    python benchmarks/bench_fusion.py

Prints the best of several interleaved runs in microseconds, and the ratios.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("UNITY_NUM_THREADS", "1")

import numpy as np
import torch

import unity
from unity.script import parse
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

UNFUSED = DEFAULT_PIPELINE.without("annotate_tir_op_pattern", "fuse_ops", "fuse_tir")
CHEAP: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ('R.add(V, R.const(0.5, "float32"))', lambda v, x: v + 0.5),
    ('R.multiply(V, R.const(0.9, "float32"))', lambda v, x: v * 0.9),
    ("R.nn.relu(V)", lambda v, x: torch.relu(v)),
    ("R.subtract(V, x)", lambda v, x: v - x),
    ('R.maximum(V, R.const(-1.0, "float32"))', lambda v, x: torch.clamp_min(v, -1.0)),
    ("R.abs(V)", lambda v, x: torch.abs(v)),
    ("R.negative(V)", lambda v, x: -v),
    ('R.minimum(V, R.const(3.0, "float32"))', lambda v, x: torch.clamp_max(v, 3.0)),
    ("R.square(V)", lambda v, x: torch.square(v)),
    ("R.multiply(V, x)", lambda v, x: v * x),
]


def program(params: str, lines: list[str]) -> unity.ir.IRModule:
    """A module with one dataflow block; the last line binds ``gv``."""
    body = "".join([f"            {line}\n" for line in lines])
    return parse(
        f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n        with R.dataflow():\n{body}"
        "            R.output(gv)\n        return gv\n"
    )


def chain(count: int, size: int) -> tuple[unity.ir.IRModule, list[np.ndarray], Callable[..., Any]]:
    """``count`` cheap elementwise operators over ``size`` values."""
    steps = (CHEAP * (count // len(CHEAP) + 1))[:count]
    names = ["x", *[f"v{k}" for k in range(count - 1)], "gv"]
    lines = [f"{names[k + 1]} = {text.replace('V', names[k])}" for k, (text, _) in enumerate(steps)]

    def eager(x: torch.Tensor) -> torch.Tensor:
        v = x
        for _, step in steps:
            v = step(v, x)
        return v

    return program(f'x: R.Tensor(({size},), "float32")', lines), [np.random.randn(size).astype("float32")], eager


def masked_softmax(heads: int, size: int) -> tuple[unity.ir.IRModule, list[np.ndarray], Callable[..., Any]]:
    """Scale, mask and softmax of attention scores."""
    params = f'x: R.Tensor((1, {heads}, {size}, {size}), "float32"), m: R.Tensor((1, 1, {size}, {size}), "float32")'
    lines = ['a = R.multiply(x, R.const(0.125, "float32"))', "b = R.add(a, m)", "gv = R.nn.softmax(b, axis=-1)"]
    arrays = [np.random.randn(1, n, size, size).astype("float32") for n in (heads, 1)]
    return program(params, lines), arrays, lambda x, m: torch.softmax(x * 0.125 + m, -1)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    cases = {
        "20 cheap elementwise, 1M values": chain(20, 1_000_000),
        "20 cheap elementwise, 10k values": chain(20, 10_000),
        "scale + mask + softmax, 12 x 128 x 128": masked_softmax(12, 128),
        "scale + mask + softmax, 12 x 512 x 512": masked_softmax(12, 512),
    }
    print(f"{'':42}{'fused':>10}{'unfused':>10}{'torch':>10}{'torch / fused':>15}")
    for name, (mod, arrays, eager) in cases.items():
        fused = unity.VirtualMachine(unity.compile(mod))["main"]
        unfused = unity.VirtualMachine(unity.compile(mod, pipeline=UNFUSED))["main"]
        tensors = [torch.from_numpy(a) for a in arrays]
        np.testing.assert_allclose(fused(*arrays).numpy(), eager(*tensors).numpy(), rtol=1e-4, atol=1e-6)
        best = [float("inf")] * 3
        for _ in range(40):
            for place, (function, given) in enumerate(((fused, arrays), (unfused, arrays), (eager, tensors))):
                start = time.perf_counter()
                function(*given)
                best[place] = min(best[place], time.perf_counter() - start)
        print(f"{name:42}" + "".join([f"{seconds * 1e6:10.0f}" for seconds in best]) + f"{best[2] / best[0]:15.1f}")


if __name__ == "__main__":
    main()
