import numpy as np
import pytest
from test_simple_passes import module

from unity.ir import Call, collect
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.support.errors import PassError, TypeRuleError
from unity.transform.relax.interprocedural.normalize_global_var import attach_global_symbol
from unity.transform.relax.lowering.legalize_ops import legalize_ops
from unity.transform.relax.memory.kill_after_last_use import kill_after_last_use
from unity.transform.relax.memory.lower_call_dps import lower_call_dps
from unity.transform.relax.memory.plan_memory import plan_memory
from unity.transform.relax.memory.rewrite_reshape import rewrite_reshape
from unity.transform.relax.normalize.convert_to_dataflow import to_non_dataflow
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

X = np.arange(8, dtype="float32").reshape(2, 4)
NK = 'x: R.Tensor(("n", 4), "float32")'
COPY = """
    @T.prim_func(private=True)
    def f(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def ops(mod, name="main"):
    return [
        getattr(b.value.op, "name", "?")
        for block in mod[name].body.blocks
        for b in block.bindings
        if isinstance(b.value, Call)
    ]


def test_legalize_shares_equal_kernels():
    mod = parse(module("a = R.exp(x)\nb = R.exp(a)\nc = R.exp(R.flatten(b))\nreturn c", NK))
    made = legalize_ops(mod)
    assert sorted(made.functions) == ["exp", "exp1", "flatten", "main"]
    assert ops(made) == ["R.call_dps"] * 4
    np.testing.assert_allclose(np.asarray(run(made, "main", X * 0.1)), np.asarray(run(mod, "main", X * 0.1)), rtol=1e-6)
    assert legalize_ops(made) is made


def test_legalize_says_what_is_unknown():
    mod = parse(
        module("a = R.add(x, y)\nreturn a", 'x: R.Tensor(("n",), "float32"), y: R.Tensor(dtype="float32", ndim=1)')
    )
    with pytest.raises(TypeRuleError, match="E218"):
        legalize_ops(mod)


def test_legalize_passes_symbols_and_scalars():
    mod = parse(
        module("n = T.int64()\na = R.full((n, 2), n)\nb = R.flatten(a)\nreturn b", 'x: R.Tensor(("n",), "float32")')
    )
    made = legalize_ops(mod)
    got = np.asarray(run(made, "main", np.zeros(3, "float32")))
    assert got.tolist() == [3] * 6


def test_lower_call_dps(check_pass):
    before = module('n = T.int64()\ny = R.call_dps(M.f, (x,), R.Tensor((n, 4), "float32"))\nreturn y', NK, COPY)
    after = module('n = T.int64()\nR.func_attr({"force_pure": True})\n'
                   'y = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), R.prim_value(0), R.str("global"))\n'
                   '_ = M.f(x, y)\nreturn y', NK, COPY)  # fmt: skip
    check_pass(lower_call_dps, before, after, X)


def test_lower_call_dps_refuses_dataflow():
    text = module(
        'n = T.int64()\nwith R.dataflow():\n    y = R.call_dps(M.f, (x,), R.Tensor((n, 4), "float32"))\n    R.output(y)\nreturn y',
        NK,
        COPY,
    )
    with pytest.raises(PassError, match="E541"):
        lower_call_dps(parse(text))


def test_lower_call_inplace_takes_the_arguments_memory():
    text = module('n = T.int64()\na = R.exp(x)\ny = R.call_inplace(M.f, (a,), R.Tensor((n, 4), "float32"), inplace_indices=[0])\nreturn y', NK,
                  COPY.replace("def f(a: T.handle, b: T.handle)", "def f(a: T.handle)").replace('        B = T.match_buffer(b, (n, 4), "float32")\n', "")
                  .replace("B[vi, vj] = A", "A[vi, vj] = A"))  # fmt: skip
    made = lower_call_dps(legalize_ops(parse(text)))
    assert ops(made) == ["R.builtin.alloc_tensor", "exp", "f"]
    np.testing.assert_allclose(np.asarray(run(made, "main", X)), np.exp(X) + 1, rtol=1e-6)


def lowered(body, params=NK):
    return lower_call_dps(to_non_dataflow(legalize_ops(parse(module(body, params)))))


def test_plan_memory_reuses_and_keeps_results():
    chain = "\n".join([f"a{i + 1} = R.exp(a{i})" for i in range(6)]).replace("a0", "x")
    mod = lowered(chain + "\nreturn a6", 'x: R.Tensor((2, 4), "float32")')
    made = plan_memory(mod)
    names = ops(made)
    assert names.count("R.memory.alloc_storage") == 2
    assert names.count("R.builtin.alloc_tensor") == 1  # the result
    small = X * 0.01 - 3
    np.testing.assert_array_equal(np.asarray(run(made, "main", small)), np.asarray(run(mod, "main", small)))
    assert plan_memory(made) is made


def test_plan_memory_symbolic_sizes_share_only_when_equal():
    mod = plan_memory(
        lowered("a = R.exp(x)\nb = R.sum(a, axis=[1])\nc = R.exp(b)\nd = R.sin(c)\ne = R.cos(d)\nreturn e")
    )
    sizes = [str(c.args[0]) for c in collect(mod["main"], Call) if c.op.name == "R.memory.alloc_storage"]
    assert len(sizes) == 3
    np.testing.assert_allclose(
        np.asarray(run(mod, "main", X * 0.01)), np.cos(np.sin(np.exp(np.exp(X * 0.01).sum(1)))), rtol=1e-3
    )


def test_plan_memory_keeps_what_a_packed_function_saw():
    mod = plan_memory(
        lowered('a = R.exp(x)\n_ = R.call_packed("keep", a)\nb = R.exp(a)\nc = R.exp(b)\nd = R.exp(c)\nreturn d')
    )
    first = next(b for block in mod["main"].body.blocks for b in block.bindings if b.var.name == "a")
    assert first.value.op.name == "R.builtin.alloc_tensor"


def test_plan_memory_views_prolong_life():
    mod = parse(
        module(
            "n = T.int64()\na = R.exp(x)\nv = R.flatten(a)\nb = R.sin(x)\nc = R.sin(b)\nd = R.reshape(c, (n * 4,))\ne = R.add(v, d)\nreturn e",
            NK,
        )
    )
    made = plan_memory(lower_call_dps(legalize_ops(rewrite_reshape(mod))))
    assert ops(made).count("R.memory.view") == 2
    np.testing.assert_allclose(np.asarray(run(made, "main", X)), (np.exp(X) + np.sin(np.sin(X))).reshape(-1), rtol=1e-5)


def test_views_never_leave_with_the_callers_memory():
    mod = rewrite_reshape(parse(module("y = R.flatten(x)\nreturn y", NK)))
    assert ops(mod) == ["R.flatten"]
    mod = rewrite_reshape(parse(module("y = R.flatten(x)\nz = R.exp(y)\nw = R.expand_dims(z, axis=0)\nreturn w", NK)))
    assert ops(mod) == ["R.memory.view", "R.exp", "R.memory.view"]
    mod = rewrite_reshape(parse(module("y = R.flatten(x)\nz = R.expand_dims(y, axis=0)\nreturn z", NK)))
    assert ops(mod) == ["R.memory.view", "R.expand_dims"]


def test_kill_after_last_use():
    mod = kill_after_last_use(plan_memory(lowered("a = R.exp(x)\nb = R.sin(a)\nreturn b")))
    assert ops(mod) == ["R.memory.alloc_storage", "R.memory.alloc_tensor", "exp", "R.builtin.alloc_tensor", "sin", "R.memory.kill_tensor",
                        "R.memory.kill_storage"]  # fmt: skip
    assert kill_after_last_use(mod) is mod
    np.testing.assert_allclose(np.asarray(run(mod, "main", X)), np.sin(np.exp(X)), rtol=1e-5)


def test_attach_global_symbol():
    mod = attach_global_symbol(legalize_ops(parse(module("a = R.exp(x)\nreturn a", NK))))
    assert mod["exp"].attrs["global_symbol"] == "exp"
    assert attach_global_symbol(mod) is mod


PROGRAMS = {
    "branches": ("if c:\n    a = R.exp(x)\n    b = R.sin(a)\n    y = b\nelse:\n    d = R.flatten(x)\n    e = R.exp(d)\n    y = R.reshape(e, (2, 4))\nreturn y",
                 'x: R.Tensor((2, 4), "float32"), c: R.Tensor((), "bool")', (X, np.array(False))),
    "tuple": ("s = R.split(x, 2, axis=1)\na = s[0]\nb = R.add(a, s[1])\nt = (a, b)\nreturn t", NK, (X,)),
    "norm": ("m = R.mean(x, axis=[-1], keepdims=True)\nv = R.variance(x, axis=[-1], keepdims=True)\ny = R.divide(R.subtract(x, m), R.sqrt(v))\nreturn y", NK, (X,)),
    "dropout": ("d = R.nn.dropout(x)\ny = R.exp(d[0])\nreturn y", NK, (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_default_pipeline_step_by_step(name):
    body, params, inputs = PROGRAMS[name]
    mod = parse(module(body, params))
    expected = run(mod, "main", *inputs)
    for step in DEFAULT_PIPELINE:
        mod = step(mod)
        verify(mod)
        got = run(mod, "main", *inputs)
        for x, y in zip(*[v if isinstance(v, tuple) else (v,) for v in (expected, got)], strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6, err_msg=step.name)
    assert DEFAULT_PIPELINE(mod) is not None
