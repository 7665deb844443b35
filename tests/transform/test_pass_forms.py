"""Passes and contexts written as in TVM, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unity
from unity.instrument import DumpIR, PassTimingInstrument, PrintAfterAll, PrintBeforeAll, PrintIR, pass_instrument
from unity.ir import Call, op, replace, rewrite, structural_equal
from unity.script import parse
from unity.support.errors import InternalError, PassError, VMError
from unity.transform import (
    CheckInstrument,
    DumpInstrument,
    Instrument,
    PassContext,
    Pipeline,
    Sequential,
    dataflowblock_pass,
    fold_constant,
    function_pass,
    legalize_ops,
    module_pass,
    prim_func_pass,
)  # fmt: skip
from unity.transform.validation.dumps import main as run_dumps

MOD = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.negative(y)
            R.output(z)
        return z
""")


def to_sin(node: Any) -> Any:
    return rewrite(node, {Call: lambda c: replace(c, op=op("R.sin")) if c.op is op("R.exp") else c})


@module_pass(opt_level=0, name="test_forms.module")
def by_module(mod, ctx):
    assert isinstance(ctx, PassContext)
    return mod.with_functions({"main": to_sin(mod["main"])})


@function_pass(opt_level=0, name="test_forms.function")
def by_function(func, mod, ctx):
    assert "main" in mod and isinstance(ctx, PassContext)
    return to_sin(func)


@dataflowblock_pass(name="test_forms.block")
def by_block(block):
    return to_sin(block)


@module_pass(opt_level=2, name="test_forms.class")
class ByClass:
    """The wrapper of the course's fusion pass looks like this."""

    def __init__(self, word="R.sin"):
        self.word = word

    def transform_module(self, mod, ctx):
        change = {Call: lambda c: replace(c, op=op(self.word)) if c.op is op("R.exp") else c}
        return mod.with_functions({"main": rewrite(mod["main"], change)})


@pytest.mark.parametrize("step", [by_module, by_function, by_block, ByClass()], ids=str)
def test_forms_of_tvm(step) -> None:
    assert "R.sin" in step(MOD).script()
    ran = unity.VirtualMachine(unity.compile(Pipeline([step])(MOD)))["main"](np.ones((2, 4), "float32"))
    np.testing.assert_allclose(np.asarray(ran), -np.sin(np.ones((2, 4))), rtol=1e-5)


def test_arguments_of_a_class() -> None:
    assert "R.cos" in ByClass(word="R.cos")(MOD).script()


def test_context_leaves_passes_out() -> None:
    with PassContext(opt_level=1):
        assert ByClass()(MOD) is MOD and by_module(MOD) is not MOD
    with PassContext(opt_level=1, required_pass=["test_forms.module"], disabled_pass=["test_forms.function"]):
        assert by_module(MOD) is not MOD and by_function(MOD) is MOD
    with PassContext(opt_level=3, disabled_pass=["fuse_ops", "fuse_tir"]):
        text = unity.compile(MOD).as_text()
    assert "kernel exp" in text and "kernel negative" in text
    assert "kernel exp" not in unity.compile(MOD).as_text()  # nothing of it was remembered


def test_instrument_leaves_passes_out() -> None:
    class NoFolding(Instrument):
        def should_run(self, step, mod):
            return step is not legalize_ops

    with PassContext(instruments=[NoFolding()]):
        assert legalize_ops(MOD) is MOD and by_module(MOD) is not MOD


def test_refusals() -> None:
    @module_pass(name="test_forms.none")
    def nothing(mod):
        mod.with_attrs(a=1)

    @prim_func_pass(name="test_forms.wrong_kind")
    def wrong_kind(func):
        return MOD

    cases = [
        (lambda: nothing(MOD), "E690", "returned NoneType, expected IRModule"),
        (lambda: wrong_kind(legalize_ops(MOD)), "E690", "returned IRModule, expected PrimFunc"),
        (lambda: fold_constant(MOD["main"]), "E690", "takes an IRModule, got Function"),
        (lambda: PassContext(config={"tir.disable_vectorize": True}), "E692", "tir.disable_vectorize"),
        (lambda: PassContext(disabled_pass=["FuseOpz"]), "E502", "FuseOpz"),
    ]
    for call, code, words in cases:
        with pytest.raises(PassError, match=words) as caught:
            call()
        assert caught.value.code == code


@function_pass(name="test_forms.ill_formed")
def ill_formed(func):
    """Drops the bindings and keeps what reads them."""
    return replace(func, body=replace(func.body, blocks=()))


@function_pass(name="test_forms.without_parameters")
def without_parameters(func):
    """Drops the parameters and keeps what reads them: no run can be compared."""
    return replace(func, params=())


@pytest.mark.parametrize("wrong", [ill_formed, without_parameters])
def test_the_check_names_a_pass_that_breaks_the_form(tmp_path, wrong) -> None:
    with (
        pytest.raises(InternalError, match=rf"pass {wrong.name} broke the module") as caught,
        PassContext(CheckInstrument(folder=tmp_path)),
    ):
        Pipeline([fold_constant, wrong])(MOD)
    assert caught.value.code == "E904"
    saved = re.search(r"saved in (\S+\.py)", caught.value.help)
    assert saved is not None and "report" not in caught.value.help
    assert structural_equal(parse(Path(saved[1]).read_text()), MOD)
    Path(saved[1]).unlink()


def test_a_dump_with_a_broken_module_still_runs(tmp_path, capsys) -> None:
    with PassContext(DumpInstrument(tmp_path)):
        Pipeline([legalize_ops, ill_formed])(MOD)
    assert run_dumps(tmp_path) == 1
    said = capsys.readouterr().out
    assert (
        "001_legalize_ops.py  main: agrees" in said
        and "002_test_forms.ill_formed.py  is not a program: error[E110]" in said
    )


def test_choices_of_no_build() -> None:
    with pytest.raises(VMError, match="got IRModule") as caught:
        unity.explain_choices(MOD)
    assert caught.value.code == "E695"


def test_instruments_as_in_tvm(capsys, tmp_path) -> None:
    @pass_instrument
    class Log:
        """Notes what it sees."""

        def __init__(self, left_out=""):
            self.left_out, self.log = left_out, []

        def enter_pass_ctx(self):
            self.log.append("enter")

        def exit_pass_ctx(self):
            self.log.append("exit")

        def should_run(self, mod, info):
            return info.name != self.left_out

        def run_before_pass(self, mod, info):
            self.log.append(f"before {info.name} {info.opt_level}")

        def run_after_pass(self, mod, info):
            self.log.append(f"after {'R.sin' in mod.script()}")

    outer, inner, timing = Log("fold_constant"), Log(), PassTimingInstrument()
    with PassContext(instruments=[outer, timing]):
        by_module(MOD)
        with PassContext(instruments=[outer, inner]):  # a context inside takes the place of the one around
            fold_constant(MOD)
        ByClass()(MOD)
    assert outer.log == [
        "enter",
        "before test_forms.module 0",
        "after True",
        "before test_forms.class 2",
        "after True",
        "exit",
    ]
    assert inner.log == ["enter", "exit"] and isinstance(inner, Instrument)
    assert timing.render().count("test_forms") == 2
    with PassContext(instruments=[PrintBeforeAll(), DumpIR(tmp_path)]):
        by_module(MOD)
    with PassContext(PrintAfterAll()):
        PrintIR("here")(MOD)
    shown = capsys.readouterr()
    assert "before test_forms.module" in shown.err and "after test_forms.module" not in shown.err
    assert "after print_ir: no change" in shown.err and shown.out.startswith("# here\n@I.ir_module")
    assert sorted(p.name for p in tmp_path.glob("0*")) == ["000_input.py", "001_test_forms.module.py"]
    with pytest.raises(PassError, match="run_before_pass"):
        pass_instrument(type("Nothing", (), {}))


def test_names_and_levels_of_tvm() -> None:
    twice = parse(
        MOD.script()
        .replace("z: R.Tensor", "w = R.exp(x)\n            z: R.Tensor")
        .replace("R.negative(y)", "R.add(y, w)")
    )
    share = unity.relax.transform.EliminateCommonSubexpr()
    assert share.info.name == "eliminate_common_subexpr" and share(twice) is not twice
    for names in (["EliminateCommonSubexpr"], ["relax.EliminateCommonSubexpr"], ["eliminate_common_subexpr"]):
        with PassContext(disabled_pass=names):
            assert share(twice) is twice
    late = Sequential([share], opt_level=3, name="late")
    assert late(twice) is not twice and late.name == "late"  # called by itself: what runs is decided by its passes
    whole = Sequential([late, Sequential([], required=["CanonicalizeBindings"])])
    assert [(p.name, p.opt_level) for p in whole] == [("eliminate_common_subexpr", 3), ("canonicalize", 0)]
    assert whole(twice) is twice
    for context in (PassContext(opt_level=3), PassContext(required_pass=["EliminateCommonSubexpr"])):
        with context:
            assert "w" not in whole(twice).script().split()
