"""AMX by schedule and by rule, executed: machine code for a processor with tiles, the tiles themselves emulated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from amx_emulator import Tiles

import unity
from unity import relax
from unity.ffi.machine_code.llvm import CompileOptions, compile_ir
from unity.relax import TensorStructInfo, Var
from unity.script import parse
from unity.support.errors import VerifyError
from unity.target.cpu import codegen
from unity.transform.schedule import Schedule
from unity.transform.schedule.core.tensor_intrin import TensorIntrin
from unity.vm import virtual_machine as machine
from unity.vm.executable.executable import Executable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.scheduled.by_hand import bfloat16_tiles

FEATURES = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512bf16,+avx512vnni,+amx-tile,+amx-bf16,+amx-int8"
TYPES = {
    "bf16bf16f32": ("bfloat16", "bfloat16", "float32"),
    "s8s8s32": ("int8", "int8", "int32"),
    "u8s8s32": ("uint8", "int8", "int32"),
}


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tiles]:
    """Tiles that kernels built in the test use; what the processor would refuse fails the test."""
    made = Tiles()

    def compiled(text: str, options: CompileOptions) -> bytes:
        return compile_ir(made.emulated(text), CompileOptions(pipeline=options.pipeline, opt=options.opt), False)

    monkeypatch.setattr(codegen, "compile_ir", compiled)
    monkeypatch.setattr(machine, "require_processor", lambda features: None)
    monkeypatch.setenv("UNITY_CACHE", "off")
    threads = unity.num_threads()
    unity.set_num_threads(1)
    yield made
    unity.set_num_threads(threads)
    assert made.problems == []


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def product(kind: str, m: int, n: int, k: int) -> Schedule:
    left, right, total = TYPES[kind]
    return Schedule(
        parse(f"""
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer(({m}, {k}), "{left}"), B: T.Buffer(({k}, {n}), "{right}"), C: T.Buffer(({m}, {n}), "{total}")):
        T.func_attr({{"global_symbol": "main"}})
        for i, j, k in T.grid({m}, {n}, {k}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.{total}(0)
                C[vi, vj] = C[vi, vj] + T.Cast("{total}", A[vi, vk]) * T.Cast("{total}", B[vk, vj])
""")
    )


BLOCKS = [(16, 16, None), (32, 32, 1), (32, 32, 3), (16, 32, 2), (32, 16, 2)]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("bf16bf16f32", s) for s in BLOCKS]
    + [("s8s8s32", s) for s in BLOCKS[::2]]
    + [("u8s8s32", s) for s in BLOCKS[1::2]],
)
def test_blocks_by_schedule(tiles: Tiles, kind: str, shape: tuple[int, int, int | None]) -> None:
    group = 2 if kind.startswith("bf16") else 4
    rows, columns, steps = shape
    depth = 16 * group * (steps or 1)
    m, n, k = 2 * rows, 3 * columns, 2 * depth
    sch = product(kind, m, n, k)
    sch.reindex_cache_read("C", "B", "global", lambda i, j, k: (k // group, j, k % group))
    i, j, r = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    r0, r1 = sch.split(r, [None, depth])
    sch.reorder(i0, j0, r0, i1, j1, r1)
    sch.decompose_reduction("C", r0)
    name = f"amx_16x16_{kind}" if steps is None else f"amx_{rows}x{columns}x{depth}_{kind}"
    sch.tensorize(i1, name)
    rng = np.random.default_rng(0)
    left, right, total = TYPES[kind]
    a, b, c = values(rng, (m, k), left), values(rng, (k, n), right), np.zeros((m, n), total)
    executable = unity.compile(sch.mod, target=f"llvm -mattr={FEATURES}")
    unity.VirtualMachine(executable)["main"](a, b, c)
    wide = "float64" if total == "float32" else "int64"
    expected = (a.astype(wide) @ b.astype(wide)).astype(total)
    assert tiles.count == m // 16 * (n // 16) * (k // (16 * group))
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4 if total == "float32" else 0)


@pytest.mark.parametrize("name", ["amx_48x48x32", "amx_32x32x16", "amx_8x16x32", "amx_0x16x32"])
def test_blocks_that_do_not_fit_the_registers(name: str) -> None:
    with pytest.raises(VerifyError) as found:
        TensorIntrin.get(f"{name}_bf16bf16f32")
    assert found.value.code == "E380"


def build(kind: str, x: np.ndarray, w: np.ndarray, constant: bool) -> Executable:
    bb = unity.BlockBuilder()
    total = TYPES[kind][2]
    params = [Var(name, TensorStructInfo(v.shape, v.dtype.name)) for name, v in (("x", x), ("w", w))]
    with bb.function("main", params[: 1 if constant else 2]):
        with bb.dataflow():
            y = bb.emit(relax.op.matmul(params[0], relax.const(w) if constant else params[1], out_dtype=total))
            out = bb.emit_output(relax.op.nn.relu(y))
        bb.emit_func_output(out)
    return unity.compile(bb.finalize(), target=f"llvm -mattr={FEATURES}")


PRODUCTS = [(64, 96, 128), (48, 100, 64), (16, 16, 64), (197, 64, 64), (4096, 16, 256), (240, 256, 125)]


@pytest.mark.parametrize(("kind", "constant"), [(kind, constant) for kind in TYPES for constant in (True, False)])
@pytest.mark.parametrize(("m", "n", "k"), PRODUCTS[:2])
def test_default_schedule(tiles: Tiles, kind: str, constant: bool, m: int, n: int, k: int) -> None:
    check_default_schedule(tiles, kind, constant, m, n, k)


@pytest.mark.parametrize(("kind", "constant"), [("bf16bf16f32", True), ("u8s8s32", False)])
@pytest.mark.parametrize(("m", "n", "k"), PRODUCTS[2:])
def test_default_schedule_of_other_shapes(tiles: Tiles, kind: str, constant: bool, m: int, n: int, k: int) -> None:
    check_default_schedule(tiles, kind, constant, m, n, k)


def check_default_schedule(tiles: Tiles, kind: str, constant: bool, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    left, right, total = TYPES[kind]
    x, w = values(rng, (m, k), left), values(rng, (k, n), right)
    found = unity.VirtualMachine(build(kind, x, w, constant))["main"](*([x] if constant else [x, w])).numpy()
    wide = "float64" if total == "float32" else "int64"
    expected = np.maximum(x.astype(wide) @ w.astype(wide), 0).astype(total)
    across = 1 if n == 16 else 2 * -(-n // 32)
    assert tiles.count == -(-m // 16) * across * -(-k // (32 if total == "float32" else 64))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 if total == "float32" else 0)


CONVOLUTIONS = [
    ((1, 14, 14, 64), (3, 3, 64, 32), {"padding": (1, 1)}, 14 * 9),
    ((2, 9, 20, 64), (1, 1, 64, 40), {}, 2 * 9 * 2),
    ((1, 28, 28, 64), (3, 3, 64, 16), {"strides": (2, 2), "padding": (1, 1)}, 14 * 9),
    ((1, 5, 25, 64), (1, 3, 64, 32), {"strides": (1, 3), "dilation": (1, 2)}, 5 * 3),
    ((1, 7, 7, 64), (1, 1, 64, 32), {}, 7),
    ((1, 21, 37, 3), (7, 7, 3, 128), {"strides": (2, 2)}, None),
]
"""Shapes of data and weights with channels last, attributes, and in how many blocks of 16 rows the output lines and taps come (None:
bfloat16 fills tiles, bytes take dot products, which need fewer zeros)."""


@pytest.mark.parametrize("kind", ["bf16bf16f32", "u8s8s32"])
@pytest.mark.parametrize(("shape", "kernel", "attrs", "blocks"), CONVOLUTIONS)
def test_convolutions_whose_lines_fill_no_tile(
    tiles: Tiles, kind: str, shape: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any], blocks: int | None
) -> None:
    rng = np.random.default_rng(0)
    left, right, total = TYPES[kind]
    x, w = values(rng, shape, left), values(rng, kernel, right)
    bb = unity.BlockBuilder()
    data = Var("x", TensorStructInfo(x.shape, x.dtype.name))
    with bb.function("main", [data]):
        with bb.dataflow():
            layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_dtype": total}
            out = bb.emit_output(relax.op.nn.conv2d(data, relax.const(w), **attrs, **layouts))
        bb.emit_func_output(out)
    found = unity.VirtualMachine(unity.compile(bb.finalize(), target=f"llvm -mattr={FEATURES}"))["main"](x).numpy()
    images, filters = [torch.tensor(v.astype("float64")) for v in (x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1))]
    how = {name.rstrip("s") if name == "strides" else name: value for name, value in attrs.items()}
    expected = torch.nn.functional.conv2d(images, filters, **how).numpy().transpose(0, 2, 3, 1)
    steps = 64 // (32 if total == "float32" else 64)
    if blocks is None:
        assert (tiles.count > 0) == (total == "float32")
    else:
        assert tiles.count == blocks * (1 if kernel[3] == 16 else 2 * -(-kernel[3] // 32)) * steps
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 if total == "float32" else 0)


@pytest.mark.parametrize(("m", "k"), [(6, 64), (32, 36)])
def test_less_than_a_tile_uses_dot_products(tiles: Tiles, m: int, k: int) -> None:
    rng = np.random.default_rng(0)
    x, w = values(rng, (m, k), "uint8"), values(rng, (k, 64), "int8")
    found = unity.VirtualMachine(build("u8s8s32", x, w, True))["main"](x).numpy()
    assert tiles.count == 0 and (found == np.maximum(x.astype("int64") @ w.astype("int64"), 0)).all()


def test_product_by_hand(tiles: Tiles) -> None:
    sch = bfloat16_tiles(64, 96, 64)
    assert {i.grade for i in sch.trace.insts if i.row.kind == "step"} == {"proved"}
    rng = np.random.default_rng(0)
    a, b, out = values(rng, (64, 64), "bfloat16"), values(rng, (64, 96), "bfloat16"), np.zeros((64, 96), "float32")
    out = out.astype(ml_dtypes.bfloat16)
    executable = unity.compile(sch.mod, target=f"llvm -mattr={FEATURES}")
    unity.VirtualMachine(executable)["main"](a, b, out)
    expected = a.astype("float32") @ b.astype("float32")
    np.testing.assert_allclose(out.astype("float32"), expected, rtol=1e-2, atol=1e-2)
