"""Winograd's algorithm: its matrices are exact, tiles agree with direct sums on every shape, what it refuses, and what it spoils."""

from fractions import Fraction

import numpy as np
import pytest

import unity
from unity.frontend.choose import whole
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import PassError
from unity.transform import DEFAULT_PIPELINE
from unity.transform.default_schedule.winograd import MATRICES
from unity.transform.relax.layout.winograd import transformed_weights, winograd


def conv(shape, features, kernel=(3, 3), scope=None, **attrs):
    shape, rng = tuple(shape), np.random.default_rng(0)
    w = (rng.standard_normal((*kernel, shape[3], features)) / shape[3] ** 0.5).astype("float32")
    given = {"padding": 1, "data_layout": "NHWC", "kernel_layout": "HWIO", **attrs}
    text = f"""
@R.function
def main(x: R.Tensor({shape}, "float32")):
    y = R.nn.conv2d(x, w, {", ".join([f"{k}={v!r}" for k, v in given.items()])})
    z = R.nn.relu(y)
    return z
"""
    return unity.IRModule({"main": parse(text, scope={"w": w if scope is None else scope})}, {}, {})


@pytest.mark.parametrize("tile", MATRICES)
def test_matrices_give_the_convolution_exactly(tile):
    """On integers in exact arithmetic: all 3-tap sums of a line of tile + 2 elements."""
    m = MATRICES[tile]
    rng = np.random.default_rng(0)
    d, g = [[Fraction(int(v)) for v in rng.integers(-9, 10, n)] for n in (tile + 2, 3)]
    kernel = [[Fraction(round(v * 24), 24) for v in row] for row in m.kernel.tolist()]
    left = [sum([Fraction(int(a)) * b for a, b in zip(row, d)]) for row in m.before.tolist()]
    right = [sum([a * b for a, b in zip(row, g)]) for row in kernel]
    made = [sum([Fraction(int(a)) * u * v for a, u, v in zip(row, left, right)]) for row in m.after.tolist()]
    assert made == [sum([d[i + k] * g[k] for k in range(3)]) for i in range(tile)]


SHAPES = [
    ((1, 8, 8, 16), 16, 1), ((2, 7, 9, 32), 16, (0, 1, 2, 1)), ((1, 1, 1, 16), 48, 1), ((3, 5, 3, 16), 32, 0),
    (("n", 6, 11, 16), 16, (2, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "features", "padding"), SHAPES)
@pytest.mark.parametrize("tile", MATRICES)
def test_tiles_agree_with_direct_sums(shape, features, padding, tile):
    mod = conv(shape, features, padding=padding)
    made = winograd.with_options(tile=tile)(mod)
    verify(made)
    assert "R.nn.conv2d" not in made.script() and made.script().count("R.call_dps(winograd_") == 2
    direct, tiled = unity.compile(mod)["main"], unity.compile(made)["main"]
    for n in (0, 1, 3) if shape[0] == "n" else (shape[0],):
        x = np.random.default_rng(1).standard_normal((n, *shape[1:])).astype("float32")
        np.testing.assert_allclose(tiled(x).numpy(), direct(x).numpy(), rtol=1e-3, atol=2e-5)


def test_the_interpreter_agrees():
    mod = conv((1, 3, 4, 16), 16)
    made = winograd(mod)
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 16)).astype("float32")
    found = run(made, "main", x)
    found = found if isinstance(found, np.ndarray) else found.numpy()
    np.testing.assert_allclose(unity.compile(made)["main"](x).numpy(), found, rtol=1e-5, atol=1e-6)


def test_weights_are_rounded_once():
    w = np.random.default_rng(0).standard_normal((3, 3, 2, 2)).astype("float32")
    g = MATRICES[4].kernel
    np.testing.assert_array_equal(
        transformed_weights(w, 4).reshape(6, 6, 2, 2)[3, 5],
        np.einsum("i,j,ijcf->cf", g[3], g[5], w.astype("float64")).astype("float32"),
    )


REFUSED = [
    ((1, 8, 8, 16), 16, {"strides": 2}), ((1, 8, 8, 16), 16, {"dilation": 2}), ((1, 8, 8, 16), 20, {}), ((1, 8, 8, 12), 16, {}),
    ((1, 8, 8, 16), 16, {"kernel": (1, 3)}), ((1, "h", 8, 16), 16, {}), ((1, 8, 8, 16), 16, {"out_layout": "NCHW"}),
    ((1, 8, 8, 16), 16, {"out_dtype": "float64"}), ((0, 4, 4, 16), 16, {}), ((1, 1, 4, 16), 16, {"padding": (0, 1, 1, 1)}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "features", "attrs"), REFUSED)
def test_what_stays(shape, features, attrs):
    mod = conv(shape, features, **attrs)
    with unity.Target("llvm -mcpu=x86-64-v3"):  # whose vectors have eight lanes
        assert winograd(mod) is mod


def test_an_infinite_element_spoils_its_tiles_alone():
    """What documentation says of it: results beyond the tiles that hold the element stay right."""
    mod = conv((1, 8, 8, 16), 16)
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 16)).astype("float32")
    exact = unity.compile(mod)["main"](x).numpy()
    x[0, 0, 0, 3] = np.inf
    made = unity.compile(winograd(mod))["main"](x).numpy()
    np.testing.assert_allclose(made[0, 2:, 2:], exact[0, 2:, 2:], rtol=1e-3, atol=2e-5)
    assert not np.isfinite(made[0, :2, :2]).all()


def test_never_in_the_default():
    assert "winograd" not in str(DEFAULT_PIPELINE)
    with pytest.raises(PassError, match="E988"):
        winograd.with_options(tile=3)(conv((1, 8, 8, 16), 16))


@pytest.mark.parametrize("wins", [True, False])
def test_a_candidate_where_it_is_asked_for(monkeypatch, wins):
    monkeypatch.setattr(whole, "BUDGET", 0.0)
    monkeypatch.setattr(whole, "_compare_speed", lambda first, second: (1e-3, 1.5 if wins else 0.9))
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 16, 3, 3)).astype("float32")
    text = """
@R.function
def main(x: R.Tensor((1, 16, 24, 24), "float32")):
    y = R.nn.conv2d(x, w, padding=1)
    z = R.nn.conv2d(y, w, strides=2)
    return z
"""
    mod = unity.IRModule({"main": parse(text, scope={"w": w})}, {}, {})
    made = unity.compile(mod, choose="measured+winograd")
    rows = [row for row in made.choices if row.candidate.startswith("unity.winograd")]
    assert len(rows) == 4 and sum([row.chosen for row in rows]) == wins
    assert [row.reason for row in rows if "stride" in row.reason]
    assert ("winograd_tiles" in made.as_text()) == wins
    x = rng.standard_normal((1, 16, 24, 24)).astype("float32")
    np.testing.assert_allclose(made["main"](x).numpy(), unity.compile(mod)["main"](x).numpy(), rtol=1e-2, atol=2e-2)
    assert not any([row.candidate.startswith("unity.w") for row in unity.compile(mod, choose="measured").choices])
