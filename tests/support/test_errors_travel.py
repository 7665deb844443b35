"""Errors go from one process to another, and are copied, with all they say."""

import copy
import pickle

import pytest

import unity
from unity.script import parse
from unity.support.errors import SeveralErrors, UnityError

LOOP = """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(1)
"""


def _schedule():
    sch = unity.Schedule(parse(LOOP))
    sch.compute_inline(sch.get_block("b"))


def _kinds(kind):
    """Those made as their base is."""
    found = [kind] if kind.__init__ in (UnityError.__init__, SeveralErrors.__init__) else []
    return found + [k for inner in kind.__subclasses__() for k in _kinds(inner)]


def _same(error):
    error.add_note("seen")
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(made) is type(error) and str(made) == str(error) and made.__notes__ == ["seen"]


@pytest.mark.parametrize("kind", dict.fromkeys(_kinds(UnityError)))
def test_every_kind(kind):
    _same(kind("E901", "message", help="help"))


@pytest.mark.parametrize(
    "wrong",
    [lambda: parse("@R.function\ndef f():\n    return R.foo(x)\n    y = z\n"), lambda: unity.compile(3), _schedule],
)
def test_real_ones(wrong):
    with pytest.raises(UnityError) as caught:
        wrong()
    _same(caught.value)
    assert len(getattr(pickle.loads(pickle.dumps(caught.value)), "errors", [0])) == len(
        getattr(caught.value, "errors", [0])
    )
