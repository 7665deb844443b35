"""Weights transformed one at a time: what is loaded, stored and dropped, and when."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.relax import transform
from unity.script import parse
from unity.support.errors import PassError
from unity.transform import lazy_transform_params, lift_transform_params

MODEL = parse("""
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            s = R.add(v, v)
            y = R.matmul(R.matmul(x, wt), s)
            R.output(y)
        return y
""")
WEIGHTS = [np.arange(16, dtype="float32").reshape(4, 4), np.eye(4, dtype="float32")]


class Store:
    """What the registered functions saw."""

    def __init__(self) -> None:
        self.given: list[weakref.ref[Any]] = []
        self.alive: list[int] = []
        self.events: list[tuple[Any, ...]] = []
        self.results: dict[int, np.ndarray] = {}

    def get(self, *args: Any) -> Any:
        value = unity.tensor(WEIGHTS[args[-1]].copy())
        self.given.append(weakref.ref(value))
        gc.collect()
        self.alive.append(sum([ref() is not None for ref in self.given]))
        self.events.append(("get", *args))
        return value

    def set(self, *args: Any) -> None:
        self.results[args[-2]] = np.array(args[-1])
        self.events.append(("set", *args[:-1]))


@pytest.fixture
def store() -> Store:
    made = Store()
    unity.register_func("lazy_test.get", made.get, override=True)
    unity.register_func("lazy_test.set", made.set, override=True)
    return made


def lazy(**options: Any) -> unity.IRModule:
    step = lazy_transform_params.with_options(get_item="lazy_test.get", set_item="lazy_test.set", **options)
    made = step(lift_transform_params(MODEL))
    verify(made)
    assert unity.ir.structural_equal(parse(made.script()), made) and step(made) is made
    return made


@pytest.mark.parametrize("mode", ["interpreter", "native", "bytecode"])
def test_one_weight_at_a_time(mode: str, store: Store) -> None:
    made = lazy()
    assert made["main_transform_params"].params == () and made["main"].params[0].name == "x"
    if mode == "interpreter":
        run(made, "main_transform_params")
    else:
        machine = unity.VirtualMachine(unity.compile(made, exec_mode=mode), exec_mode=mode)
        assert tuple(machine["main_transform_params"]()) == ()
        assert store.alive == [1, 1]  # the first weight was dropped before the second came
    assert store.events == [("get", 0), ("set", 0), ("get", 1), ("set", 1)]
    np.testing.assert_array_equal(store.results[0], WEIGHTS[0].T)
    np.testing.assert_array_equal(store.results[1], WEIGHTS[1] * 2)


def test_extra_arguments_and_results_that_are_returned(store: Store) -> None:
    made = lazy(extra_get_item_params=("file", 7), extra_set_item_params=(2.5,))
    unity.VirtualMachine(unity.compile(made))["main_transform_params"]()
    assert store.events == [("get", "file", 7, 0), ("set", 2.5, 0), ("get", "file", 7, 1), ("set", 2.5, 1)]
    lifted = lift_transform_params(MODEL)
    kept = transform.LazyTransformParams("lazy_test.get", None)(lifted)
    found = unity.VirtualMachine(unity.compile(kept))["main_transform_params"]()
    np.testing.assert_array_equal(np.asarray(found[1]), WEIGHTS[1] * 2)
    with pytest.raises(PassError, match="cannot be an extra argument") as wrong:
        lazy(extra_get_item_params=([1],))
    assert wrong.value.code == "E750"


def test_other_functions_stay() -> None:
    assert lazy_transform_params(MODEL) is MODEL


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_lazy_get_input_lets_weights_go(mode: str, store: Store) -> None:
    made = transform.LazyGetInput()(MODEL)
    machine = unity.VirtualMachine(unity.compile(made, exec_mode=mode), exec_mode=mode)
    machine["main"](np.ones((2, 4), "float32"), lambda index, name: store.get(index))
    assert store.alive == [1, 1]
