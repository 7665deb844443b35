"""Tensor programs of a user with a gradient of their own, found by name."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity import te
from unity.op.common.gradients import TE_GRADIENTS
from unity.relax import BlockBuilder, TensorType, Var, op, register_te_gradient
from unity.script import parse
from unity.support.errors import PassError, TypeRuleError
from unity.transform import gradient


@pytest.fixture(autouse=True)
def _forget():
    known = dict(TE_GRADIENTS)
    yield
    TE_GRADIENTS.clear()
    TE_GRADIENTS.update(known)


def scaled(a, b, factor=1.0):
    return te.compute(a.shape, lambda *i: a[i] * b[i] * factor, "scaled")


def scaled_gradient(out, a, b, factor=1.0):
    return [
        te.compute(a.shape, lambda *i: out[i] * b[i] * factor, "da"),
        te.compute(a.shape, lambda *i: out[i] * a[i] * factor, "db"),
    ]


def module(name: str = "test.scaled", factor: float = 3.0):
    x, y = Var("x", TensorType((2, 3), "float32")), Var("y", TensorType((2, 3), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        z = bb.emit_te_with_grad(
            scaled, op.exp(x), y, factor=factor, te_grad_name=name, te_grad_kwargs={"factor": factor}
        )
        bb.emit_func_output(bb.emit(op.sum(op.multiply(z, z))))
    return bb.get()


def test_gradient_by_name() -> None:
    register_te_gradient("test.scaled", scaled_gradient)
    mod = module()
    assert unity.ir.structural_equal(parse(mod.script()), mod)
    made = gradient(mod)
    assert "main_adjoint" in made and len(made.prim_funcs()) == 2
    x, y = np.random.default_rng(0).standard_normal((2, 2, 3)).astype("float32")
    found = unity.compile(made)["main_adjoint"](x, y)
    e = np.exp(x)
    z = e * y * 3
    np.testing.assert_allclose(np.asarray(found[0]), (z * z).sum(), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found[1][0]), 2 * z * y * 3 * e, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(found[1][1]), 2 * z * e * 3, rtol=1e-4, atol=1e-5)


def test_decorator_and_taken_names() -> None:
    @register_te_gradient("test.scaled")
    def mine(out, a, b, factor=1.0):
        return scaled_gradient(out, a, b, factor)

    assert TE_GRADIENTS["test.scaled"] is mine
    with pytest.raises(TypeRuleError) as caught:
        register_te_gradient("test.scaled", scaled_gradient)
    assert caught.value.code == "E214"
    assert register_te_gradient("test.scaled", scaled_gradient, override=True) is scaled_gradient


def test_mistakes() -> None:
    with pytest.raises(PassError, match=r"no gradient named 'test\.unknown'"):
        gradient(module("test.unknown"))
    register_te_gradient("test.short", lambda out, a, b, factor: [scaled(out, a)])
    with pytest.raises(PassError, match="1 tensors for 2 arguments"):
        gradient(module("test.short"))
