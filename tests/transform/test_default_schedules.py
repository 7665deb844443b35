"""Default schedules: what the contraction rule takes and refuses, that it computes the same, and constants packed at build."""

import itertools

import numpy as np
import pytest

import unity
from unity.ffi.targets import system
from unity.ffi.targets.processor import Processor
from unity.ir.interpret import run
from unity.ir.stmt import For
from unity.ir.verifier.verifier import verify
from unity.ir.walk import collect
from unity.script import parse
from unity.target.cpu import backend
from unity.target.cpu.backend import CPU, second_level_of
from unity.transform.default_schedule import Packing, schedule_default
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.infra.backend import Machine, machine_in_use
from unity.transform.tir.buffers.inject_prefetch import SOFTWARE_PREFETCH_ONCE, SOFTWARE_PREFETCH_PANEL
from unity.transform.tir.pipeline import lower_prim_funcs

SMALL = Machine(16, 16)

GRAPH = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({x}, "float32"), b: R.Tensor(({n},), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.add(y, b)
            gv = R.nn.relu(z)
            R.output(gv)
        return gv
"""
PRODUCT = """
@T.prim_func
def main(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({n}, {k}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    for i, j, l in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""


def compiled(x_shape, k, n, rng):
    w = rng.standard_normal((k, n)).astype("float32")
    mod = parse(GRAPH.format(x=x_shape, n=n), scope={"w": w})
    return unity.VirtualMachine(unity.compile(mod))["main"], w


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 16), (1, 8, 17), (2, 3, 31), (5, 64, 16), (6, 7, 64), (7, 12, 65), (33, 20, 100), (64, 16, 1000)],
)
def test_constant_weights(m, k, n):
    rng = np.random.default_rng(0)
    f, w = compiled((m, k), k, n, rng)
    x, b = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal(n).astype("float32")
    np.testing.assert_allclose(f(x, b).numpy(), np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)


def test_symbolic_rows():
    rng = np.random.default_rng(0)
    f, w = compiled('("m", 24)', 24, 40, rng)
    b = rng.standard_normal(40).astype("float32")
    for m in (0, 1, 5, 6, 7, 64, 65):
        x = rng.standard_normal((m, 24)).astype("float32")
        np.testing.assert_allclose(f(x, b).numpy(), np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)


def test_not_a_number_and_infinity_stay_in_their_rows():
    rng = np.random.default_rng(0)
    f, w = compiled((9, 12), 12, 37, rng)
    x, b = rng.standard_normal((9, 12)).astype("float32"), np.zeros(37, "float32")
    x[3, 2], x[5, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = np.maximum(x @ w + b, 0)
    np.testing.assert_allclose(f(x, b).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert np.isnan(f(x, b).numpy()[3]).all() and not np.isnan(f(x, b).numpy()[4]).any()


@pytest.mark.parametrize(("m", "k", "n"), [(17, 8, 9), (16, 5, 20), (33, 4, 8)])
def test_packed_in_the_program_agrees_in_the_interpreter(m, k, n):
    mod = unity.IRModule({"main": parse(PRODUCT.format(m=m, k=k, n=n))}, {}, {})
    found = schedule_function("main", mod["main"], set(), SMALL, CPU.rules)
    assert found is not None and "packed" in found.reason and not found.packed
    after = unity.IRModule({"main": found.func}, {}, {})
    verify(after)
    rng = np.random.default_rng(1)
    a, b, c = (
        rng.standard_normal((m, k)).astype("float32"),
        rng.standard_normal((n, k)).astype("float32"),
        np.zeros((m, n), "float32"),
    )
    run(after, "main", a, b, c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 8, 9), (6, 5, 20)])
def test_packed_at_build_agrees_with_numpy(m, k, n):
    found = schedule_function("main", parse(PRODUCT.format(m=m, k=k, n=n)), {1}, SMALL, CPU.rules)
    assert found is not None and list(found.packed) == [1]
    rng = np.random.default_rng(1)
    a, b, c = (
        rng.standard_normal((m, k)).astype("float32"),
        rng.standard_normal((n, k)).astype("float32"),
        np.zeros((m, n), "float32"),
    )
    run(unity.IRModule({"main": found.func}, {}, {}), "main", a, found.packed[1].pack(b), c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)


def test_packing_says_where_each_element_goes():
    array = np.arange(2 * 5 * 3).reshape(2, 5, 3)
    layout = Packing((0,), 1, (2,), 4)
    packed = layout.pack(array)
    assert packed.shape == layout.shape(array.shape) == (2, 2, 3, 4)
    for b, n, k in itertools.product(range(2), range(5), range(3)):
        assert packed[b, n // 4, k, n % 4] == array[b, n, k]
    assert (packed[:, 1, :, 1:] == 0).all()


def test_equal_calls_share_one_packed_constant():
    w = np.ones((4, 32), "float32")
    mod = parse(
        """
@I.ir_module
class Module:
    @T.prim_func
    def mm(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 32), "float32"), C: T.Buffer((8, 32), "float32")):
        for i, j, l in T.grid(8, 32, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function
    def main(x: R.Tensor((8, 4), "float32")):
        a = R.call_dps(mm, (x, w), R.Tensor((8, 32), "float32"))
        b = R.call_dps(mm, (x, w), R.Tensor((8, 32), "float32"))
        c = R.add(a, b)
        return c
""",
        scope={"w": w},
    )
    ex = unity.compile(mod)
    assert len([c for c in ex.program.constants if c.numpy().size == w.size]) == 1
    x = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    np.testing.assert_allclose(unity.VirtualMachine(ex)["main"](x).numpy(), 2 * (x @ w), rtol=1e-5)


def test_reasons(monkeypatch, capsys):
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    mod = unity.IRModule(
        {
            "narrow": parse(PRODUCT.format(m=4, k=4, n=3)),
            "few": parse(PRODUCT.format(m=4, k=4, n=64)),
            "wide": parse(PRODUCT.format(m=16, k=4, n=64)),
        },
        {},
        {},
    )
    after = schedule_default(mod)
    said = capsys.readouterr().err
    assert "narrow: not contraction: 3 columns are less than a vector" in said
    assert "few: not contraction: columns are not contiguous in an operand that is not packed" in said
    assert "wide: contraction: tile of" in said and len(said.splitlines()) == 3  # a line for each program
    assert after["narrow"] is mod["narrow"] and after["wide"].attrs["tir.is_scheduled"]
    assert schedule_default(after) is after


@pytest.mark.parametrize(("shape", "rows"), [("32, 1", 4), ("1, 32", 4), ("2, 20", 4), ("20, 2", 4), ("1, 1", 1)])
def test_rows_of_a_tile_run_along_an_axis_that_can_fill_it(shape, rows):
    text = f"""
@T.prim_func
def main(A: T.Buffer(({shape}, 24), "float32"), B: T.Buffer((24, 64), "float32"), C: T.Buffer(({shape}, 64), "float32")):
    for b, i, j, k in T.grid({shape}, 64, 24):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = T.float32(0)
            C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vk, vj]
"""
    found = schedule_function("main", parse(text), {1}, Machine(64, 32), CPU.rules)
    assert found is not None
    height = int(found.reason.removeprefix("tile of ").split(" x ")[0])
    assert height == 1 if rows == 1 else height >= rows


@pytest.mark.parametrize("shape", ["n, 128", "2, n, 128", "n, 3, 128"])
def test_symbolic_rows_shared_between_threads(shape):
    axes = [e.strip() for e in shape.split(",")]
    names = ["i", "j", "b"][: len(axes) - 1]
    values = ", ".join([f"v{name}" for name in names])
    out = ", ".join([*axes[:-1], "256"])
    text = f"""
@T.prim_func
def main(a: T.handle, B: T.Buffer((128, 256), "float32"), c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, ({shape}), "float32")
    C = T.match_buffer(c, ({out}), "float32")
    P = T.alloc_buffer(({out}), "float32")
    for {", ".join(names)}, q, k in T.grid({out}, 128):
        with T.block("P"):
            {values}, vq, vk = T.axis.remap("{"S" * len(names)}SR", [{", ".join(names)}, q, k])
            with T.init():
                P[{values}, vq] = T.float32(0)
            P[{values}, vq] = P[{values}, vq] + A[{values}, vk] * B[vk, vq]
    for {", ".join(names)}, q in T.grid({out}):
        with T.block("C"):
            {values}, vq = T.axis.remap("{"S" * len(names)}S", [{", ".join(names)}, q])
            C[{values}, vq] = T.max(P[{values}, vq], T.float32(0))
"""
    found = schedule_function("main", parse(text), set(), Machine(64, 32), CPU.rules)
    assert found is not None and found.reason.startswith("tile of")
    assert sum([loop.kind == "parallel" for loop in collect(found.func.body, For)]) == 1
    run_it = unity.build(found.func)["main"]
    rng = np.random.default_rng(0)
    b = rng.standard_normal((128, 256)).astype("float32")
    for n in (0, 1, 7, 33):
        a = rng.standard_normal([n if e == "n" else int(e) for e in axes]).astype("float32")
        c = np.empty((*a.shape[:-1], 256), "float32")
        run_it(a, b, c)
        np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("m", "n", "k", "said"),
    [(64, 64, 64, "not packed"), (64, 192, 64, "not packed"), (112, 192, 64, "packed"), (192, 64, 64, "packed")],
)
def test_an_operand_that_the_first_cache_keeps_is_read_as_it_is(m, n, k, said):
    """No constant, few bytes of contiguous columns, not many rows: the copy would cost more than it saves."""
    contiguous = PRODUCT.replace("B: T.Buffer(({n}, {k})", "B: T.Buffer(({k}, {n})").replace("B[vj, vk]", "B[vk, vj]")
    found = schedule_function("main", parse(contiguous.format(m=m, n=n, k=k)), set(), Machine(64, 32), CPU.rules)
    assert found is not None and found.reason.split(", ")[1] == said


@pytest.mark.parametrize(
    ("m", "n", "k", "order"),
    [
        (512, 128, 64, "i_0_j_0_fused"),  # few weights, many rows: each row is read once
        (64, 512, 64, "j_0_i_0_fused"),
        (1024, 1000, 512, "j_0_i_0_fused"),  # 2 MB of weights: each panel is read once
    ],
)
def test_what_is_read_again_stays_near(m, n, k, order):
    found = schedule_function("main", parse(PRODUCT.format(m=m, n=n, k=k)), {1}, Machine(64, 32), CPU.rules)
    assert found is not None
    assert [loop.loop_var.name for loop in collect(found.func.body, For) if loop.kind == "parallel"] == [order]


@pytest.mark.parametrize(("processor", "outside"), [("znver5", True), ("sapphirerapids", False), ("x86-64-v4", False)])
def test_chunks_go_outside_where_few_rows_wait_for_weights(processor, outside):
    """Where lines that are read once can pass the shared cache by: all rows use the part of a panel that a chunk needs."""
    with unity.Target(f"llvm -mcpu={processor}"):
        machine = machine_in_use()
    found = schedule_function("main", parse(PRODUCT.format(m=49, n=512, k=2048)), {1}, machine, CPU.rules)
    assert found is not None
    chunks = [loop for loop in collect(found.func.body, For) if loop.note(SOFTWARE_PREFETCH_ONCE) is not None]
    assert [(loop.loop_var.name, loop.kind, loop.note(SOFTWARE_PREFETCH_PANEL)) for loop in chunks] == (
        [("k_0_m", "serial", 1)] if outside else []
    )
    text = str(lower_prim_funcs({"main": found.func})["main"])
    assert ("T.prefetch(" in text) and (", 0, 0, 1)" in text) == outside


def test_the_second_level_cache_is_that_of_the_processor(tmp_path, monkeypatch):
    """By its name; of this machine, where it has a name that nobody knows, by the word of the system; a usual one else."""
    names = {
        "haswell": 256,
        "znver3": 512,
        "znver5": 1024,
        "icelake-server": 1280,
        "emeraldrapids": 2048,
        "x86-64-v3": 1024,
    }
    found = {name: CPU.machine(unity.Target(f"llvm -mcpu={name}")).second_level >> 10 for name in names}
    assert found == names
    for level, size in (("1", "48K"), ("2", "640K"), ("3", "32M")):
        folder = tmp_path / f"index{level}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    monkeypatch.setattr(system, "CACHES", tmp_path)
    system.second_level_cache.cache_clear()
    unknown = Processor("a new one", "", frozenset())
    try:
        assert second_level_of(unknown) >> 10 == 1024
        monkeypatch.setattr(backend, "host_processor", lambda: unknown)
        assert second_level_of(unknown) >> 10 == 640
        monkeypatch.setattr(system, "CACHES", tmp_path / "none")
        system.second_level_cache.cache_clear()
        assert second_level_of(unknown) >> 10 == 1024
    finally:
        system.second_level_cache.cache_clear()


def test_panels_are_fetched_ahead_where_the_second_level_cache_holds_two():
    """A panel of more than a megabyte: of processors whose cores have two, not of others."""
    for processor, fetched in (("skylake-avx512", False), ("sapphirerapids", True), ("x86-64-v4", False)):
        with unity.Target(f"llvm -mcpu={processor}"):
            machine = machine_in_use()
        found = schedule_function("main", parse(PRODUCT.format(m=64, n=512, k=4608)), {1}, machine, CPU.rules)
        assert found is not None
        loops = collect(found.func.body, For)
        assert any([loop.note(SOFTWARE_PREFETCH_PANEL) is not None for loop in loops]) == fetched, processor
