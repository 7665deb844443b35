"""Translation validation: wrong passes of several kinds are caught, named, made small and saved; right ones pass."""

import numpy as np
import pytest
from programs import run_program

import unity
from unity import relax, te
from unity.ir import Call, For, IRModule, op, rewrite, substitute
from unity.ir.build import const, floordiv, mul
from unity.ir.expr import Constant
from unity.ir.node import replace
from unity.ir.scalar import Add, Max
from unity.ir.stmt import BlockRealize
from unity.op import constant
from unity.script import parse
from unity.support.errors import PassError
from unity.transform import (
    DEFAULT_PIPELINE,
    CheckInstrument,
    PassContext,
    fold_constant,
    function_pass,
    legalize_ops,
    prim_func_pass,
)
from unity.transform.infra.passes import Pipeline
from unity.transform.tir.pipeline import CPU_PIPELINE
from unity.transform.validation.dumps import main as run_dumps
from unity.transform.validation.outcomes import difference

MODEL = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32"), k: R.Tensor((8,), "int64")):
        n = T.int64()
        with R.dataflow():
            y = R.add(R.matmul(x, w), b)
            z = R.nn.relu(y)
            s = R.nn.softmax(z, axis=1)
            d = R.subtract(s, z)
            t = R.take(R.permute_dims(d), k, axis=0)
            u = R.multiply(R.permute_dims(t), R.const(0.5, "float32"))
            v = R.reshape(u, (n * 8,))
            R.output(v, d)
        return (v, d)
"""


def on_calls(change):
    """A function that rewrites the calls of a program."""
    return lambda fn: rewrite(fn, {Call: change})


@function_pass(name="wrong_dropped_operator")
def dropped(fn):
    """relu is forgotten."""

    def rule(binding):
        value = binding.value
        return replace(binding, value=value.args[0]) if getattr(value, "op", None) is op("R.nn.relu") else binding

    return rewrite(fn, {unity.ir.VarBinding: rule})


@function_pass(name="wrong_operands")
def swapped(fn):
    """The operands of subtract are swapped."""
    return on_calls(lambda c: replace(c, args=c.args[::-1]) if c.op is op("R.subtract") else c)(fn)


@function_pass(name="wrong_axis")
def axis(fn):
    """softmax runs along another axis."""
    return on_calls(lambda c: replace(c, attrs={"axis": 0}) if c.op is op("R.nn.softmax") else c)(fn)


@function_pass(name="wrong_constant")
def number(fn):
    """Constants lose their value."""
    return rewrite(fn, {Constant: lambda c: constant(c.data.numpy() * 1.25) if c.data.numpy().size else c})


@prim_func_pass(name="wrong_tail")
def tail(func):
    """Loops run over multiples of 4 only."""
    return rewrite(
        func, {For: lambda f: replace(f, extent=mul(floordiv(f.extent, const(4, "int64")), const(4, "int64")))}
    )


@prim_func_pass(name="wrong_nan")
def nan(func):
    """A maximum that drops NaN."""
    return rewrite(func, {Max: lambda m: unity.ir.build.select(unity.ir.build.gt(m.a, m.b), m.a, m.b)})


@prim_func_pass(name="wrong_first_step")
def peeled(func):
    """Assumes that a loop runs at least once."""
    one = const(1, "int64")
    return rewrite(
        func, {For: lambda f: replace(f, extent=Max(f.extent, one, one.ty)) if type(f.body) is BlockRealize else f}
    )


@prim_func_pass(name="wrong_sum")
def lost(func):
    """Sums forget what they had."""
    return rewrite(func, {Add: lambda a: a.b if a.ty.dtype.is_float else a})


@function_pass(name="wrong_memory_reuse")
def reused(fn):
    """All storages become the first one of their size."""
    first, mapping = {}, {}
    for block in fn.body.blocks:
        for binding in block.bindings:
            if getattr(binding.value, "op", None) is op("R.memory.alloc_storage"):
                size = str(binding.value.args[0])
                mapping[binding.var] = first.setdefault(size, binding.var)
    return replace(fn, body=substitute(fn.body, {k: v for k, v in mapping.items() if k is not v}))


def caught(step, mod, tmp_path, **options):
    """The error of a wrong pass, and the file it saved."""
    checker = CheckInstrument(folder=tmp_path, **options)
    with PassContext(checker), pytest.raises(PassError) as error:
        step(mod)
    assert error.value.code == "E555" and step.name in error.value.message and "main" in error.value.message
    assert checker.records[-1].verdict == "differs"
    (file,) = tmp_path.iterdir()
    assert str(file) in error.value.help
    return file


def saved(file):
    """The module before the pass of a saved failure."""
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)  # the file is our own
    return scope


def bindings_of(mod):
    return [b for block in mod["main"].body.blocks for b in block.bindings]


@pytest.mark.parametrize("step", [dropped, swapped, axis, number], ids=lambda s: s.name)
def test_wrong_graph_passes(step, tmp_path):
    mod = parse(MODEL)
    scope = saved(caught(step, mod, tmp_path))
    small = parse(scope["BEFORE"])
    assert len(bindings_of(mod)) == 10 and len(bindings_of(small)) <= 2, scope["BEFORE"]
    assert scope["replay"]("main", step.name, small, parse(scope["AFTER"]), scope["INPUTS"]) == 1
    assert all(a.size <= 24 for a in scope["INPUTS"])


@pytest.mark.parametrize("step", [tail, nan, peeled, lost], ids=lambda s: s.name)
def test_wrong_passes_of_tensor_programs(step, tmp_path):
    mod = legalize_ops(parse(MODEL))
    scope = saved(caught(step, mod, tmp_path))
    small = parse(scope["BEFORE"])
    assert len(small.functions) == 2 and len(bindings_of(small)) == 1, scope["BEFORE"]


def test_a_wrong_plan_of_memory(tmp_path):
    text = MODEL.replace('"n"', "3").replace("        n = T.int64()\n", "").replace("n * 8", "24")
    names = str(DEFAULT_PIPELINE.without("fuse_ops", "fuse_tir")).split(",")
    planned = Pipeline.parse(",".join(names[: names.index("plan_memory") + 1]))(parse(text))
    assert str(planned).count("alloc_storage") > 1
    caught(reused, planned, tmp_path, inputs=1)


def test_the_saved_file_runs_alone(tmp_path):
    file = caught(swapped, parse(MODEL), tmp_path)
    result = run_program(file, tmp_path)
    assert result.returncode == 1, result.stderr
    assert "before and after wrong_operands: " in result.stdout and "became" in result.stdout


def test_the_pass_in_a_pipeline_is_named(tmp_path):
    pipeline = DEFAULT_PIPELINE.insert_after("canonicalize", axis)
    with PassContext(CheckInstrument(folder=tmp_path)), pytest.raises(PassError, match="wrong_axis"):
        pipeline(parse(MODEL))


def test_default_pipelines_agree(tmp_path):
    checker = CheckInstrument(folder=tmp_path)
    with PassContext(checker):
        mod = DEFAULT_PIPELINE(parse(MODEL))
        CPU_PIPELINE(IRModule(mod.prim_funcs(), {}, {}))
    assert not list(tmp_path.iterdir())
    main = [r for r in checker.records if r.function == "main"]
    assert len(main) >= 6 and all(r.verdict == "agrees" and len(r.inputs) == 4 for r in main), "\n".join(map(str, main))
    assert any("n=0" in text or "n=1" in text for text in main[0].inputs)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_tensors_of_rank_0_are_given(dtype, tmp_path):
    text = f"""
@R.function
def main(x: R.Tensor((), "{dtype}"), y: R.Tensor((), "{dtype}")):
    return x
"""

    @function_pass()
    def turned(fn):
        return replace(fn, params=fn.params[::-1])

    with PassContext(CheckInstrument(folder=tmp_path)), pytest.raises(PassError):
        turned(IRModule({"main": parse(text)}, {}, {}))


def test_what_is_not_run_is_said(tmp_path):
    text = """
@I.ir_module
class Model:
    @R.function(pure=False)
    def main(x: R.Tensor((4, 4), "float32")):
        R.call_packed("test.effect", x)
        y = R.nn.relu(x)
        return y
"""
    checker = CheckInstrument(folder=tmp_path)
    with PassContext(checker):
        dropped(parse(text))
        swapped(parse(text))
    (record,) = checker.records
    assert record.verdict == "skipped" and "test.effect" in str(record)
    checker = CheckInstrument(folder=tmp_path, steps=10)
    with PassContext(checker):
        tail(legalize_ops(parse(MODEL)))
    assert any(["steps" in str(r) for r in checker.records])
    checker = CheckInstrument(folder=tmp_path, seconds=-1)
    with PassContext(checker):
        swapped(parse(MODEL))
    assert checker.records[0].verdict == "skipped" and "used up" in str(checker.records[0])


def test_pure_registered_functions_are_run():
    @unity.register_func("test.check_double", override=True)
    def double(x, out):
        np.multiply(np.asarray(x), 2, out=np.asarray(out))

    text = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        y = R.call_dps("test.check_double", (x,), R.Tensor((n, 4), "float32"))
        return R.nn.relu(y)
"""
    checker = CheckInstrument()
    with PassContext(checker):
        DEFAULT_PIPELINE(parse(text))
    assert all(r.verdict == "agrees" for r in checker.records), "\n".join(map(str, checker.records))
    unity.remove_global_func("test.check_double")


def test_the_option_checks_compilation(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        f"import unity\nfrom unity.script import parse\nmod = parse({MODEL!r})\nunity.compile(mod)\nprint('compiled')\n"
    )
    result = run_program(program, tmp_path, UNITY_CHECK="1", UNITY_CHECK_INPUTS="2")
    assert result.returncode == 0 and "compiled" in result.stdout, result.stderr[-2000:]
    assert "check legalize_ops: main agrees on 2 inputs" in result.stderr


def test_dumps_run_and_name_the_step(tmp_path, capsys):
    env_dump = unity.transform.infra.passes.DumpInstrument(tmp_path)
    with PassContext(env_dump):
        Pipeline((legalize_ops, tail))(parse(MODEL))
    names = sorted([p.name for p in tmp_path.iterdir()])
    assert names == ["000_input.py", "001_legalize_ops.py", "002_wrong_tail.py", "run.py"]
    assert run_dumps(tmp_path) == 1
    shown = capsys.readouterr().out.splitlines()
    assert "runs" in shown[0] and "agrees" in shown[1] and "differs from 000_input.py" in shown[2]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large_constants_are_dumped_once(tmp_path, dtype):
    weight = relax.const(np.random.default_rng(0).standard_normal((64, 32)), dtype)
    x = relax.Var("x", relax.TensorType((te.var("n"), 64), dtype))
    bb = unity.BlockBuilder()
    with bb.function("main", [x]), bb.dataflow():
        bb.emit_func_output(bb.emit_output(relax.op.add(relax.op.matmul(x, weight), relax.op.sum(weight))))
    with PassContext(unity.transform.infra.passes.DumpInstrument(tmp_path)):
        fold_constant(bb.get())
        legalize_ops(fold_constant(bb.get()))
    assert [p.name for p in (tmp_path / "constants").iterdir()] == [f"const_0.{dtype}.npy"]
    scripts = sorted(tmp_path.glob("0*.py"))
    assert len(scripts) == 5 and all([p.stat().st_size < 6000 for p in scripts]) and run_dumps(tmp_path) == 0
    result = run_program(scripts[-1], tmp_path)
    assert result.returncode == 0, result.stderr


def test_difference():
    x = np.arange(4, dtype="float32")
    assert difference(x, x + 1e-6) is None and difference((x, 3), (x, 3)) is None
    assert "1 of 4" in difference(x, np.array([0, 1, 2, 4], "float32"))
    assert "became" in difference(x, x.astype("float64")) and "results" in difference((x, x), x)
    assert difference(np.array([np.nan, np.inf]), np.array([np.nan, np.inf])) is None
    assert difference(np.array([np.nan]), np.array([1.0])) and difference(np.array([np.inf]), np.array([-np.inf]))


def test_a_large_constant_is_saved_with_the_failure(tmp_path):
    """Its text is cut where modules are shown, not where they are saved; strided data is what a kernel reads."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((te.var("n"), 64), "float32"))
    data = np.random.default_rng(0).standard_normal((40, 64)).astype("float32").T
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.matmul(x, relax.const(data)))
            out = bb.emit_output(relax.op.subtract(y, relax.const(data[:1] + 0)))
        bb.emit_func_output(out)
    mod = bb.get()
    assert "metadata" in str(mod) and not data.flags.c_contiguous
    checker = CheckInstrument()
    with PassContext(checker):
        legalize_ops(mod)
    assert [r.verdict for r in checker.records] == ["agrees"]

    @function_pass(name="wrong_matmul")
    def negated(fn):
        product = op("R.matmul")
        return rewrite(fn, {Call: lambda c: Call(c.op, (c.args[0], constant(-c.args[1].data.numpy())), {}, (), c.ty)
                            if c.op is product else c})  # fmt: skip

    scope = saved(caught(negated, mod, tmp_path))
    assert "metadata" not in scope["BEFORE"] and parse(scope["BEFORE"]) and parse(scope["AFTER"])
