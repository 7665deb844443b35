"""Scatters on devices: many updates of one element, negative and distant indices, odd and unknown sizes; every bit is that of one update
after another, and no thread does the work of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module

import unity
from unity.ir.op import OPS

pytestmark = pytest.mark.gpu
WAYS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "elements": ("R.scatter_nd(a, i, u, reduction={how!r})", (5, 3), (67, 2), (67,)),
    "few": ("R.scatter_nd(a, i, u, reduction={how!r})", (5, 3), (3, 2), (3,)),
    "narrow slices": ("R.scatter_nd(a, i, u, reduction={how!r})", (7, 3), (71, 1), (71, 3)),
    "wide slices": ("R.scatter_nd(a, i, u, reduction={how!r})", (7, 33), (71, 1), (71, 33)),
    "lines": ("R.scatter_elements(a, i, u, axis=1, reduction={how!r})", (5, 7), (3, 66), (3, 70)),
    "one line": ("R.scatter_elements(a, i, u, reduction={how!r})", (1,), (35,), (35,)),
    "tensors": ("R.index_put(a, [i, R.flip(i, axis=1)], u, accumulate={add})", (9, 7), (5, 13), (1, 13)),
    "rows": ("R.index_put(a, [i], u, accumulate={add})", (9, 7), (65,), (65, 7)),
    "none": ("R.scatter_nd(a, i, u, reduction={how!r})", (5, 3), (0, 2), (0,)),
}  # fmt: skip
"""Calls, and the shapes of data, indices and updates."""


def _reference(way: str, how: str, a: np.ndarray, i: np.ndarray, u: np.ndarray) -> Any:
    call = WAYS[way][0]
    if "index_put" in call:
        tensors = (i, i[:, ::-1]) if "flip" in call else (i,)
        return OPS["R.index_put"].ref(a, tensors, u, accumulate=how == "add")
    if "elements" in call:
        return OPS["R.scatter_elements"].ref(a, i, u, axis=1 if "axis=1" in call else 0, reduction=how)
    return OPS["R.scatter_nd"].ref(a, i, u, reduction=how)


CASES = [(way, "float32", known) for way in WAYS for known in (True, False)] + [
    (way, dtype, True) for way in ("elements", "one line", "lines") for dtype in ("int32", "bool", "int8")
]


@pytest.mark.parametrize(("way", "dtype", "known"), CASES)
def test_bits_are_those_of_one_update_after_another(way: str, dtype: str, known: bool) -> None:
    call, *shapes = WAYS[way]
    draw = np.random.default_rng(1)
    a, u = [(draw.random(shape) * 9 - 4).astype(dtype) for shape in (shapes[0], shapes[2])]
    i = draw.integers(-12, 12, shapes[1])
    names = ("n", "m", "m" if shapes[1][0] == shapes[2][0] else 1)
    sizes = [shape if known else (name, *shape[1:]) for name, shape in zip(names, shapes)]
    kinds = [str(size).replace("'", '"') for size in sizes]
    for how in ("update", "add") if "index_put" in call else ("update", "add", "mul", "max"):
        module = graph_module(
            call.format(how=how, add=how == "add"),
            a=f'{kinds[0]}, "{dtype}"', i=f'{kinds[1]}, "int64"', u=f'{kinds[2]}, "{dtype}"',
        )  # fmt: skip
        executable = unity.compile(module, target="cuda")
        with device_or_emulated(traffic=False) as gpu:
            found = unity.VirtualMachine(executable, unity.cuda(0))["main"](a, i, u).numpy()
            assert gpu is None or a.size == 1 or all([launch.block[0] > 1 for launch in gpu.launches])
        np.testing.assert_array_equal(found, _reference(way, how, a, i, u))
