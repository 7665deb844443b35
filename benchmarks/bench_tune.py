"""Forty programs that no rule was written for, each tuned with some trials: time of the default build by that of the winner.

``python benchmarks/bench_tune.py --trials 64 --threads 1``; ``--only conv`` takes those whose names have a text. Programs are
graph functions of one operator; where it becomes several tensor programs their times are added. Aim: geometric mean 1.3, none
below 1.0, ten of 1.5.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import unity
from unity import meta_schedule as ms
from unity.meta_schedule.extracted_task import extracted
from unity.meta_schedule.relax_integration import extracted_tasks_to_tune_contexts
from unity.meta_schedule.report import Row
from unity.meta_schedule.tune import tuned
from unity.script import parse

F32 = "float32"
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "product 77x384x1023": ("R.matmul(x, w)", {"x": (77, 1023), "w": (1023, 384)}),
    "product 1x511x2047": ("R.matmul(x, w)", {"x": (1, 2047), "w": (2047, 511)}),
    "product 3x1000x513": ("R.matmul(x, w)", {"x": (3, 513), "w": (513, 1000)}),
    "product 197x65x331": ("R.matmul(x, w)", {"x": (197, 331), "w": (331, 65)}),
    "product 33x7x4099": ("R.matmul(x, w)", {"x": (33, 4099), "w": (4099, 7)}),
    "product 1021x11x13": ("R.matmul(x, w)", {"x": (1021, 13), "w": (13, 11)}),
    "product of two inputs 129x127x255": ("R.matmul(x, y)", {"x": (129, 255), "y": (255, 127)}),
    "product transposed 61x95x301": ("R.matmul(x, R.permute_dims(y))", {"x": (61, 301), "y": (95, 301)}),
    "batched product 24x17x19x23": ("R.matmul(x, y)", {"x": (24, 17, 23), "y": (24, 23, 19)}),
    "batched product 96x5x5x64": ("R.matmul(x, y)", {"x": (96, 5, 64), "y": (96, 64, 5)}),
    "batched product 300x3x3x3": ("R.matmul(x, y)", {"x": (300, 3, 3), "y": (300, 3, 3)}),
    "contraction over two axes": ('R.einsum((x, y), subscripts="iab,abj->ij")', {"x": (37, 19, 23), "y": (19, 23, 41)}),
    "contraction of three": ('R.einsum((x, y), subscripts="bij,bkj->bik")', {"x": (7, 45, 61), "y": (7, 33, 61)}),
    "outer contraction": ('R.einsum((x, y), subscripts="ai,bj->abij")', {"x": (11, 31), "y": (13, 29)}),
    "grouped convolution": ("R.nn.conv2d(x, w, groups=4, padding=1)", {"x": (1, 32, 27, 27), "w": (48, 8, 3, 3)}),
    "grouped convolution of 2": ("R.nn.conv2d(x, w, groups=2)", {"x": (1, 22, 19, 19), "w": (26, 11, 3, 3)}),
    "dilated convolution": ("R.nn.conv2d(x, w, dilation=2, padding=2)", {"x": (1, 24, 29, 29), "w": (40, 24, 3, 3)}),
    "dilated convolution of 5": ("R.nn.conv2d(x, w, dilation=3)", {"x": (1, 9, 33, 33), "w": (17, 9, 5, 5)}),
    "strided convolution of 7": ("R.nn.conv2d(x, w, strides=3, padding=3)", {"x": (1, 3, 61, 61), "w": (19, 3, 7, 7)}),
    "convolution 1x9": ("R.nn.conv2d(x, w, padding=[0, 4])", {"x": (1, 21, 17, 45), "w": (23, 21, 1, 9)}),
    "convolution of 13 channels": ("R.nn.conv2d(x, w, padding=1)", {"x": (1, 13, 31, 31), "w": (37, 13, 3, 3)}),
    "transposed convolution": ("R.nn.conv2d_transpose(x, w, strides=2)", {"x": (1, 19, 15, 15), "w": (19, 27, 4, 4)}),
    "transposed convolution of 3": (
        "R.nn.conv2d_transpose(x, w, strides=2, padding=1)",
        {"x": (1, 32, 11, 11), "w": (32, 16, 3, 3)},
    ),
    "depthwise": ("R.nn.conv2d(x, w, groups=45, padding=1)", {"x": (1, 45, 29, 29), "w": (45, 1, 3, 3)}),
    "depthwise of multiplier 2": ("R.nn.conv2d(x, w, groups=24)", {"x": (1, 24, 25, 25), "w": (48, 1, 5, 5)}),
    "depthwise of multiplier 3": ("R.nn.conv2d(x, w, groups=11)", {"x": (1, 11, 41, 41), "w": (33, 1, 3, 3)}),
    "convolution in 1 dimension": ("R.nn.conv1d(x, w, padding=4)", {"x": (1, 33, 401), "w": (45, 33, 9)}),
    "dilated convolution in 1 dimension": ("R.nn.conv1d(x, w, dilation=4)", {"x": (2, 17, 515), "w": (31, 17, 5)}),
    "convolution in 3 dimensions": ("R.nn.conv3d(x, w, padding=1)", {"x": (1, 7, 11, 19, 19), "w": (13, 7, 3, 3, 3)}),
    "convolution 3x1x1": ("R.nn.conv3d(x, w)", {"x": (1, 21, 13, 15, 15), "w": (19, 21, 3, 1, 1)}),
    "stencil of 5 points": ("R.nn.conv2d(x, w)", {"x": (1, 1, 513, 517), "w": (1, 1, 3, 3)}),
    "windowed sum": ("R.nn.avg_pool2d(x, pool_size=7, padding=3)", {"x": (1, 31, 53, 53)}),
    "windowed maximum": ("R.nn.max_pool2d(x, pool_size=5, strides=2)", {"x": (1, 45, 61, 61)}),
    "sum over the middle axis": ("R.sum(x, axis=1)", {"x": (37, 129, 211)}),
    "sum over the first axis": ("R.sum(x, axis=0)", {"x": (1023, 517)}),
    "variance over two axes": ("R.variance(x, axis=[0, 2])", {"x": (31, 45, 257)}),
    "softmax over the first axis": ("R.nn.softmax(x, axis=0)", {"x": (211, 317)}),
    "scan": ("R.cumsum(x, axis=0)", {"x": (333, 127)}),
    "transposition": ("R.permute_dims(x, axes=[2, 0, 1])", {"x": (61, 83, 97)}),
    "gather and sum": ("R.sum(R.take(w, i, axis=0), axis=1)", {"i": (67, 13), "w": (1001, 95)}),
}
"""Text of a graph and its arguments: ``w`` is a constant, ``i`` are indices, others are inputs."""


def module(text: str, shapes: dict[str, tuple[int, ...]]) -> unity.IRModule:
    """A module of one function."""
    params = ", ".join([f'{n}: R.Tensor({s}, "{"int64" if n == "i" else F32}")' for n, s in shapes.items()])
    body = f"    y = {text}\n    return y\n"
    made = parse(f"@I.ir_module\nclass Module:\n  @R.function\n  def main({params}):\n{body}")
    assert isinstance(made, unity.IRModule)
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s).astype(F32) for n, s in shapes.items() if n == "w"}
    return ms.relax_integration.with_params(made, weights)


def measured(name: str, trials: int, **more: object) -> Row:
    """A program tuned: the times of its tasks added."""
    found = extracted(module(*PROGRAMS[name]))
    tasks, weights = extracted_tasks_to_tune_contexts(found.tasks, seed=0)
    _, rows = tuned(tasks, weights, None, trials, database="memory", **more)  # type: ignore[arg-type]
    default, best = [sum([row.weight * getattr(row, part) for row in rows]) for part in ("default", "best")]
    remark = ", ".join(filter(None, [*[row.remark for row in rows], *found.others.values()]))
    return Row(name, 1, default, best, sum([row.trials for row in rows]), remark, sum([row.failures for row in rows]))


def main() -> None:
    """Tune the programs and print the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", action="append", help="programs whose names have this text")
    options = parser.parse_args()
    unity.set_num_threads(options.threads)
    builder, runner = ms.builder.LocalBuilder(), ms.runner.LocalRunner()
    rows: list[Row] = []
    for name in [n for n in PROGRAMS if not options.only or any([text in n for text in options.only])]:
        start, before = time.perf_counter(), builder.seconds + runner.seconds
        row = measured(name, options.trials, builder=builder, runner=runner)
        spent = time.perf_counter() - start
        other = 1 - (builder.seconds + runner.seconds - before) / spent
        rows.append(row)
        print(
            f"{name:40} {row.default * 1e6:10.1f} us {row.best * 1e6:10.1f} us  x {row.gain:.2f}  {row.trials} trials,"
            f" {row.trials / spent:.1f} a second, search {other:.0%} {row.remark}",
            flush=True,
        )
    gains = [row.gain for row in rows]
    print(f"{len(rows)} programs, {options.threads} threads: geometric mean {np.exp(np.mean(np.log(gains))):.2f}, "
          f"least {min(gains):.2f}, {sum([gain >= 1.5 for gain in gains])} of 1.5 or more")  # fmt: skip
    builder.close()
    runner.close()


if __name__ == "__main__":
    main()
