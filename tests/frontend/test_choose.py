"""choose=: candidates for products and convolutions, the table, library kernels in saved files."""

import numpy as np
import pytest

import unity
from unity.ffi.library import KERNELS, PREFIX, packed_name
from unity.frontend.choose import choose
from unity.script import parse
from unity.support.errors import FrontendError, VMError

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


@pytest.fixture
def registry(monkeypatch):
    """Only the kernels a test registers; nothing measured before is known."""
    saved = dict(KERNELS)
    KERNELS.clear()
    monkeypatch.setattr(choose, "KNOWN", {})
    monkeypatch.setattr(choose, "BUDGET", 0.0)
    CALLS.clear()
    yield KERNELS
    KERNELS.clear()
    KERNELS.update(saved)
    for name in unity.list_global_func_names():
        if name.startswith(PREFIX):
            unity.remove_global_func(name)


def test_a_library_kernel_that_wins_is_called(registry, monkeypatch, tmp_path):
    monkeypatch.setattr(choose, "MARGIN", 0.0)  # any time is fast enough
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)
    made = unity.compile(product(), choose="measured")
    CALLS.clear()
    x = np.ones((3, 24), "float32")
    np.testing.assert_allclose(made["main"](x).numpy(), np.maximum(x @ W, 0), rtol=1e-5, atol=1e-5)
    assert CALLS == ["mine"]
    rows = {row.candidate: row for row in made.choices}
    assert rows["test.mine"].chosen and not rows["unity"].chosen and rows["unity"].seconds > 0
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
    monkeypatch.setattr(choose, "MARGIN", 1e9)
    unity.register_library_kernel("R.matmul", "test.mine", lambda anchor: True, mine)
    made = unity.compile(product(), choose="measured")
    CALLS.clear()
    made["main"](np.ones((3, 24), "float32"))
    assert CALLS == [] and [row.chosen for row in made.choices] == [True, False]


def test_wrong_failing_and_unwilling_kernels_are_out(registry, monkeypatch):
    monkeypatch.setattr(choose, "MARGIN", 0.0)

    def fails(x, w, out):
        raise RuntimeError("not today")

    unity.register_library_kernel("matmul", "test.wrong", lambda anchor: True, lambda x, w, out: out.numpy().fill(1))
    unity.register_library_kernel("matmul", "test.fails", lambda anchor: True, fails)
    unity.register_library_kernel("matmul", "test.no", lambda anchor: "it is Sunday", mine)
    made = unity.compile(product(), choose="measured")
    rows = {row.candidate: row for row in made.choices}
    assert rows["unity"].chosen
    assert rows["test.wrong"].reason == "its result differs from ours"
    assert "not today" in rows["test.fails"].reason and rows["test.no"].reason == "it is Sunday"


def test_symbolic_dimensions_are_measured_in_buckets(registry):
    seen = []
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: seen.append(anchor.shapes[0]) or True, mine)
    made = unity.compile(product('("n", 24)'), choose="measured")
    assert seen == [(n, 24) for n in choose.BUCKETS] and len(made.choices) == 2 * len(choose.BUCKETS)
    x = np.ones((5, 24), "float32")
    np.testing.assert_allclose(made["main"](x).numpy(), np.maximum(x @ W, 0), rtol=1e-5, atol=1e-5)


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
    assert len(rows) == len(choose.BUCKETS) and all([row.chosen and row.candidate == "unity" for row in rows])
    assert rows[-1].seconds >= rows[0].seconds > 0


@pytest.mark.parametrize("name", ["numpy.matmul", "torch.matmul", "torch.conv2d"])
def test_kernels_that_come_along(name, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(choose, "MARGIN", 0.0)
    monkeypatch.setattr(choose, "KNOWN", {})
    monkeypatch.setattr(choose, "BUDGET", 0.0)
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
    assert [row.candidate for row in made.choices if row.chosen] == [name], str(made.choices)
    np.testing.assert_allclose(made["main"](x).numpy(), unity.compile(mod)["main"](x).numpy(), rtol=1e-4, atol=1e-4)


def test_mistakes(registry):
    with pytest.raises(FrontendError, match="E981"):
        unity.compile(product(), choose="fastest")
    unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)
    with pytest.raises(VMError, match="E984"):
        unity.register_library_kernel("matmul", "test.mine", lambda anchor: True, mine)


@pytest.mark.parametrize("least", [17, 65])
def test_the_winner_of_each_bucket_computes_its_sizes(registry, monkeypatch, least):
    """A kernel that takes large calls alone is called for those, ours for the others."""
    monkeypatch.setattr(choose, "MARGIN", 0.0)
    unity.register_library_kernel(
        "matmul", "test.mine", lambda anchor: anchor.shapes[0][0] >= least or "too small", mine
    )
    made = unity.compile(product('("n", 24)'), choose="measured")
    for n in (0, 1, 5, 16, 17, 64, 65, 300):
        CALLS.clear()
        x = np.random.default_rng(n).standard_normal((n, 24)).astype("float32")
        np.testing.assert_allclose(made["main"](x).numpy(), np.maximum(x @ W, 0), rtol=1e-4, atol=1e-4)
        assert bool(CALLS) == (n > choose.BUCKETS[[b >= least for b in choose.BUCKETS].index(True) - 1]), n
