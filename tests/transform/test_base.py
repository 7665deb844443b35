"""Passes, pipelines and instruments."""

import pytest

from unity.ir.module import IRModule, module
from unity.support.errors import InternalError, PassError
from unity.transform.infra.passes import (
    PASSES,
    DumpInstrument,
    Pass,
    PassContext,
    Pipeline,
    PrintInstrument,
    TimeInstrument,
    VerifyInstrument,
    module_pass,
    traced_passes,
)  # fmt: skip


@module_pass(name="test_mark")
def mark(mod: IRModule, *, depth: int = 8, tag: str = "a,b") -> IRModule:
    """Write the options into the module's attributes."""
    return mod.with_attrs(depth=depth, tag=tag)


@module_pass(name="test_nothing")
def nothing(mod: IRModule) -> IRModule:
    """Change nothing."""
    return mod


@module_pass(name="test_broken")
def broken(mod: IRModule) -> IRModule:
    """Fail."""
    assert mod.functions, "impossible"
    return mod


def test_pipeline_prints_and_parses() -> None:
    pipeline = Pipeline((mark.with_options(depth=3, tag="x=1,{y}"), nothing))
    text = str(pipeline)
    assert text == "test_mark{depth=3,tag='x=1,{y}'},test_nothing"
    again = Pipeline.parse(text)
    assert again == pipeline and again(module({})).attrs == {"depth": 3, "tag": "x=1,{y}"}
    assert str(Pipeline((mark,))) == "test_mark"


@pytest.mark.parametrize(
    ("text", "code"),
    [("test_mark{width=3}", "E501"), ("nope", "E502"), ("test_mark{depth=f()}", "E501"), ("test_mark{depth=1", "E502")],
)
def test_bad_pipelines(text: str, code: str) -> None:
    with pytest.raises(PassError) as caught:
        Pipeline.parse(text)
    assert caught.value.code == code


def test_unchanged_is_same_object() -> None:
    mod = module({})
    assert nothing(mod) is mod


def test_failure_names_the_pass() -> None:
    with pytest.raises(InternalError, match="test_broken") as caught:
        broken(module({}))
    assert caught.value.code == "E903" and "impossible" in caught.value.message


def test_verifier_names_the_pass() -> None:
    def reject(mod: IRModule) -> None:
        raise PassError("E502", "never good")

    with PassContext(VerifyInstrument(reject)):
        nothing(module({}))
        with pytest.raises(InternalError, match="test_mark") as caught:
            mark(module({}))
    assert caught.value.code == "E904"


def test_dump_and_time(tmp_path) -> None:  # type: ignore[no-untyped-def]
    timer = TimeInstrument()
    with PassContext(DumpInstrument(tmp_path), timer):
        Pipeline((nothing, mark))(module({}))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_input.py", "002_test_mark.py", "run.py"]
    assert set(timer.seconds) == {"test_nothing", "test_mark"}
    with traced_passes() as seen:
        mark(module({}))
    assert list(seen.seconds) == ["test_mark"]


def test_edit_pipelines() -> None:
    pipeline = Pipeline((mark, nothing))
    assert str(pipeline.without("test_mark")) == "test_nothing"
    assert str(pipeline.insert_after("test_mark", nothing)) == "test_mark,test_nothing,test_nothing"
    for change in (lambda: pipeline.insert_after("zzz", nothing), lambda: pipeline.without("test_mark", "zzz")):
        with pytest.raises(PassError, match=r"E502.*'zzz'"):
            change()
    assert PASSES["test_mark"] is mark


def test_times_form_a_tree() -> None:
    @module_pass(name="test_outer")
    def outer(mod: IRModule) -> IRModule:
        """Run another pass inside."""
        return nothing(mark(mod))

    timer = TimeInstrument()
    with PassContext(timer):
        outer(module({}))
        with pytest.raises(InternalError):
            broken(module({}))
    lines = timer.render().splitlines()
    assert [line.split()[-1] for line in lines] == ["passes", "test_outer", "test_mark", "test_nothing", "test_broken"]
    assert lines[2].index("test_mark") == lines[1].index("test_outer") + 2 and not timer.open


def test_print_several_passes(capsys) -> None:  # type: ignore[no-untyped-def]
    with PassContext(PrintInstrument("test_mark, other")):
        Pipeline((nothing, mark))(module({}))
    shown = capsys.readouterr().err
    assert "before test_mark" in shown and "after test_mark" in shown and "test_nothing" not in shown
    with PassContext(PrintInstrument("*")):
        nothing(module({}))
    assert "after test_nothing: no change" in capsys.readouterr().err


def _define(origin: str) -> Pass:
    def same(mod: IRModule) -> IRModule:
        return mod

    same.__qualname__ = origin
    return module_pass(name="test_defined")(same)


def test_a_definition_may_run_twice_but_not_another() -> None:
    _define("first")
    again = _define("first")
    assert PASSES["test_defined"] is again
    with pytest.raises(PassError, match="E505"):
        _define("second")
