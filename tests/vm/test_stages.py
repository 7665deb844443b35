"""The stages of a build one by one give what the build gives; each can be replaced; what they ask for by name is there."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import unity
from unity import stages
from unity.support.context_stack import ContextStack
from unity.support.errors import UnityError
from unity.support.lazy import LOADED
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

TEXT = """
@R.function
def main(x: R.Tensor(("n", 24), "float32")):
    y = R.nn.relu(R.matmul(x, w))
    return R.nn.softmax(y)
"""
W = np.random.default_rng(0).standard_normal((24, 40)).astype("float32")
X = np.random.default_rng(1).standard_normal((5, 24)).astype("float32")


@pytest.mark.parametrize(
    "options", [{}, {"exec_mode": "bytecode"}, {"target": "llvm -mcpu=x86-64-v2"}, {"pipeline": str(DEFAULT_PIPELINE)}]
)
@pytest.mark.parametrize("apart", [True, False])
def test_stages_one_by_one_give_what_a_build_gives(options, apart, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", "off")
    mod = stages.parse(TEXT, scope={"w": unity.tensor(W)})
    config = stages.configure(**options)
    planned = stages.plan(stages.schedule(stages.graph(stages.check(mod, config), config), config), config)
    code = stages.generate(stages.lower(planned, config), config) if apart else stages.kernels(planned, config)
    made, built = stages.link(planned, code, config), unity.build(mod, **options)
    assert made.as_text() == built.as_text() and made.options == built.options and made.features == built.features
    assert made.driver_words == built.driver_words and list(made.objects) == list(built.objects)
    mode = options.get("exec_mode", "native")
    results = [np.asarray(stages.run(program, mode)["main"](X)) for program in (made, built)]
    assert results[0].tobytes() == results[1].tobytes()


def test_a_stage_enters_the_target_and_leaves_it():
    config = stages.configure("llvm -mcpu=x86-64-v2")
    stages.graph(stages.check(stages.parse(TEXT, scope={"w": unity.tensor(W)}), config), config)
    assert unity.Target.current() is None
    with pytest.raises(UnityError) as caught:
        stages.check(3, config)
    assert caught.value.code == "E625" and unity.Target.current() is None
    for wrong, code in (
        ({"exec_mode": "fast"}, "E631"),
        ({"target": "hexagon"}, "E531"),
        ({"pipeline": "nothing"}, "E502"),
    ):
        with pytest.raises(UnityError) as caught:
            stages.configure(**wrong)
        assert caught.value.code == code


@pytest.mark.parametrize("word", sorted(LOADED))
def test_names_in_texts_are_those_of_modules(word):
    """In a process of its own: here others have imported them already."""
    if word == "torch":
        pytest.importorskip("torch")
    program = f"from unity.support.lazy import load\nassert load({word!r}).__name__ == {LOADED[word]!r}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_process_that_only_loads_can_compile_again(tmp_path):
    unity.compile(stages.parse(TEXT, scope={"w": unity.tensor(W)})).save(tmp_path / "m.unity")
    program = "\n".join([
        "import sys, unity",
        f"plain = unity.load({str(tmp_path / 'm.unity')!r})",
        "assert 'unity.vm.build' not in sys.modules",
        f"made = unity.load({str(tmp_path / 'm.unity')!r}, trust=False)",
        "assert made.functions == plain.functions == ('main',) and 'unity.vm.build' in sys.modules",
        "x = unity.tensor([[float(n) for n in range(24)]], 'float32')",
        "assert made['main'](x).numpy().tobytes() == plain['main'](x).numpy().tobytes()",
    ])  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_contexts_are_of_one_thread_and_leave_after_errors():
    stack: ContextStack[int] = ContextStack("numbers")
    with stack.inside(1), pytest.raises(ZeroDivisionError), stack.inside(2):
        assert stack.values == (1, 2) and stack.top == 2
        with ThreadPoolExecutor(1) as worker:
            assert worker.submit(lambda: stack.top).result() is None
        raise ZeroDivisionError
    assert stack.values == () and stack.top is None
