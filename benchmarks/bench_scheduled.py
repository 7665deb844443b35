"""Scheduled and plain tensor programs beside torch eager, one thread, in one run: medians of interleaved calls, outputs checked.

    python benchmarks/bench_scheduled.py [part of a name ...] [--seconds 0.5]

Columns: our time, torch's time, torch / ours (above 1: ours is faster), GFLOP/s, milliseconds of lowering, writing LLVM IR, LLVM.
The convolutions are schedules of ``benchmarks/scheduled``, the products loops as a schedule leaves them; "plain" programs have no
schedule.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.scheduled.conv import conv2d, depthwise
from benchmarks.scheduled.matmul import matmul
from benchmarks.scheduled.measure import build, interleaved, prepared, set_num_threads
from benchmarks.scheduled.plain import plain_matmul, plain_row_sums, plain_softmax
from unity.transform.schedule import Schedule

Tensors = list[torch.Tensor]


@dataclass
class Case:
    """A program, the shapes of its arguments (the last is the output), the same in torch, and its floating-point operations."""

    name: str
    program: str | Schedule
    shapes: tuple[tuple[int, ...], ...]
    torch: Callable[[Tensors], torch.Tensor]
    work: float
    prepare: Callable[[Tensors], Tensors] = lambda tensors: tensors
    result: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor


def _products() -> list[Case]:
    found = []
    for m, n, k in ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (500, 500, 500), (128, 3072, 768)):
        shapes = ((m, k), (k, n), (m, n))
        text = matmul(m, n, k, parallel=False)
        found.append(Case(f"matmul {m}x{n}x{k}", text, shapes, lambda t: t[0] @ t[1], 2.0 * m * n * k))
    for m, n, k, transposed in (
        (512, 512, 512, False),
        (128, 768, 768, True),
        (1, 3072, 768, False),
        (1, 3072, 768, True),
    ):
        shapes = ((m, k), (n, k) if transposed else (k, n), (m, n))
        name = f"plain matmul {m}x{n}x{k}{' transposed' if transposed else ''}"
        other: Callable[[Tensors], torch.Tensor] = (lambda t: t[0] @ t[1].T) if transposed else (lambda t: t[0] @ t[1])
        found.append(Case(name, plain_matmul(m, n, k, transposed), shapes, other, 2.0 * m * n * k))
    return found


def _convolutions() -> list[Case]:
    found = []
    for size, channels, pixels, vectors in ((56, 64, 4, 4), (14, 256, 7, 4), (28, 128, 4, 4)):
        program = conv2d(size, size, channels, channels, pixels, vectors)
        shapes = ((size, size, channels), (3, 3, channels, channels), (size, size, channels))
        work = 2.0 * size * size * channels * channels * 9
        name = f"conv2d 3x3 {size}x{size}x{channels}"
        found.append(
            Case(
                name, program, shapes, lambda t: F.conv2d(t[0], t[1], padding=1), work, _channels_first, _channels_last
            )
        )
    for size, channels in ((56, 96), (14, 384)):
        shapes = ((size, size, channels), (3, 3, channels), (size, size, channels))
        work = 2.0 * size * size * channels * 9

        def grouped(t: Tensors) -> torch.Tensor:
            return F.conv2d(t[0], t[1], padding=1, groups=t[0].shape[1])

        name = f"depthwise 3x3 {size}x{size}x{channels}"
        found.append(Case(name, depthwise(size, size, channels), shapes, grouped, work, _depth_first, _channels_last))
    return found


def _channels_first(tensors: Tensors) -> Tensors:
    image, weight = tensors
    return [image.permute(2, 0, 1)[None].contiguous(), weight.permute(3, 2, 0, 1).contiguous()]


def _depth_first(tensors: Tensors) -> Tensors:
    image, weight = tensors
    return [image.permute(2, 0, 1)[None].contiguous(), weight.permute(2, 0, 1)[:, None].contiguous()]


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[0].permute(1, 2, 0)


def _rows() -> list[Case]:
    rows, columns = 128, 4096
    work = float(rows * columns)
    return [
        Case("plain softmax 128x4096", plain_softmax(rows, columns), ((rows, columns),) * 2,
             lambda t: torch.softmax(t[0], -1), 4 * work),
        Case("plain row sums 128x4096", plain_row_sums(rows, columns), ((rows, columns), (rows,)),
             lambda t: t[0].sum(-1), work),
    ]  # fmt: skip


def measure(case: Case, seconds: float) -> str:
    """One line of the table. Raises AssertionError where the outputs differ."""
    kernel = build(case.program if isinstance(case.program, str) else case.program.mod["main"])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in case.shapes[:-1]]
    output = np.full(case.shapes[-1], np.nan, "float32")
    kernel.call(*arrays, output)
    tensors = case.prepare([torch.from_numpy(array) for array in arrays])
    expected = case.result(case.torch(tensors)).numpy()
    error = float(np.abs(output - expected).max() / np.abs(expected).max())
    assert error < 1e-5, f"{case.name}: outputs differ by {error}"
    ours, theirs = interleaved([prepared(kernel, [*arrays, output]), lambda: case.torch(tensors)], seconds)
    build_ms = f"{kernel.lower_ms:5.0f} {kernel.write_ms:4.0f} {kernel.llvm_ms:5.0f}"
    return f"{case.name:32s} {ours * 1e3:9.3f} {theirs * 1e3:9.3f} {theirs / ours:6.2f} {case.work / ours / 1e9:7.1f}   {build_ms}"


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    set_num_threads(1)
    print(f"{'':32s} {'ours ms':>9s} {'torch ms':>9s} {'ratio':>6s} {'GFLOP/s':>7s}   build: lower, write, LLVM")
    for case in [*_products(), *_convolutions(), *_rows()]:
        if not options.names or any([name in case.name for name in options.names]):
            print(measure(case, options.seconds), flush=True)


if __name__ == "__main__":
    main()
