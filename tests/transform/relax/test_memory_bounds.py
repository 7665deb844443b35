"""Memory planned for the most that symbols can be: attributes of functions, ranges of exported programs, calls beyond them."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.frontend.torch.exported_program import from_exported_program
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import InterpreterError, ScriptError, VMError
from unity.transform import DEFAULT_PIPELINE, Pipeline, plan_memory

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 4), "float32")):
        R.func_attr({attrs})
        a = R.nn.softmax(R.matmul(x, w))
        b = R.nn.softmax(R.matmul(a, v))
        c = R.nn.softmax(R.matmul(b, w))
        return R.nn.softmax(R.matmul(c, v))
"""
BOUND = '{"tir_var_upper_bound": {"n": 64}}'


def module(attrs: str = BOUND) -> unity.IRModule:
    return parse(TEXT.format(attrs=attrs))


def arguments(n: int) -> list[np.ndarray]:
    data = np.random.default_rng(n)
    return [data.standard_normal(shape, "float32") for shape in ((n, 4), (4, 8), (8, 4))]


def test_bounded_sizes_are_static_and_shared() -> None:
    bounded, free = unity.compile(module()).memory("main"), unity.compile(module("{}")).memory("main")
    assert bounded.temporaries() == 2 * 64 * 8 * 4  # two storages of the largest size hold all seven
    assert len(free.storages) == 4 and free.temporaries(n=64) == 2 * (64 * 8 * 4 + 64 * 4 * 4)


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_calls_of_all_sizes_agree(mode: str) -> None:
    mod = module()
    vm = unity.VirtualMachine(unity.compile(mod, exec_mode=mode), exec_mode=mode)
    for n in (3, 64, 0, 1, 17):
        np.testing.assert_allclose(vm["main"](*arguments(n)), run(mod, "main", *arguments(n)), rtol=1e-5, atol=1e-6)


def test_the_arena_is_allocated_once() -> None:
    """After the first call its place and size stay, whatever the sizes of later calls."""
    vm = unity.VirtualMachine(unity.compile(module()))
    vm["main"](*arguments(2))
    env = vm.native.env(0)
    place = env[0], env[1]
    assert place[1] == 2 * 64 * 8 * 4
    for n in (64, 1, 33, 64):
        vm["main"](*arguments(n))
        assert (env[0], env[1]) == place
    growing = unity.VirtualMachine(unity.compile(module("{}")))
    growing["main"](*arguments(2))
    small = growing.native.env(0)[1]
    growing["main"](*arguments(64))
    assert growing.native.env(0)[1] > small


@pytest.mark.parametrize(
    ("attrs", "n", "words"),
    [
        (BOUND, 65, "is 65, more than its upper bound 64"),
        ('{"tir_var_upper_bound": {"n": 64}, "tir_var_lower_bound": {"n": 2}}', 1, "is 1, less than its lower bound 2"),
    ],
)
def test_a_call_beyond_the_bound_is_an_error(attrs: str, n: int, words: str) -> None:
    mod = module(attrs)
    with pytest.raises(InterpreterError, match=words) as found:
        run(mod, "main", *arguments(n))
    assert found.value.code == "E749"
    for mode in ("native", "bytecode"):
        vm = unity.VirtualMachine(unity.compile(mod, exec_mode=mode), exec_mode=mode)
        with pytest.raises(VMError, match=words) as caught:
            vm["main"](*arguments(n))
        assert caught.value.code == "E749"
        vm["main"](*arguments(2))


def test_a_scalar_that_may_not_be_negative() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(k: R.Prim("int64")):
        R.func_attr({"tir_non_negative_var": ["k"]})
        return R.shape([k])
""")
    vm = unity.VirtualMachine(unity.compile(mod))
    assert tuple(vm["main"](3)) == (3,)
    with pytest.raises(VMError, match="less than its lower bound 0"):
        vm["main"](-1)


def test_a_scalar_with_an_upper_bound_may_be_negative() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), k: R.Prim("int64")):
        R.func_attr({"tir_var_upper_bound": {"n": 4, "k": 3}})
        n = T.int64()
        y = R.nn.softmax(R.nn.softmax(R.broadcast_to(R.sum(x), R.shape([n - k]))))
        return R.sum(y)
""")
    vm = unity.VirtualMachine(unity.compile(mod))
    for k in (-5, 0, 3):
        np.testing.assert_allclose(vm["main"](np.ones(4, "float32"), k), 1, rtol=1e-6)


def test_products_and_quotients_of_symbols() -> None:
    """What no bound is known of keeps its formula; names of no symbol say nothing."""
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("b", "n"), "float32")):
        R.func_attr({"tir_var_upper_bound": {"n": 6, "other": 1}})
        b, n = T.int64(), T.int64()
        y = R.nn.softmax(R.exp(R.reshape(R.concat((x, x)), R.shape([b, n * 2]))))
        z = R.nn.softmax(R.exp(R.sum(y, axis=[0])))
        return R.sum(z)
""")
    text = unity.compile(mod).memory("main")
    assert "b * 48" in str(text) and text.temporaries(b=0) < 512
    vm = unity.VirtualMachine(unity.compile(mod))
    x = np.random.default_rng(0).standard_normal((3, 5), "float32")
    np.testing.assert_allclose(vm["main"](x), run(mod, "main", x), rtol=1e-5)


@pytest.mark.parametrize(
    "attrs",
    [
        '{"tir_var_upper_bound": 3}', '{"tir_var_upper_bound": {"n": -1}}', '{"tir_var_upper_bound": {"n": 1.5}}',
        '{"tir_var_upper_bound": {"n": 1}, "tir_var_lower_bound": {"n": 2}}', '{"tir_non_negative_var": "n"}',
        '{"range_constraints": {"n": 3}}',
    ],
)  # fmt: skip
def test_attributes_that_are_no_bounds(attrs: str) -> None:
    with pytest.raises(ScriptError) as found:
        module(attrs)
    assert found.value.code == "E748"


def test_ranges_of_an_importer_hold_up_to_a_size() -> None:
    attrs = '{"range_constraints": {"n": (1, %d)}}'
    assert unity.compile(module(attrs % 64)).memory("main").temporaries() == 2 * 64 * 8 * 4
    huge = module(attrs % (1 << 40))
    assert len(unity.compile(huge).memory("main").storages) == 4
    steps = list(DEFAULT_PIPELINE)
    place = next(k for k, step in enumerate(steps) if step.name == "plan_memory")
    before = Pipeline(steps[:place])(module(attrs % 64))
    assert "R.shape([2048])" in plan_memory(before).script()
    assert "R.shape([2048])" not in plan_memory.with_options(max_noted=100)(before).script()


def test_torch_ranges() -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def forward(self, x: object) -> object:
            for _ in range(3):
                x = torch.softmax(torch.softmax(x, -1) @ torch.ones(6, 6), -1)
            return x

    n = torch.export.Dim("n", min=2, max=32)
    program = torch.export.export(Model(), (torch.randn(4, 6),), dynamic_shapes=({0: n},))
    built = unity.compile(from_exported_program(program))
    assert built.memory("main").temporaries() == 2 * 32 * 6 * 4 + 192  # two storages; the weights have one of 144 bytes
    x = torch.randn(32, 6)
    np.testing.assert_allclose(unity.VirtualMachine(built)["main"](x)[0], Model()(x), rtol=1e-4, atol=1e-5)
