"""Whole builds found again: the same program to the bit, other weights taken through the same steps, no wrong hits."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import unity
from unity.cli.main import main
from unity.ir.op import OPS
from unity.script import parse
from unity.target.cpu.backend import CPU
from unity.transform.default_schedule.base import Rule
from unity.transform.infra.backend import BACKENDS
from unity.transform.infra.passes import PassContext, Pipeline, TimeInstrument, module_pass
from unity.transform.relax.pipeline import DEFAULT_PIPELINE
from unity.transform.relax.precision.to_mixed_precision import to_mixed_precision
from unity.transform.tir.pipeline import CHECKED_CPU_PIPELINE
from unity.vm import build
from unity.vm.load import load

CONVOLUTION = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((1, 3, 12, 12), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=1)
            z = R.nn.batch_norm(y, gamma, beta, mean, var, axis=1)[0]
            a = R.matmul(R.reshape(R.mean(z, axis=[2, 3]), R.shape([1, 20])), R.permute_dims(d))
            gv = R.add(R.negative(a), R.const({factor}, "float32"))
            R.output(gv)
        return gv
"""
SHAPES = {"w": (20, 3, 3, 3), "gamma": (20,), "beta": (20,), "mean": (20,), "var": (20,), "d": (40, 20)}
X = np.random.default_rng(7).standard_normal((1, 3, 12, 12)).astype("float32")


def weights(seed=0):
    rng = np.random.default_rng(seed)
    return {k: unity.tensor(rng.uniform(0.5, 1.5, shape).astype("float32")) for k, shape in SHAPES.items()}


def module(seed=0, factor=2.0, text=CONVOLUTION, **given):
    return parse(text.replace("{factor}", str(factor)), scope=weights(seed) | given)


@pytest.fixture
def built(monkeypatch, tmp_path):
    """A cache of its own, and a list with the options of every build that ran its passes."""
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    monkeypatch.delenv("UNITY_KEEP", raising=False)
    runs, original = [], build.build_anew

    def counted(*args):
        runs.append(args[1].options)
        return original(*args)

    monkeypatch.setattr(build, "build_anew", counted)
    return runs


def alone(monkeypatch, mod, **options):
    """The executable of a build without any cache."""
    with monkeypatch.context() as patch:
        patch.setenv("UNITY_CACHE", "off")
        return unity.compile(mod, **options)


def assert_same(found, made):
    """Equal to the bit: code, constants, machine code, what is said of it, results."""
    assert found.as_text() == made.as_text()
    assert found.objects == made.objects and found.driver_words == made.driver_words
    assert found.driver_tag == made.driver_tag and found.options == made.options
    assert [(c.dtype, c.shape) for c in found.program.constants] == [(c.dtype, c.shape) for c in made.program.constants]
    for one, other in zip(found.program.constants, made.program.constants):
        assert one.numpy().tobytes() == other.numpy().tobytes()
    found.count_work(), made.count_work()
    assert found.program.costs == made.program.costs and found.program.places == made.program.places
    if "x" in found.as_text():
        assert found["main"](X).numpy().tobytes() == made["main"](X).numpy().tobytes()


def test_a_second_build_runs_no_pass_and_is_the_same(built, monkeypatch):
    first, second = unity.compile(module()), unity.compile(module())
    assert len(built) == 1
    assert_same(second, first)
    assert_same(second, alone(monkeypatch, module()))
    assert second.describe()[0] == first.describe()[0]


def test_other_weights_take_the_same_steps(built, monkeypatch):
    first = unity.compile(module(seed=0))
    for seed in (1, 2):
        found = unity.compile(module(seed=seed))
        assert_same(found, alone(monkeypatch, module(seed=seed)))
        assert found["main"](X).numpy().tobytes() != first["main"](X).numpy().tobytes()
    assert [r["exec_mode"] for r in built] == ["native", "native", "native"]  # the first, and two without the cache


def test_other_modules_and_options_are_other_entries(built):
    def count(mod, **options):
        before = len(built)
        made = unity.compile(mod, **options)
        return len(built) - before, made["main"](X).numpy()

    base = count(module())[1]
    runs, other = count(module(factor=4.0))  # a small constant's value
    assert runs == 1
    np.testing.assert_allclose(other, base + 2, rtol=1e-5)
    assert count(module(text=CONVOLUTION.replace("R.negative(a)", "R.exp(a)")))[0] == 1
    assert count(module(text=CONVOLUTION.replace("        with R", "\n        with R")))[0] == 1  # other lines
    assert count(module(text=CONVOLUTION.replace("gv", "result")))[0] == 1  # other names
    assert count(module(w=unity.tensor(np.ones((20, 3, 5, 5), "float32"))))[0] == 1
    assert count(module(), exec_mode="bytecode")[0] == 1
    assert count(module(), target="llvm -mcpu=penryn")[0] == 1
    assert count(module(), tir_pipeline=CHECKED_CPU_PIPELINE)[0] == 1
    assert count(module(), pipeline=DEFAULT_PIPELINE.without("fuse_ops"))[0] == 1
    assert count(module(), pipeline="fold_constant{max_bytes=4096}," + str(DEFAULT_PIPELINE))[0] == 1
    one = weights()["beta"]
    assert count(module(beta=one, mean=one))[0] == 1  # the same memory twice
    assert count(module())[0] == 0


def test_shared_constants_stay_shared(built):
    for _ in range(2):
        data = np.ones((4, 4), "float32")
        text = """
        @R.function
        def main(x: R.Tensor((4, 4), "float32")):
            y = R.add(x, held)
            return y
        """
        made = unity.compile(parse(text, scope={"held": unity.tensor(data)}))
        assert made["main"](data * 0).numpy()[0, 0] == 1
        data[0, 0] = 5  # as a torch model does with its own parameters
        assert made["main"](np.zeros((4, 4), "float32")).numpy()[0, 0] == 5
    assert len(built) == 1


def test_what_a_pass_saw_must_be_the_same(built, monkeypatch):
    """Rounding to 16 bits looks at the weights themselves."""
    pipeline = Pipeline((to_mixed_precision, *DEFAULT_PIPELINE))
    first = unity.compile(module(seed=0), pipeline=pipeline)
    assert_same(unity.compile(module(seed=0), pipeline=pipeline), first)
    assert len(built) == 1
    other = unity.compile(module(seed=1), pipeline=pipeline)
    assert len(built) == 2
    assert_same(other, alone(monkeypatch, module(seed=1), pipeline=pipeline))


def test_watched_builds_run_every_pass(built, monkeypatch, capsys, tmp_path):
    unity.compile(module())
    timer = TimeInstrument()
    with PassContext(timer):
        unity.compile(module())
    assert {"fuse_ops", "plan_memory"} <= set(timer.seconds)
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    unity.compile(module())
    assert "fused_conv2d_add: contraction" in capsys.readouterr().err
    monkeypatch.delenv("UNITY_EXPLAIN")
    monkeypatch.setenv("UNITY_DUMP", str(tmp_path / "dump"))
    unity.compile(module())
    assert list((tmp_path / "dump").iterdir())
    assert len(built) == 4


def test_a_miss_says_which_part_of_the_key_is_new(built, monkeypatch, capsys):
    other = {"target": "llvm -mcpu=x86-64-v3", "pipeline": DEFAULT_PIPELINE.without("fuse_attention")}
    unity.compile(module(), target="llvm -mcpu=x86-64-v2")
    monkeypatch.setenv("UNITY_EXPLAIN", "1")

    def told(**options):
        unity.compile(module(), **options)
        lines = capsys.readouterr().err.splitlines()
        return [next(k for k in lines if k.startswith(f"cache: {stage}: ")) for stage in ("program", "kernel")]

    assert told(target="llvm -mcpu=x86-64-v2") == ["cache: program: found", "cache: kernel: found"]
    for line in told(target=other["target"]):
        assert "target (llvm -mcpu=x86-64-v3; was llvm -mcpu=x86-64-v2)" in line and "module" not in line
    assert "new passes (" in (line := told(pipeline=other["pipeline"], target="llvm -mcpu=x86-64-v2")[0])
    assert "was fuse_attention," in line and "target" not in line
    monkeypatch.delenv("UNITY_EXPLAIN")
    assert main(["cache"]) == main(["cache", "program"]) == 0
    said = capsys.readouterr().out
    assert "program            1 entries" in said and "the first of its stage" in said


def test_passes_from_outside_always_run(built):
    seen = []

    @module_pass(name="from_outside_of_the_package")
    def outside(mod):
        seen.append(mod)
        return mod

    for _ in range(2):
        unity.compile(module(), pipeline=Pipeline((outside, *DEFAULT_PIPELINE)))
        unity.compile(module(), pipeline=lambda mod: DEFAULT_PIPELINE(outside(mod)))
    assert len(seen) == 4 and len(built) == 4


def test_other_rules_of_schedules_are_other_entries(built, monkeypatch):
    unity.compile(module())
    monkeypatch.setitem(BACKENDS, "llvm", replace(CPU, rules=CPU.rules[1:]))
    unity.compile(module())
    assert len(built) == 2
    own = Rule("mine", lambda fn, constants, machine: "no")
    monkeypatch.setitem(BACKENDS, "llvm", replace(CPU, rules=(*CPU.rules, own)))
    for _ in range(2):
        unity.compile(module())
    assert len(built) == 4


def test_an_operator_changed_from_outside_is_asked(built, monkeypatch):
    unity.compile(module())
    row = OPS["R.negative"]
    monkeypatch.setattr(row, "ref", lambda x: x)
    unity.compile(module())
    monkeypatch.undo()
    assert len(built) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "pipe"])
def test_a_damaged_entry_is_built_again(built, tmp_path, damage):
    first = unity.compile(module())
    files = [p for p in tmp_path.rglob("*.bin") if b'"observed"' in p.read_bytes()]
    assert len(files) == 1
    data = files[0].read_bytes()
    flipped = bytes([*data[:200], data[200] ^ 1, *data[201:]])
    if damage == "pipe":  # nobody writes to it: who opens it would wait
        files[0].unlink()
        os.mkfifo(files[0])
    else:
        files[0].write_bytes({"cut": data[: len(data) // 2], "flip": flipped, "empty": b""}[damage])
    assert_same(unity.compile(module()), first)
    assert len(built) == 2
    assert_same(unity.compile(module()), first)
    assert len(built) == 2


def test_several_builders_at_once(built, monkeypatch):
    with ThreadPoolExecutor(4) as workers:
        made = list(workers.map(lambda seed: unity.compile(module(seed=seed)), [0, 1, 0, 1]))
    for executable, seed in zip(made, [0, 1, 0, 1]):
        assert_same(executable, alone(monkeypatch, module(seed=seed)))


def test_off_and_full_caches_build(built, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE_BYTES", "0")
    first = unity.compile(module())
    assert_same(unity.compile(module()), first)
    assert len(built) == 2


def test_what_was_found_is_saved_like_any_other(built, tmp_path):
    first, second = unity.compile(module()), unity.compile(module())
    first.save(tmp_path / "first.uex"), second.save(tmp_path / "second.uex")
    assert (tmp_path / "first.uex").read_bytes() == (tmp_path / "second.uex").read_bytes()
    assert load(tmp_path / "second.uex", trust=False)["main"](X).numpy().tobytes() == first["main"](X).numpy().tobytes()
