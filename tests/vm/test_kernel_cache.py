"""Compiled tensor programs found again: same results, nothing lowered twice, no wrong hits."""

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.transform.base import PassContext, Pipeline, TimeInstrument, prim_func_pass
from unity.transform.tir.pipeline import CHECKED_CPU_PIPELINE, CPU_PIPELINE
from unity.vm import kernel_cache

TEXT = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.multiply(R.exp(x), R.const({factor}, "float32"))
            gv = R.sum(y, axis=[1])
            R.output(gv)
        return gv
"""
X = np.arange(12, dtype="float32").reshape(3, 4) / 8


@pytest.fixture
def lowered(monkeypatch, tmp_path):
    """A cache of its own, and a list that counts the programs lowered."""
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    monkeypatch.delenv("UNITY_KEEP", raising=False)
    count = []
    original = kernel_cache.lower_prim_funcs

    def counted(functions, pipeline):
        count.extend(functions)
        return original(functions, pipeline)

    monkeypatch.setattr(kernel_cache, "lower_prim_funcs", counted)
    return count


def result(factor=2.0, **options):
    made = unity.compile(parse(TEXT.format(factor=factor)), **options)
    return unity.VirtualMachine(made)["main"](X).numpy()


def test_a_second_build_lowers_nothing(lowered):
    first = result()
    assert len(lowered) == 1
    np.testing.assert_array_equal(result(), first)
    assert len(lowered) == 1
    np.testing.assert_allclose(first, (np.exp(X) * 2).sum(1), rtol=1e-6)


def test_other_programs_and_pipelines_are_other_entries(lowered):
    first = result()
    np.testing.assert_allclose(result(factor=4.0), first * 2, rtol=1e-6)
    assert len(lowered) == 2
    result(tir_pipeline=CHECKED_CPU_PIPELINE)
    assert len(lowered) == 3
    result(target="llvm -mcpu=x86-64-v3")
    assert len(lowered) == 4


def test_a_pass_from_outside_is_never_looked_up(lowered):
    seen = []

    @prim_func_pass(name="from_outside")
    def from_outside(func):
        seen.append(func)
        return func

    pipeline = Pipeline((*CPU_PIPELINE, from_outside))
    for _ in range(2):
        result(tir_pipeline=pipeline)
    assert len(seen) == 2 and len(lowered) == 2


def test_watched_passes_run(lowered):
    result()
    timer = TimeInstrument()
    with PassContext(timer):
        result()
    assert "flatten_buffer" in timer.seconds and len(lowered) == 2


def test_a_damaged_entry_is_built_again(lowered, tmp_path):
    first = result()
    for path in tmp_path.rglob("*.bin"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(bytes(data))
    np.testing.assert_array_equal(result(), first)
    assert len(lowered) == 2


def test_errors_of_kernels_are_remembered(lowered):
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    assert A[0] > T.float32(0), "the first element must be positive"
    A[1] = A[0]
"""
    for _ in range(2):
        made = unity.VirtualMachine(unity.compile(parse(text)))
        with pytest.raises(unity.support.errors.UnityError, match="first element must be positive"):
            made["main"](np.zeros(4, "float32"))
    assert len(lowered) == 1
