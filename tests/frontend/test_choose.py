"""choose=: candidates for products and convolutions, the table, library kernels in saved files."""

import numpy as np
import pytest

import unity
from unity.ffi.library import KERNELS, PREFIX, packed_name
from unity.frontend.choose import whole
from unity.frontend.choose.choose import ESTIMATED
from unity.script import parse
from unity.support.errors import FrontendError, VMError
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

W = np.random.default_rng(0).standard_normal((24, 40)).astype("float32")
SCRIPT = """
@R.function
def main(x: R.Tensor({shape}, "float32")):
    with R.dataflow():
        y = R.matmul(x, w)
        z = R.nn.relu(y)
        R.output(z)
    return z
"""
CALLS: list[str] = []


def product(shape="(3, 24)"):
    return unity.IRModule({"main": parse(SCRIPT.format(shape=shape), scope={"w": W})}, {}, {})


def mine(x, w, out):
    CALLS.append("mine")
    np.copyto(out.numpy(), x.numpy() @ w.numpy())


def products(made):
    """Rows of the table about products."""
    return [row for row in made.choices if row.op == "R.matmul"]


@pytest.fixture
def registry(monkeypatch):
    """Only the kernels a test registers."""
    saved = dict(KERNELS)
    KERNELS.clear()
    monkeypatch.setattr(whole, "BUDGET", 0.0)
    CALLS.clear()
    yield KERNELS
    KERNELS.clear()
    KERNELS.update(saved)
    for name in unity.list_global_func_names():
        if name.startswith(PREFIX):
            unity.remove_global_func(name)


def test_a_library_kernel_that_wins_is_called(registry, monkeypatch, tmp_path):
    gains(monkeypatch, lambda about: 1.5)
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)
    made = unity.compile(product(), choose="measured")
    CALLS.clear()
    x = np.ones((3, 24), "float32")
    np.testing.assert_allclose(made["main"](x).numpy(), np.maximum(x @ W, 0), rtol=1e-5, atol=1e-5)
    assert CALLS == ["mine"]
    rows = {row.candidate: row for row in made.choices}
    assert rows["test.mine"].chosen and not rows["unity"].chosen and rows["test.mine"].seconds > 0
    text = unity.explain_choices(made)
    assert "matmul" in text and "[3,24] x [24,40] float32" in text and "microseconds" in text
    made.save(tmp_path / "m")
    unity.remove_global_func(f"{PREFIX}test.mine")  # as in a new process that registers the kernel again
    again = unity.load(tmp_path / "m")
    np.testing.assert_array_equal(unity.VirtualMachine(again)["main"](x).numpy(), made["main"](x).numpy())
    assert unity.explain_choices(again) == ""
    unity.remove_global_func(f"{PREFIX}test.mine")
    del registry["test.mine"]
    with pytest.raises(VMError, match="E985"):
        unity.VirtualMachine(unity.load(tmp_path / "m"))


def test_ours_is_kept_where_no_library_is_much_faster(registry, monkeypatch):
    gains(monkeypatch, lambda about: 1.01)
    unity.register_library_kernel("R.matmul", "test.mine", lambda anchor: True, mine)
    made = unity.compile(product(), choose="measured")
    CALLS.clear()
    made["main"](np.ones((3, 24), "float32"))
    assert CALLS == [] and [row.chosen for row in made.choices if row.op == "R.matmul"][:2] == [True, False]


def test_wrong_failing_and_unwilling_kernels_are_out(registry, monkeypatch):
    gains(monkeypatch, lambda about: 1.5)

    def fails(x, w, out):
        raise RuntimeError("not today")

    unity.register_library_kernel("matmul", "test.wrong", lambda anchor: True, lambda x, w, out: out.numpy().fill(1))
    unity.register_library_kernel("matmul", "test.fails", lambda anchor: True, fails)
    unity.register_library_kernel("matmul", "test.no", lambda anchor: "it is Sunday", mine)
    made = unity.compile(product(), choose="measured")
    rows = {row.candidate: row for row in made.choices}
    assert rows["unity"].chosen
    assert rows["test.wrong"].reason == "the result of the program differs"
    assert "not today" in rows["test.fails"].reason and rows["test.no"].reason == "it is Sunday"


def test_symbolic_dimensions_are_those_of_the_example(registry, monkeypatch):
    """A kernel is asked about the sizes of the example, and computes all sizes; without an example nothing is tried."""
    gains(monkeypatch, lambda about: 1.5)
    seen = []
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: seen.append(anchor.shapes[0]) or True, mine)
    blind = unity.compile(product('("n", 24)'), choose="measured")
    assert not seen and [row.reason for row in blind.choices] == [
        "not measured: the sizes of x are open: give example_inputs"
    ]
    made = unity.compile(product('("n", 24)'), choose="measured", example_inputs=(np.ones((7, 24), "float32"),))
    assert seen == [(7, 24)] and [row.chosen for row in products(made)] == [False, True]
    for n in (0, 1, 5, 300):
        CALLS.clear()
        x = np.random.default_rng(n).standard_normal((n, 24)).astype("float32")
        np.testing.assert_allclose(made["main"](x).numpy(), np.maximum(x @ W, 0), rtol=1e-4, atol=1e-4)
        assert CALLS == ["mine"]


TWO_PRODUCTS = """
@R.function
def main(x: R.Tensor((64, 96), "float32"), s: R.Tensor((2, 2), "float32")):
    y = R.matmul(x, w)
    z = R.matmul(y, v)
    t = R.matmul(s, s)
    return (z, t)
"""


@pytest.mark.parametrize("gain", [1.5, 0.9])
def test_one_kernel_for_all_calls_then_for_each(registry, monkeypatch, gain):
    gains(monkeypatch, lambda about: gain if about == "kernels" else 1.5 if about == "program" else 0.9)
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)
    rng = np.random.default_rng(0)
    w, v, s = [rng.standard_normal(shape).astype("float32") for shape in ((96, 80), (80, 40), (2, 2))]
    mod = unity.IRModule({"main": parse(TWO_PRODUCTS, scope={"w": w, "v": v})}, {}, {})
    made = unity.compile(mod, choose="measured")
    rows = {(row.shape, row.candidate): row for row in made.choices}
    assert rows["", "test.mine for all calls"].chosen == (gain > 1)
    for shape in ("[64,96] x [96,80] float32", "[64,80] x [80,40] float32"):
        assert rows[shape, "test.mine"].chosen == (gain > 1) != rows[shape, "unity"].chosen
    small = rows["[2,2] x [2,2] float32", "test.mine"]
    assert small.reason == "not tried: the call is too small a part of the program" and not small.chosen
    x = rng.standard_normal((64, 96)).astype("float32")
    np.testing.assert_allclose(made["main"](x, s)[0].numpy(), x @ w @ v, rtol=1e-3, atol=1e-3)


def test_attributes_reach_the_kernel(registry):
    given = {}
    unity.register_library_kernel(
        "nn.conv2d", "test.conv", lambda anchor: True, lambda x, w, out, **attrs: given.update(attrs)
    )
    name = packed_name(registry["test.conv"], {"strides": (2, 2), "out_dtype": None})
    unity.get_global_func(name)(None, None, None)
    assert given == {"strides": [2, 2]} or given == {"strides": (2, 2)}


def test_the_default_is_an_estimate():
    made = unity.compile(product('("n", 24)'))
    rows = list(made.choices)
    assert len(rows) == len(ESTIMATED) and all([row.chosen and row.candidate == "unity" for row in rows])
    assert rows[-1].seconds >= rows[0].seconds > 0


@pytest.mark.parametrize("name", ["numpy.matmul", "torch.matmul", "torch.conv2d"])
def test_kernels_that_come_along(name, monkeypatch):
    pytest.importorskip("torch")
    gains(monkeypatch, lambda about: 1.5 if about.startswith(("R.", "program")) else 0.9)
    others = {k: v for k, v in KERNELS.items() if k != name}
    for other in others:
        monkeypatch.delitem(KERNELS, other)
    rng = np.random.default_rng(0)
    if name == "torch.conv2d":
        w = rng.standard_normal((8, 2, 3, 3)).astype("float32")
        text = """
@R.function
def main(x: R.Tensor((2, 4, 9, 9), "float32")):
    with R.dataflow():
        y = R.nn.conv2d(x, w, strides=(2, 1), padding=(1, 0, 1, 0), dilation=(1, 2), groups=2)
        R.output(y)
    return y
"""
        mod, x = parse(text, scope={"w": w}), rng.standard_normal((2, 4, 9, 9)).astype("float32")
    else:
        mod, x = product(), rng.standard_normal((3, 24)).astype("float32")
    made = unity.compile(mod, choose="measured")
    assert {row.candidate for row in made.choices if row.chosen} == {name, "with all of these"}, str(made.choices)
    np.testing.assert_allclose(made["main"](x).numpy(), unity.compile(mod)["main"](x).numpy(), rtol=1e-4, atol=1e-4)


def test_mistakes(registry):
    with pytest.raises(FrontendError, match="E981"):
        unity.compile(product(), choose="fastest")
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)
    with pytest.raises(VMError, match="E984"):
        unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)


CONVOLUTIONS = """
@R.function
def main(x: R.Tensor({shape}, "float32")):
    with R.dataflow():
        y = R.nn.relu(R.nn.conv2d(x, w, padding=1))
        z = R.nn.relu(R.add(R.nn.conv2d(y, w, padding=1), y))
        R.output(z)
    return z
"""
IMAGE = np.random.default_rng(1).standard_normal((1, 16, 24, 24)).astype("float32")


def convolutions(shape="(1, 16, 24, 24)"):
    w = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32") / 12
    return unity.IRModule({"main": parse(CONVOLUTIONS.format(shape=shape), scope={"w": w})}, {}, {})


def gains(monkeypatch, of):
    """Let races say what a test wants: ``of(about)`` is the gain of a step, or of the verdict ("program")."""
    tried, about = whole.Programs.try_step, ["program"]

    def recording(self, step):
        about[0] = step.about
        found = tried(self, step)
        about[0] = "program"
        return found

    monkeypatch.setattr(whole.Programs, "try_step", recording)
    monkeypatch.setattr(whole, "_compare_speed", lambda first, second: (1e-3, of(about[0])))


@pytest.mark.parametrize("taken", [(), ("layout",), ("fusion",), ("layout", "fusion")])
def test_decisions_about_the_graph(registry, monkeypatch, taken, tmp_path):
    gains(monkeypatch, lambda about: 1.5 if about in (*taken, "program") else 0.9)
    made, default = (unity.compile(convolutions(), choose=way) for way in ("measured", "analytic"))
    assert {row.op for row in made.choices if row.chosen and row.op != "R.nn.conv2d"} == {
        *taken,
        *(["program"] if taken else []),
    }
    assert (made.as_text() == default.as_text()) == (not taken)
    np.testing.assert_allclose(made["main"](IMAGE).numpy(), default["main"](IMAGE).numpy(), rtol=1e-4, atol=1e-5)
    made.save(tmp_path / "m")
    again = unity.VirtualMachine(unity.load(tmp_path / "m"))["main"](IMAGE).numpy()
    np.testing.assert_array_equal(again, made["main"](IMAGE).numpy())


def test_what_is_slower_than_the_default_after_all_is_dropped(registry, monkeypatch):
    gains(monkeypatch, lambda about: 0.99 if about == "program" else 1.5)
    made = unity.compile(convolutions(), choose="measured")
    assert made.as_text() == unity.compile(convolutions()).as_text()
    assert [row.reason for row in made.choices][-1] == "0.99 times as fast as the default"


def test_kernels_are_tried_in_the_passes_that_are_given(registry, monkeypatch):
    gains(monkeypatch, lambda about: 1.5)
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)
    made = unity.compile(product(), choose="measured", pipeline=DEFAULT_PIPELINE)
    assert [row.op for row in made.choices] == ["R.matmul", "R.matmul", "program"]
    assert [row.candidate for row in products(made) if row.chosen] == ["test.mine"]


def test_open_sizes_are_those_of_the_example(registry, monkeypatch):
    gains(monkeypatch, lambda about: 1.5)
    shape = '("n", 16, 24, 24)'
    blind = unity.compile(convolutions(shape), choose="measured")
    assert [row.reason for row in blind.choices] == ["not measured: the sizes of x are open: give example_inputs"]
    made = unity.compile(convolutions(shape), choose="measured", example_inputs=(IMAGE,))
    assert {"layout", "fusion"} <= {row.op for row in made.choices if row.chosen}
    for n in (1, 3):
        x = np.concatenate([IMAGE] * n)
        np.testing.assert_allclose(made["main"](x).numpy(), blind["main"](x).numpy(), rtol=1e-4, atol=1e-5)


def test_decisions_stand_when_schedules_are_searched_for(registry, monkeypatch):
    gains(monkeypatch, lambda about: 1.5)
    database = unity.meta_schedule.database.MemoryDatabase()
    made = unity.compile(convolutions(), choose="measured", tune=database)
    assert (
        made.as_text()
        == unity.compile(convolutions(), choose="measured").as_text()
        != unity.compile(convolutions()).as_text()
    )
