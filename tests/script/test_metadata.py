"""Large constants: written in full by ``script``, left out by name where a person looks, and nothing is lost."""

import numpy as np
import pytest

from unity.ir.structural import structural_equal
from unity.script import metadata, parse
from unity.support.errors import UnityError

WEIGHT = np.random.default_rng(0).standard_normal((1000, 1000)).astype("float32")
OTHER = np.arange(2000, dtype="int64")
TEXT = """
@I.ir_module
class M:
    @T.prim_func
    def table(B: T.Buffer((2000,), "int64")):
        A = T.alloc_const(other)
        for i in range(2000):
            B[i] = A[i]
    @R.function
    def main(x: R.Tensor((1000, 1000), "float32")):
        w = R.const(weight)
        y = R.add(x, w)
        z = R.multiply(y, R.const([[2.0]], "float32"))
        return R.add(z, w)
"""
MOD = parse(TEXT, scope={"weight": WEIGHT, "other": OTHER})


def test_script_writes_everything():
    assert structural_equal(parse(MOD.script()), MOD)


def test_short_text_with_its_metadata():
    text = MOD.script(show_meta=False)
    assert len(text) < 2000 and 'metadata["relax.expr.Constant"][1]' in text
    assert (
        "# Metadata omitted: 3 constants, 8016000 bytes" in text or "# Metadata omitted: 2 constants, 4016000" in text
    )
    assert structural_equal(parse(text, scope={"metadata": metadata(MOD)}), MOD)


def test_short_text_alone_is_refused():
    with pytest.raises(UnityError) as caught:
        parse(MOD.script(show_meta=False))
    assert "E124" in str(caught.value) and "show_meta=True" in str(caught.value)


def test_what_a_person_sees_is_short(capsys):
    MOD.show(color=False)
    shown = capsys.readouterr().out
    assert "Metadata omitted" in shown and len(shown) < 2000
    assert len(str(MOD)) < 2000 and len(MOD._repr_html_()) < 20_000
    MOD.show(color=False, show_meta=True)
    assert len(capsys.readouterr().out) > 5_000_000


def test_small_constants_are_written():
    assert "R.const([[2.0]]" in MOD.script(show_meta=False)
    assert "omitted" not in parse("@R.function\ndef f():\n    return R.const([1, 2])\n").script(show_meta=False)
