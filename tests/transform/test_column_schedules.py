"""Convolutions with channels first: tiles with the channels in vectors, transposed on their way out."""

import numpy as np
import pytest

import unity
from unity import relax
from unity.ir.function import PrimFunc
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.verifier.verifier import verify
from unity.target.cpu.backend import CPU
from unity.transform import DEFAULT_PIPELINE
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.infra.backend import Machine
from unity.transform.infra.passes import Pipeline

RNG = np.random.default_rng(0)
SMALL = Machine(16, 16)
PIPELINE = DEFAULT_PIPELINE.without("convert_layout")
BEFORE = Pipeline(PIPELINE.passes[: [p.name for p in PIPELINE].index("schedule_default")])


def convolution(shape, features, kernel, epilogue, **attrs):
    """A module, the operands of its program behind the data, and what it computes."""
    weight = RNG.standard_normal((features, shape[1], *kernel)).astype("float32")
    bias = RNG.standard_normal((features, 1, 1)).astype("float32")
    bb = unity.BlockBuilder()
    x = relax.Var("x", shape, "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.conv2d(x, relax.const(weight), **attrs))
            if epilogue:
                y = bb.emit(relax.op.nn.relu(bb.emit(relax.op.add(y, relax.const(bias)))))
            out = bb.emit_output(y)
        bb.emit_func_output(out)

    def expected(array):
        made = OPS["R.nn.conv2d"].ref(array, weight, **attrs)
        return np.maximum(made + bias, 0) if epilogue else made

    return bb.get(), (weight, bias) if epilogue else (weight,), expected


CASES = [
    ((1, 16, 5, 5), 8, (3, 3), True, {"padding": 1}), ((2, 36, 6, 4), 12, (2, 2), False, {"strides": 2}),
    ((1, 130, 7, 9), 4, (1, 1), True, {"strides": (2, 3)}), ((1, 15, 3, 3), 16, (3, 3), True, {"padding": 2, "dilation": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "features", "kernel", "epilogue", "attrs"), CASES)
def test_channels_first(shape, features, kernel, epilogue, attrs):
    mod, operands, expected = convolution(shape, features, kernel, epilogue, **attrs)
    (fn,) = [f for f in BEFORE(mod).functions.values() if type(f) is PrimFunc]
    found = schedule_function("main", fn, {1}, SMALL, CPU.rules)
    assert found is not None and list(found.packed) == [1] and "packed at build" in found.reason
    after = unity.IRModule({"main": found.func}, {}, {})
    verify(after)
    array = RNG.standard_normal(shape).astype("float32")
    want = expected(array)
    out = np.zeros(want.shape, "float32")
    run(after, "main", array, found.packed[1].pack(operands[0]), *operands[1:], out)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    got = unity.VirtualMachine(unity.compile(mod, pipeline=PIPELINE))["main"](array).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "features", "constants", "reason"),
    [
        ((1, 16, 5, 64), 8, {1}, "contiguous"), ((1, 4, 5, 5), 8, {1}, "contiguous"), ((1, 16, 5, 5), 8, set(), "contiguous"),
        ((1, 16, 5, 5), 9, {1}, "whole"),
    ],
)  # fmt: skip
def test_reasons(shape, features, constants, reason, monkeypatch, capsys):
    mod, *_ = convolution(shape, features, (3, 3), True)
    (fn,) = [f for f in BEFORE(mod).functions.values() if type(f) is PrimFunc]
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    assert schedule_function("main", fn, constants, SMALL, CPU.rules) is None
    assert reason in capsys.readouterr().err
