"""Constants of a build: given back when the last place that reads them is rewritten, and not before."""

from __future__ import annotations

import numpy as np

import unity
from unity.ffi.discard import is_discarded
from unity.ffi.tensor import Tensor
from unity.script import parse
from unity.transform.infra.constant_lifetime import Releases, count_uses, module_constants, watching
from unity.transform.infra.passes import PASSES, DumpInstrument, PassContext, module_pass
from unity.transform.relax.algebra.fold_constant import fold_constant
from unity.transform.relax.pipeline import DEFAULT_PIPELINE


def module(tensor: Tensor, *lines: str):
    body = "\n            ".join(lines or ("a = R.multiply(w, w)", "b = R.add(x, a)", "d = R.add(b, w)"))
    text = f"""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            {body}
            R.output(d)
        return d
"""
    return parse(text, scope={"w": tensor})


def test_places_count_each_reader() -> None:
    w = Tensor(np.ones(4, "float32"))
    assert count_uses(module(w)) == {id(w): 3}


def test_folding_leaves_what_is_still_read() -> None:
    w = Tensor(np.full(4, 3, "float32"))
    mod = module(w)
    releases = Releases([w])
    with releases, watching(mod):
        made = fold_constant(mod)
    assert not is_discarded(w)
    left = module_constants(made)
    assert any([t is w for t in left]) and any([t is not w and t.numpy()[0] == 9 for t in left])
    releases.sweep(left)
    assert not is_discarded(w)
    told: list[Tensor] = []
    Releases([w], told.append).sweep([])
    assert told == [w] and is_discarded(w)


def test_the_last_reader_releases() -> None:
    w = Tensor(np.full(4, 3, "float32"))
    mod = module(w, "a = R.exp(w)", "d = R.add(x, a)")
    with Releases([w]), watching(mod):
        made = fold_constant(mod)
    assert is_discarded(w) and not any([is_discarded(t) for t in module_constants(made)])
    assert fold_constant(mod) is mod  # what is gone is no constant operand any more


def test_nothing_goes_outside_a_build_or_while_somebody_watches(tmp_path) -> None:
    w = Tensor(np.full(4, 3, "float32"))
    made = fold_constant(module(w))
    assert not any([is_discarded(t) for t in module_constants(made)])
    with PassContext(DumpInstrument(tmp_path)):
        watched = unity.compile(module(w))
    for executable in (watched, unity.compile(module(w))):
        np.testing.assert_array_equal(np.asarray(executable["main"](np.ones(4, "float32"))), np.full(4, 13, "float32"))
    assert not is_discarded(w)


def test_a_pass_of_somebody_else_may_keep_modules() -> None:
    kept = []

    @module_pass(name="keep_for_releases")
    def keep(mod):
        kept.append(mod)
        return mod

    PASSES.pop("keep_for_releases")
    w = Tensor(np.full((64, 64), 3, "float32"))
    text = """
@R.function
def main(x: R.Tensor((4, 64), "float32")):
    with R.dataflow():
        a = R.exp(w)
        b = R.matmul(x, a)
        R.output(b)
    return b
"""
    unity.compile(parse(text, scope={"w": w}), pipeline=DEFAULT_PIPELINE.insert_after("fold_constant", keep))
    assert kept[0].script()
    assert not any([is_discarded(t) for t in module_constants(kept[0])])
