"""Compiled tensor programs found again: same results, nothing lowered twice, no wrong hits."""

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.transform.infra.passes import PassContext, Pipeline, TimeInstrument, prim_func_pass
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
    result(target="llvm -mcpu=penryn")
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


@pytest.mark.parametrize("check, pipeline", [
    ('assert A[0] > T.int32(0), "no size"', CPU_PIPELINE), ("B[A[0]] = 0", CHECKED_CPU_PIPELINE),
])  # fmt: skip
def test_an_error_names_the_line_of_this_build(lowered, check, pipeline):
    """That of an equal program of another build would be a wrong one; programs without checks have no lines."""
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
{lines}    {check}
    B[1] = A[1]
"""
    for lines in (0, 3, 0):
        made = unity.VirtualMachine(
            unity.compile(parse(text.format(lines="\n" * lines, check=check)), tir_pipeline=pipeline)
        )
        with pytest.raises(unity.UnityError) as failed:
            made["main"](np.full(4, -1, "int32"), np.zeros(4, "int32"))
        assert [note.message for note in failed.value.notes] == [f"checked at <script>:{4 + lines}"]
    assert len(lowered) == 2
    for lines in ("", "\n"):
        unity.compile(parse(text.format(lines=lines, check="B[0] = A[0]")))
    assert len(lowered) == 3


PROGRAMS = """
@I.ir_module
class M:
    @T.prim_func
    def {one}(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] * T.float32(3)

    @T.prim_func
    def {two}(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] + T.float32({number})
"""


def run(text, name):
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    unity.VirtualMachine(unity.compile(parse(text)))[name](a, b)
    return b


def test_only_programs_that_are_new_are_lowered(lowered):
    run(PROGRAMS.format(one="f", two="g", number=1), "g")
    assert lowered == ["f", "g"]
    np.testing.assert_array_equal(run(PROGRAMS.format(one="f", two="g", number=2), "g"), np.arange(8) + 2)
    assert lowered == ["f", "g", "g"]


def test_names_do_not_matter(lowered):
    run(PROGRAMS.format(one="f", two="g", number=1), "g")
    text = PROGRAMS.format(one="g", two="h", number=1)  # g is now what f was
    np.testing.assert_array_equal(run(text, "g"), np.arange(8) * 3)
    np.testing.assert_array_equal(run(text, "h"), np.arange(8) + 1)
    assert lowered == ["f", "g"]


def test_equal_programs_of_one_module_are_compiled_once(lowered):
    text = PROGRAMS.replace("A[i] * T.float32(3)", "A[i] + T.float32({number})").format(one="f", two="g", number=5)
    made = unity.compile(parse(text))
    assert lowered == ["f"] and len(set(made.program.symbols.values())) == 1
    machine = unity.VirtualMachine(made)
    for name in ("f", "g"):
        b = np.zeros(8, "float32")
        machine[name](np.ones(8, "float32"), b)
        np.testing.assert_array_equal(b, np.full(8, 6))


def test_equal_programs_called_from_one_graph_function(lowered):
    text = """
@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.is_scheduled": True})
        for i in range(8):
            B[i] = A[i] * A[i]

    @T.prim_func
    def g(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.is_scheduled": True})
        for i in range(8):
            B[i] = A[i] * A[i]

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        y = R.call_dps(f, (x,), R.Tensor((8,), "float32"))
        z = R.call_dps(g, (y,), R.Tensor((8,), "float32"))
        return z
"""
    x = np.arange(8, dtype="float32")
    for _ in range(2):
        np.testing.assert_array_equal(unity.VirtualMachine(unity.compile(parse(text)))["main"](x).numpy(), x**4)


def test_programs_that_call_each_other_stay_together(lowered):
    text = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def inner(A: T.handle("float32"), i: T.int64):
        a = T.Buffer((8,), "float32", data=A)
        a[i] = a[i] + T.float32({number})

    @T.prim_func
    def outer(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            inner(B.data, i)
"""
    for number in (1, 2):  # the text of ``outer`` stays the same
        np.testing.assert_array_equal(run(text.format(number=number), "outer"), np.arange(8) + number)
    assert sorted(lowered) == ["inner", "inner", "outer", "outer"]


def test_an_entry_whose_object_is_gone_is_built_again(lowered, tmp_path):
    first = result()
    for path in tmp_path.rglob("*.bin"):
        if b"\x7fELF" in path.read_bytes():
            path.unlink()
    np.testing.assert_array_equal(result(), first)
    assert len(lowered) == 2


def test_an_error_in_a_program_ends_the_build(lowered):
    text = PROGRAMS.replace("A[i] * T.float32(3)", 'T.call_extern("float32", "no_such_function_anywhere", A[i])')
    with pytest.raises(unity.support.errors.UnityError):
        run(text.format(one="f", two="g", number=1), "f")
    np.testing.assert_array_equal(run(PROGRAMS.format(one="f", two="g", number=1), "f"), np.arange(8) * 3)


def test_one_processor_gives_the_same(lowered, monkeypatch, tmp_path):
    text = PROGRAMS.format(one="f", two="g", number=7)
    objects = [unity.compile(parse(text)).objects["kernels"]]
    monkeypatch.setenv("UNITY_CACHE", "off")
    monkeypatch.setattr(kernel_cache, "processors", lambda: 1)
    objects.append(unity.compile(parse(text)).objects["kernels"])
    assert objects[0] == objects[1] and len(lowered) == 4
