"""AMX on this machine, where it has it: random products and convolutions, threads, other users of tiles, special values."""

from __future__ import annotations

import os
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import unity
from unity import relax
from unity.ffi.targets.target import target
from unity.relax import TensorStructInfo, Var

HAS = {"amx-tile", "amx-bf16", "amx-int8"} <= target().processor.features
pytestmark = pytest.mark.skipif(not HAS, reason="this machine has no AMX, or the system does not allow it")

TYPES = {"bf16": ("bfloat16", "float32"), "s8": ("int8", "int32"), "u8": ("uint8", "int32")}


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def product(x: np.ndarray, w: np.ndarray, total: str, constant: bool = True, rows: Any = None) -> Any:
    """The compiled product; ``rows``: a symbol for the rows of x."""
    shape = x.shape if rows is None else (*x.shape[:-2], rows, x.shape[-1])
    params = [Var(n, TensorStructInfo(s, v.dtype.name)) for n, s, v in (("x", shape, x), ("w", w.shape, w))]
    bb = unity.BlockBuilder()
    with bb.function("main", params[: 1 if constant else 2]):
        with bb.dataflow():
            right = relax.const(w) if constant else params[1]
            out = bb.emit_output(relax.op.nn.relu(relax.op.matmul(params[0], right, out_dtype=total)))
        bb.emit_func_output(out)
    main = unity.VirtualMachine(unity.compile(bb.finalize()))["main"]
    return lambda x: main(*([x] if constant else [x, w])).numpy()


@pytest.mark.parametrize("seed", range(8))
def test_random_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, total = TYPES[["bf16", "s8", "u8"][seed % 3]]
    m, n = rng.choice([0, 1, 7, 8, 17, 33, 64, 100]), rng.choice([1, 16, 31, 33, 96])
    k = rng.choice([0, 1, 33, 64, 96, 128, 320])
    lead = [(), (3,), (2, 2)][rng.integers(3)]
    x = values(rng, (*lead, m, k), data)
    w = values(rng, (*(lead if rng.integers(2) else ()), k, n), "bfloat16" if data == "bfloat16" else "int8")
    rows = unity.tir.Var("n", "int64") if rng.integers(2) else None
    found = product(x, w, total, bool(rng.integers(2)), rows)(x)
    wide = "float64" if total == "float32" else "int64"
    expected = np.maximum(x.astype(wide) @ w.astype(wide), 0)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected.astype(total), rtol=1e-4, atol=1e-3 if total == "float32" else 0)


@pytest.mark.parametrize("seed", range(6))
def test_random_convolutions_in_bfloat16(seed: int) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    groups = [1, 1, 2, 64][rng.integers(4)]
    kernel, stride, padding = [(1, 1, 0), (3, 1, 1), (3, 2, 1), (1, 2, 0), (5, 3, 2)][seed % 5]
    out = 64 if groups == 64 else int(rng.choice([32, 48, 64]))
    conv = torch.nn.Conv2d(64, out, kernel, stride, padding, groups=groups)
    model = torch.nn.Sequential(conv, torch.nn.ReLU()).eval().bfloat16()
    x = torch.randn(
        int(rng.integers(1, 3)), 64, int(rng.choice([7, 15, 16, 29])), int(rng.choice([7, 14, 17, 33]))
    ).bfloat16()
    found = unity.compile(model, example_inputs=(x,))(x)
    torch.testing.assert_close(found.double(), model.double()(x.double()), rtol=1e-2, atol=1e-2)


def test_threads_and_other_users_of_tiles() -> None:
    rng = np.random.default_rng(0)
    x = values(rng, (96, 256), "bfloat16")
    made = [(product(x, w, "float32"), np.maximum(x.astype("float32") @ w.astype("float32"), 0))
            for w in [values(rng, (256, n), "bfloat16") for n in (32, 100, 200)]]  # fmt: skip
    left, right = torch.randn(256, 256).bfloat16(), torch.randn(256, 256).bfloat16()
    theirs, wrong = left @ right, []

    def ours(k: int) -> None:
        for i in range(40):
            main, expected = made[(i + k) % 3]
            wrong.extend([k] * (not np.allclose(main(x), expected, rtol=1e-4, atol=1e-3)))

    def other() -> None:
        wrong.extend([-1 for _ in range(40) if not torch.equal(left @ right, theirs)])

    threads = [threading.Thread(target=ours, args=(k,)) for k in range(4)] + [threading.Thread(target=other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    child = os.fork()
    if not child:
        main, expected = made[1]
        os._exit(0 if np.allclose(main(x), expected, rtol=1e-4, atol=1e-3) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_special_values() -> None:
    x, w = np.ones((40, 64), "float32"), np.ones((64, 48), "float32")
    x[0, 0], x[1, 3], x[2, 3], x[2, 4], x[3], x[39, 63] = np.nan, np.inf, np.inf, -np.inf, 3e38, np.nan
    w[0, 7], w[3, 9] = 0, 0
    x, w = x.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        expected = np.maximum(x.astype("float32") @ w.astype("float32"), np.float32(0))
    np.testing.assert_array_equal(product(x, w, "float32")(x), expected)
    tiny = np.full((32, 64), 2.0**-130).astype(ml_dtypes.bfloat16)
    large = np.full((64, 32), 2.0**20).astype(ml_dtypes.bfloat16)
    assert not product(tiny, large, "float32")(tiny).any()  # docs/precision.md
