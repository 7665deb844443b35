"""Schedules remembered between processes: the same programs, no rule asked twice, no wrong hits."""

from dataclasses import replace

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule import apply
from unity.transform.default_schedule.base import Rule
from unity.transform.infra.backend import BACKENDS
from unity.transform.infra.passes import PassContext, TimeInstrument

TEXT = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((32, 64), "float32")):
        with R.dataflow():
            y = R.matmul(x, W)
            gv = R.nn.relu(y)
            R.output(gv)
        return gv

    @R.function
    def free(x: R.Tensor((32, 64), "float32"), w: R.Tensor((64, 48), "float32")):
        return R.nn.relu(R.matmul(x, w))
"""
X = np.linspace(-1, 1, 32 * 64, dtype="float32").reshape(32, 64)
W = np.linspace(2, -3, 64 * 48, dtype="float32").reshape(64, 48)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A cache of its own, and a list that counts the programs that rules are asked about."""
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    monkeypatch.delenv("UNITY_EXPLAIN", raising=False)
    count = []
    original = apply.schedule_function

    def counted(name, *rest):
        count.append(name)
        return original(name, *rest)

    monkeypatch.setattr(apply, "schedule_function", counted)
    return count


def build(text=TEXT):
    return unity.compile(parse(text, scope={"W": unity.Tensor(W)}))


def check(made):
    machine = unity.VirtualMachine(made)
    expected = np.maximum(X @ W, 0)
    np.testing.assert_allclose(machine["main"](X).numpy(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(machine["free"](X, W).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_a_second_build_asks_no_rule_and_is_the_same(asked):
    first = build()
    assert asked
    before = list(asked)
    second = build()
    assert asked == before
    assert first.objects["kernels"] == second.objects["kernels"] and first.as_text() == second.as_text()
    for one, other in zip(first.program.constants, second.program.constants, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    check(first)
    check(second)


def test_constant_weights_are_another_entry(asked):
    body = TEXT[TEXT.index("    @R.function\n    def free") :]
    head = "@I.ir_module\nclass M:\n"
    build(head + body)
    count = len(asked)
    build(TEXT)  # the same product, with a constant: packed
    assert len(asked) > count
    check(build(TEXT))


def test_watched_passes_and_explanations_ask(asked, monkeypatch):
    build()
    count = len(asked)
    with PassContext(TimeInstrument()):
        build()
    assert len(asked) == 2 * count
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    build()
    assert len(asked) == 3 * count


def test_a_rule_from_outside_is_always_asked(asked, monkeypatch):
    seen = []

    def mine(fn, constants, machine):
        seen.append(fn)
        return "not this one"

    monkeypatch.setitem(BACKENDS, "llvm", replace(CPU, rules=(Rule("mine", mine), *CPU.rules)))
    check(build())
    count = len(seen)
    check(build())
    assert count and len(seen) == 2 * count


def test_damaged_entries_are_made_again(asked, tmp_path):
    build()
    count = len(asked)
    for path in tmp_path.rglob("*.bin"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(bytes(data))
    check(build())
    assert len(asked) == 2 * count
