"""Fusion of graphs: what joins, that nothing changes by a bit, and that recomputed values equal themselves."""

import random

import numpy as np
import pytest
from fuzz import TIMES

import unity
from unity.ir import Call, IRModule, collect
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import PassError
from unity.transform.infra.passes import Pipeline
from unity.transform.relax.fusion.fuse_tir import fuse_function
from unity.transform.relax.fusion.op_pattern import OpPatternKind, analyze_pattern
from unity.transform.relax.pipeline import DEFAULT_PIPELINE
from unity.transform.schedule.rewrites.inline_blocks import compute_inline, realizes
from unity.transform.schedule.rewrites.reverse_inline import reverse_compute_inline

FUSION = ("annotate_tir_op_pattern", "fuse_ops", "fuse_tir")
UNFUSED = DEFAULT_PIPELINE.without(*FUSION)
TWICE = DEFAULT_PIPELINE.without("eliminate_common_subexpr")
"""The default pipeline with equal expressions computed each for itself."""


def graph(lines, params='x: R.Tensor(("n", "m"), "float32")', result="gv"):
    body = "\n".join(f"            {line}" for line in lines)
    return parse(
        f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n        n, m = T.int64(), T.int64()\n"
        f"        with R.dataflow():\n{body}\n            R.output({result})\n        return {result}\n"
    )


def fused(mod):
    """The module after fusion, verified."""
    for step in DEFAULT_PIPELINE:
        mod = step(mod)
        if step.name == "fuse_tir":
            verify(mod)
            return mod
    raise AssertionError("no fusion in the default pipeline")


def kernels(mod):
    """Names of the tensor programs called, in order."""
    calls = collect(fused(mod)["main"], Call)
    return [c.args[0].name for c in calls if getattr(c.op, "name", "") == "R.call_dps"]


def flat(value):
    return [np.asarray(v) for v in value] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def native(mod, args, pipeline):
    made = unity.VirtualMachine(unity.compile(mod, pipeline=pipeline))["main"](*args)
    return [v.numpy() for v in (made if isinstance(made, (tuple, list)) else [made])]


@pytest.mark.parametrize(("lines", "expected"), [
    (["a = R.exp(x)", "b = R.add(a, x)", "gv = R.nn.relu(b)"], ["fused_exp_add_relu"]),
    (["a = R.matmul(x, x)", "gv = R.nn.relu(a)"], ["fused_matmul_relu"]),
    (["a = R.exp(x)", "gv = R.sum(a, axis=[1])"], ["fused_exp_sum"]),
    (["a = R.exp(x)", "gv = R.matmul(a, a)"], ["exp", "matmul"]),
    (["a = R.nn.softmax(x)", "gv = R.negative(a)"], ["fused_softmax_negative"]),
    (["a = R.negative(x)", "gv = R.nn.softmax(a)"], ["fused_negative_softmax"]),
    (["a = R.exp(x)", "gv = R.nn.softmax(a)"], ["exp", "softmax"]),
    (["a = R.multiply(x, x)", "b = R.add(a, x)", "gv = R.nn.softmax(b)"], ["fused_multiply_add_softmax"]),
    ([f"a{k} = R.negative({chr(120) if k == 0 else chr(97) + str(k - 1)})" for k in range(9)] + ["gv = R.nn.softmax(a8)"],
     ["fused_" + "_".join(["negative"] * 9)[:54].rstrip("_"), "softmax"]),
    (["a = R.permute_dims(x)", "gv = R.negative(a)"], ["fused_permute_dims_negative"]),
    (["a = R.negative(x)", "b = R.concat((a, x), axis=1)", "gv = R.exp(b)"], ["fused_negative_concat_exp"]),
    (["a = R.split(x, 2, axis=1)", "b = R.sigmoid(a[1])", "gv = R.multiply(a[0], b)"], ["fused_split_sigmoid_multiply"]),
    (["a = R.negative(x)", "b = R.sort(a, axis=1)", "gv = R.negative(b)"], ["negative", "sort", "negative"]),
])  # fmt: skip
def test_what_joins(lines, expected):
    mod = graph(lines, 'x: R.Tensor((4, 4), "float32")')
    assert kernels(mod) == expected
    x = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    for found, wanted in zip(flat(run(fused(mod), "main", x)), flat(run(mod, "main", x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_kinds_come_from_programs_not_names():
    mod = graph(["a = R.exp(x)", "gv = R.permute_dims(a)"])
    found = {n: analyze_pattern(f).kind for n, f in Pipeline.parse("legalize_ops")(mod).prim_funcs().items()}
    assert found == {"exp": OpPatternKind.ELEMENTWISE, "permute_dims": OpPatternKind.INJECTIVE}


def test_a_kind_written_in_the_program_decides():
    mod = graph(["a = R.exp(x)", "gv = R.negative(a)"])
    mod = Pipeline.parse("legalize_ops")(mod)
    func = mod["exp"]
    opaque = type(func)(func.params, func.buffer_map, func.body, func.ret_ty, {**func.attrs, "op_pattern": 8})
    mod = mod.with_functions({"exp": opaque})
    assert Pipeline.parse("fuse_ops")(mod) is mod


def test_a_value_doubled_many_times_stays_linear():
    lines = (
        ["v0 = R.add(x, x)"]
        + [f"v{k} = R.multiply(v{k - 1}, v{k - 1})" for k in range(1, 40)]
        + ["gv = R.negative(v39)"]
    )
    mod = graph(lines)
    assert len(kernels(mod)) == 1
    x = np.array([[0.5, -0.5, 0.4]], "float32")
    np.testing.assert_array_equal(native(mod, [x], None)[0], run(mod, "main", x))


def test_long_chains_are_cut_at_the_limit():
    lines = ["v0 = R.add(x, x)"] + [f"v{k} = R.negative(v{k - 1})" for k in range(1, 150)] + ["gv = R.negative(v149)"]
    assert 2 < len(kernels(graph(lines))) < 5


LAWS = [
    ["a = R.add(R.multiply(x, x), y)", "b = R.add(R.multiply(x, x), y)", "s = R.max(a, axis=[1], keepdims=True)",
     "gv = R.subtract(b, s)"],
    ["a = R.exp(R.multiply(x, y))", "s = R.max(a, axis=[1], keepdims=True)", "b = R.exp(R.multiply(x, y))",
     "gv = R.subtract(b, s)"],
    ["a = R.tanh(R.add(R.multiply(x, y), x))", "p = R.permute_dims(a)", "q = R.permute_dims(p)",
     "b = R.tanh(R.add(R.multiply(x, y), x))", "gv = R.abs(R.subtract(q, b))"],
]  # fmt: skip


@pytest.mark.parametrize("lines", LAWS)
@pytest.mark.parametrize("shape", [(3, 37), (5, 16), (1, 1)])
def test_a_value_computed_twice_has_the_same_bits(lines, shape):
    """Differences and maxima of equal values are exactly zero, whichever kernel computed them."""
    mod = graph(lines, 'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")')
    rng = np.random.default_rng(1)
    x, y = [rng.standard_normal(shape).astype("float32") for _ in range(2)]
    for pipeline in (None, TWICE):
        assert native(mod, [x, y], pipeline)[0].max() == 0


UNARY = ["exp", "tanh", "sigmoid", "negative", "abs", "nn.relu", "nn.gelu", "square", "sin", "floor"]
BINARY = ["add", "multiply", "subtract", "maximum", "minimum"]


def random_lines(rng, count):
    """A random graph of pointwise operators, transposes, slices and reductions over (n, n) tensors."""
    values, lines, escaping = ["x", "y"], [], []
    for number in range(count):
        name = f"v{number}"
        a, b = rng.choice(values), rng.choice(values)
        kind = rng.random()
        if kind < 0.4:
            text = f"R.{rng.choice(UNARY)}({a})"
        elif kind < 0.75:
            text = f"R.{rng.choice(BINARY)}({a}, {b})"
        elif kind < 0.82:
            text = f"R.permute_dims({a})"
        elif kind < 0.88:
            text = f"R.flip({a}, axis=1)"
        elif kind < 0.91:
            text = f"R.{rng.choice(['nn.softmax', 'nn.log_softmax', 'cumsum'])}({a}, axis=1)"
        elif kind < 0.95:
            text = f"R.subtract({a}, R.{rng.choice(['max', 'sum', 'mean'])}({b}, axis=[{rng.randrange(2)}], keepdims=True))"
        else:
            text = f"R.multiply({a}, R.expand_dims(R.min({b}, axis=[0]), axis=1))"
        lines.append(f"{name} = {text}")
        values.append(name)
        if rng.random() < 0.1:
            escaping.append(name)
    escaping = list(dict.fromkeys([*escaping, values[-1]]))
    lines += [f"out{k} = {name}" for k, name in enumerate(escaping)]
    return lines, ", ".join(f"out{k}" for k in range(len(escaping)))


@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_random_graphs_agree(seed):
    rng = random.Random(seed)
    lines, result = random_lines(rng, rng.randrange(3, 14))
    mod = graph(lines, 'x: R.Tensor(("n", "n"), "float32"), y: R.Tensor(("n", "n"), "float32")', result)
    size = rng.choice([1, 2, 5, 17])
    data = np.random.default_rng(seed)
    x, y = [(data.standard_normal((size, size)) * 2).astype("float32") for _ in range(2)]
    plain, together = native(mod, [x, y], UNFUSED), native(mod, [x, y], None)
    for found, wanted in zip(flat(run(fused(mod), "main", x, y)), flat(run(mod, "main", x, y)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)
    exact = not any(
        "sum" in line or "mean" in line or "softmax" in line for line in lines
    )  # additions may be regrouped
    for found, wanted in zip(together, plain, strict=True):
        if exact:
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


TWO = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("first"):
            v = T.axis.spatial(8, i)
            B[v] = {first}
    for i in range(8):
        with T.block("second"):
            v = T.axis.spatial(8, i)
            {second}
"""


def body_and(name, first="A[v] + T.float32(1)", second="C[v] = B[v] * B[v]"):
    func = parse(TWO.format(first=first, second=second))
    return func, next(r.block for r in realizes(func.body) if r.block.name == name)


@pytest.mark.parametrize("inline", [(compute_inline, "first"), (reverse_compute_inline, "second")])
def test_both_ways_of_inlining(inline):
    func, block = body_and(inline[1])
    made = type(func)(func.params, func.buffer_map, inline[0](func.body, block), func.ret_ty, func.attrs)
    assert len(realizes(made.body)) == 1
    first, second = [np.zeros(8, "float32") for _ in range(2)]
    a = np.arange(8, dtype="float32")
    for program, out in ((func, first), (made, second)):
        run(IRModule({"main": program}, {}, {}), "main", a, out)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("name", "inline", "first", "second", "message"), [
    ("second", compute_inline, "A[v]", "C[v] = B[v]", "not a buffer of the program's own"),
    ("first", compute_inline, "A[v] + B[v]", "C[v] = B[v]", "reads what it writes"),
    ("first", compute_inline, "A[v]", "A[v] = B[v]", "written again afterwards"),
    ("second", reverse_compute_inline, "A[v]", "C[v] = B[v // 2]", "does not read each element"),
    ("second", reverse_compute_inline, "A[v]", "C[v] = A[v]", "exactly one buffer"),
])  # fmt: skip
def test_refusals(name, inline, first, second, message):
    func, block = body_and(name, first, second)
    with pytest.raises(PassError, match=message) as caught:
        inline(func.body, block)
    assert caught.value.code == "E552"


def test_a_function_of_more_than_kernels_is_refused():
    mod = graph(["gv = R.exp(x)"])
    with pytest.raises(PassError) as caught:
        fuse_function(mod, mod["main"])
    assert caught.value.code == "E550"


@pytest.mark.parametrize("index", [0, 1])
def test_a_field_of_a_tuple_is_the_result_of_a_kernel(index):
    mod = parse(
        f"""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            a = R.permute_dims(x, axes=(1, 0))
            t = R.split(a, 2, axis=0)
            b = t[{index}]
            c = R.flatten(b)
            d = R.add(c, R.const(0.5, "float32"))
            R.output(d)
        return d
"""
    )
    x = np.arange(24, dtype="float32").reshape(4, 6)
    got = unity.VirtualMachine(unity.compile(mod))["main"](x).numpy()
    np.testing.assert_array_equal(got, x.T[3 * index : 3 * index + 3].reshape(-1) + np.float32(0.5))
