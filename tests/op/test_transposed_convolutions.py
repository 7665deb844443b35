"""Transposed convolutions by phases: an infinite or NaN element spoils the results that it reaches, and no others."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_against_numpy import build

from unity.ffi.dtype import DataType
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.transform import convert_layout
from unity.transform.relax.lowering.legalize_ops import legalize_ops

sys.path.append(str(Path(__file__).parents[1]))
from fuzz import SEED, TIMES

BF16 = DataType("bfloat16").numpy


def drawn(rng: random.Random) -> tuple[int, list[np.ndarray], dict[str, Any]]:
    """The number of spatial axes, data and weight, and the options of a call."""
    rank, groups = rng.choice([1, 1, 2, 2, 3]), rng.choice([1, 1, 2])
    strides, kernel = [[rng.randrange(1, 5) for _ in range(rank)] for _ in range(2)]
    dilation = [rng.choice([1, 1, 2]) for _ in range(rank)]
    options = {
        "strides": strides,
        "dilation": dilation,
        "padding": [rng.randrange(3) for _ in range(2 * rank)],
        "output_padding": [rng.randrange(max(s, d)) for s, d in zip(strides, dilation)],
        "groups": groups,
    }
    size = [rng.randrange(1, 5) for _ in range(rank)]
    border = [options["padding"][n] + options["padding"][rank + n] for n in range(rank)]
    reach = zip(size, strides, kernel, dilation, options["output_padding"], border)
    if any((n - 1) * s + (k - 1) * d + 1 + e <= b for n, s, k, d, e, b in reach):
        return drawn(rng)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    x = numbers.integers(-3, 4, (rng.randrange(1, 3), groups * rng.randrange(1, 3), *size)).astype("float32")
    x.flat[rng.randrange(x.size)] = rng.choice([np.inf, -np.inf, np.nan])
    w = numbers.integers(1, 4, (x.shape[1], rng.randrange(1, 3), *kernel)).astype("float32")
    return rank, [x, w], options


@pytest.mark.parametrize("number", range(40 * TIMES))
def test_non_finite_elements_reach_what_they_should(number):
    rng = random.Random(f"transposed {SEED} {number}")
    rank, (x, w), options = drawn(rng)
    name, space = f"nn.conv{rank}d_transpose", "DHW"[3 - rank :]
    ref = OPS[f"R.{name}"].ref
    with np.errstate(invalid="ignore"):
        expected = ref(x, w, **options)
    by_phases, arrays = build(name, [x, w], options, False)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(legalize_ops(by_phases), "main", *arrays), expected)
        last = convert_layout.with_options(always=True, lanes=1, only_constants=False)(by_phases)
        np.testing.assert_array_equal(run(last, "main", *arrays), expected)
    plain = [1 in (s, d) and k % s == 0 for k, s, d in zip(w.shape[2:], options["strides"], options["dilation"])]
    if options["groups"] == 1 and all(plain):
        assert 'out_layout="N' in last.script()
    layouts = {"data_layout": f"N{space}C", "kernel_layout": f"{space}OI", "out_layout": f"NC{space}"}
    half = [np.moveaxis(x, 1, -1), np.moveaxis(w, (1, 0), (-2, -1))]
    half = [np.ascontiguousarray(a.astype(BF16)) for a in half]
    mod, arrays = build(name, half, {**options, **layouts}, False)
    with np.errstate(invalid="ignore"):
        made = run(legalize_ops(mod), "main", *arrays).astype("float32")
    np.testing.assert_array_equal(made, expected.astype(BF16).astype("float32"))
