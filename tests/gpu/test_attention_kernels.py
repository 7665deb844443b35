"""R.nn.attention on devices: any lengths, heads that share keys, masks and biases give what the plain formula gives, by tensor cores
and by tiles of registers; memory accesses are coalesced and free of bank conflicts."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import graph_module

import unity
from unity.ir.op import OPS
from unity.target import GPU_PIPELINE
from unity.target.cuda import attention
from unity.testing.gpu_emulator import EmulatedGPU
from unity.transform.relax.lowering.legalize_ops import legalize_ops

pytestmark = pytest.mark.gpu
REF = OPS["R.nn.attention"].ref
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "float16": 3e-3, "bfloat16": 2e-2}


def module(shapes: Any, dtype: str, bias: str = "", options: str = "") -> Any:
    names = ("q", "k", "v", "bias")[: len(shapes)]
    params = {n: f'{tuple(s)}, "{bias if n == "bias" else dtype}"' for n, s in zip(names, shapes)}
    return graph_module(f"R.nn.attention({', '.join(names)}{options})", **params)


def arrays(shapes: Any, dtype: str, bias: str = "") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    made = [rng.standard_normal(shape).astype(getattr(ml_dtypes, dtype, dtype)) for shape in shapes]
    if bias:
        made[3] = made[3] > -0.5 if bias == "bool" else made[3].astype(bias)
    return made


class Program:
    """A compiled attention."""

    def __init__(
        self, shapes: Any, dtype: str, bias: str = "", arch: str = "sm_80", flags: str = "", **options: Any
    ) -> None:
        text = "".join([f", {name}={value!r}" for name, value in options.items()])
        self.dtype, self.bias, self.arch, self.options = dtype, bias, arch, options
        mod = module(shapes, dtype, bias, text)
        self.executable = unity.compile(mod, target=f"cuda -arch={arch} {flags}")

    def check(self, *shapes: Any) -> EmulatedGPU | None:
        """The results are right; returns the emulated device, if there is no other."""
        given = arrays(shapes, self.dtype, self.bias)
        exact = [x if x.dtype in (bool, np.float64) else x.astype("float32") for x in given]
        with device_or_emulated(self.arch, races=True) as gpu:
            made = unity.VirtualMachine(self.executable, unity.cuda(0))["main"](*given).numpy()
        assert gpu is None or gpu.launches[0].block[0] == 32
        tolerance = TOLERANCE[self.dtype]
        np.testing.assert_allclose(made.astype("float64"), REF(*exact, **self.options), rtol=tolerance, atol=tolerance)
        return gpu


@pytest.mark.parametrize(("dtype", "empty"), [("float16", {"empty": 0.0}), ("float32", {})])
def test_lengths(dtype: str, empty: dict[str, float]) -> None:
    """Symbolic lengths, those of the keys apart; rows in front of all keys see none."""
    program = Program(
        [("b", "n", 4, 16), ("b", "m", 2, 16), ("b", "m", 2, 24)], dtype, causal_mask="BottomRight", **empty
    )
    for b, n, m in ((1, 1, 1), (1, 33, 7), (2, 7, 65), (1, 2, 0)):
        program.check((b, n, 4, 16), (b, m, 2, 16), (b, m, 2, 24))


@pytest.mark.parametrize("width", [64, 128])
def test_warpgroups(width: int) -> None:
    """Symbolic lengths by ``wgmma``, one thread copies: every access moves no more than it must."""
    shapes = [("b", "n", 4, width), ("b", "m", 2, width), ("b", "m", 2, width)]
    program = Program(shapes, "bfloat16", arch="sm_90a", causal_mask="BottomRight", empty=0.0)
    for b, n, m in ((1, 67, 130), (2, 3, 1), (1, 2, 0)):
        gpu = program.check((b, n, 4, width), (b, m, 2, width), (b, m, 2, width))
        if gpu is not None:
            assert [launch.block for launch in gpu.launches] == [(32, 12 if m else 1, 1)]
            assert not [str(site) for site in gpu.traffic if site.scope == "shared" and site.transactions > site.ideal]


@pytest.mark.parametrize(
    ("layout", "heads", "widths", "options"),
    [
        ("BSHD", 3, (128, 64), {"causal_mask": "TopLeft"}),  # warps copy the query of three heads
        ("BHSD", 2, (40, 120), {"scale": -0.3}),  # lines that are not filled, scores scaled before the exponent
        ("BHSD,BSHD,BHSD,BSHD", 1, (64, 64), {"scale": 3.0}),  # rows whose highest score grows
    ],
)
def test_rings(layout: str, heads: int, widths: tuple[int, int], options: dict[str, Any]) -> None:
    """Several blocks of keys and turns of both warpgroups."""
    orders = [*(layout.split(",") * 4)[:3]]
    sizes = [{"B": 1, "S": "n", "H": heads, "D": widths[0]}] + [{"B": 1, "S": "m", "H": 1, "D": w} for w in widths]
    shapes = [[size[axis] for axis in order] for order, size in zip(orders, sizes)]
    program = Program(shapes, "float16", arch="sm_90a", layout=layout, **options)
    numbers = {"n": 71, "m": 401}
    gpu = program.check(*[[numbers.get(size, size) for size in shape] for shape in shapes])
    assert gpu is None or [launch.block for launch in gpu.launches] == [(32, 12, 1)]


@pytest.mark.parametrize(
    ("heads", "groups", "layout"),
    [
        (2, 2, "BSHD"),
        (3, 2, "BHSD"),  # warps copy the query
        (1, 3, "BSHD"),  # long rows take three warpgroups
    ],
)
def test_rounds(heads: int, groups: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks compute several tiles of several blocks of keys."""
    monkeypatch.setenv("UNITY_CACHE", "off")  # its keys do not know what is changed here
    monkeypatch.setattr(attention, "_LONG", 200)
    monkeypatch.setitem(attention._RINGS, 64, ((64, 12, 2), (64, 8, 3)))
    sizes = [{"B": 1, "S": 203, "H": 2 * heads, "D": 64}] + [{"B": 1, "S": 310, "H": 2, "D": 64}] * 2
    shapes = [tuple([size[axis] for axis in layout]) for size in sizes]
    program = Program(
        shapes, "float16", arch="sm_90a", flags="-multi_processor_count=2", layout=layout, causal_mask="BottomRight"
    )
    gpu = program.check(*shapes)
    assert gpu is None or [(launch.grid[0], launch.block[1]) for launch in gpu.launches] == [(2, 4 * groups + 4)]


@pytest.mark.parametrize("shared", [2, "k"])
def test_rings_know_what_heads_share(shared: int | str) -> None:
    """Warps compute heads of which any number shares keys: the assembler would not run products of warpgroups side by side."""
    mod = module([(1, "n", 4 if shared == 2 else "h", 64), (1, "m", shared, 64), (1, "m", shared, 64)], "float16")
    with unity.Target("cuda -arch=sm_90a"):
        assert ("T.ptx_wgmma" in legalize_ops(mod).script()) == (shared == 2)


def test_few_rows() -> None:
    """A row against many keys: blocks share them, and what they have found is joined."""
    program = Program([("b", 1, 4, 16), ("b", "m", 2, 16), ("b", "m", 2, 24)], "float16")
    gpu = program.check((1, 1, 4, 16), (1, 300, 2, 16), (1, 300, 2, 24))
    assert gpu is None or [launch.grid[0] for launch in gpu.launches] == [6, 4]
    program.check((2, 1, 4, 16), (2, 3, 2, 16), (2, 3, 2, 24))


@pytest.mark.parametrize(
    ("dtype", "width", "bias", "shape", "arch", "options"),
    [
        ("bfloat16", 20, "float32", (1, 33, 70), "sm_80", {"scale": -0.3}),
        ("float32", 7, "bool", (1, 1, 70), "sm_80", {"causal_mask": "TopLeft"}),
        ("float16", 40, "float16", (2, 1, 1, 70), "sm_75", {}),
        ("float64", 5, "float64", (70,), "sm_80", {"scale": 0.5}),
    ],
)
def test_biases(dtype: str, width: int, bias: str, shape: Any, arch: str, options: dict[str, Any]) -> None:
    shapes = [(2, 1, 33, width), (2, 1, 70, width), (2, 1, 70, width), shape]
    Program(shapes, dtype, bias, arch, layout="BHSD", **options).check(*shapes)


@pytest.mark.parametrize(
    ("dtype", "widths", "options"),
    [
        ("float16", ("d", "e"), {"causal_mask": "BottomRight", "empty": 0.0}),
        ("float32", ("d", "e"), {}),
        ("bfloat16", (320, 264), {"causal_mask": "TopLeft"}),
        ("float64", (7, "e"), {"scale": 0.5}),
    ],
)
def test_heads_of_any_width(dtype: str, widths: tuple[Any, Any], options: dict[str, Any]) -> None:
    """Heads whose width is not known, or that are wider than registers: pieces of the width, slices of the columns."""
    program = Program([("b", "n", 4, widths[0]), ("b", "m", 2, widths[0]), ("b", "m", 2, widths[1])], dtype, **options)
    for width, v_width in ((70, 130), (1, 3)):
        d, e = [size if isinstance(size, int) else own for size, own in zip(widths, (width, v_width))]
        program.check((1, 33, 4, d), (1, 67, 2, d), (1, 67, 2, e))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_traffic(dtype: str) -> None:
    """Two blocks of keys: every access moves no more than it must, in shared memory and outside."""
    shapes = [(1, 64, 1, 64), (1, 96, 1, 64), (1, 96, 1, 64)]
    gpu = Program(shapes, dtype, causal_mask="BottomRight").check(*shapes)
    if gpu is not None:
        assert len(gpu.traffic) > 20
        assert not [str(site) for site in gpu.traffic if site.transactions > site.ideal]


def test_copies_run_beside_products() -> None:
    """All rows come by ``cp.async``, nothing is converted on the way; barriers: two in a turn, two around the results."""
    mod = module([(1, "n", 4, 64), (1, "m", 4, 64), (1, "m", 4, 64)], "float16")
    with unity.Target("cuda"):
        lowered = GPU_PIPELINE(legalize_ops(mod)).script()
    turns = re.findall(r'in T.serial\((\d+), annotations={"unroll": \1}\):\n *T.ptx_cp_async\(', lowered)
    assert sorted(turns) == ["4", "4", "4", "8"] and lowered.count("T.ptx_cp_async(") == len(turns)
    assert lowered.count("T.tvm_storage_sync(") == 4
    assert "Cast" not in "".join([line for line in lowered.splitlines() if "query[" in line or "key[" in line])
