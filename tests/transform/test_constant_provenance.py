"""Constants that remember how they were made: steps are written down, looks are noticed, and other constants go the same way."""

import json

import numpy as np
import pytest

import unity
from unity.ffi.discard import discard
from unity.ir.expr import Constant
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import FFIError
from unity.transform.infra.constant_provenance import (
    RECIPES,
    Ledger,
    Tracked,
    derive,
    peek,
    recipe,
    replay,
    tracked,
)

MODULE = """
@R.function
def main(x: R.Tensor((8, 8), "float32")):
    y = R.add(R.add(x, first), R.add(second, first))
    return y
"""


@pytest.fixture(autouse=True)
def recipes():
    """Two recipes, and how often each ran."""
    known, ran = dict(RECIPES), []

    @recipe("scaled")
    def scaled(array, factor):
        ran.append("scaled")
        return array * factor

    @recipe("joined")
    def joined(arrays, names, offset):
        ran.append("joined")
        assert names == {"axis": 0} and offset is None
        return np.concatenate(arrays, **names)

    yield ran
    RECIPES.clear(), RECIPES.update(known)


def tensors(seed):
    rng = np.random.default_rng(seed)
    return [unity.tensor(rng.standard_normal((8, 8)).astype("float32")) for _ in range(2)]


def started(sources):
    """A ledger, and its constants as a pass finds them."""
    ledger = Ledger(sources)
    mod = parse(MODULE, scope={"first": sources[0], "second": sources[1]})
    found = {id(c.data): c.data for c in collect(ledger.module(mod), Constant)}
    assert len(found) == 2
    return ledger, [next(t for t in found.values() if peek(t) is s.numpy()) for s in sources]


def again(ledger, rows, sources):
    """The rows for other sources, through text as in a cache."""
    steps, literals = json.loads(json.dumps([ledger.steps, ledger.literals]))
    return replay(sources, steps, literals, ledger.observed, rows)


def test_steps_are_taken_again_on_other_constants(recipes):
    ledger, (first, second) = started(tensors(0))
    small = unity.tensor(np.float32([[7] * 8]))
    one = derive("scaled", first, 3.5)
    both = derive("joined", (one, second, small), {"axis": 0}, None)
    unused = derive("scaled", both, 2.0)
    rows, plain = ledger.settle([both, second, small])
    assert plain[1] is ledger.sources[1] and type(plain[0]) is unity.Tensor and isinstance(unused, Tracked)
    recipes.clear()
    others = tensors(1)
    made = again(ledger, rows, others)
    assert recipes == ["scaled", "joined"]
    expected = np.concatenate([others[0].numpy() * 3.5, others[1].numpy(), small.numpy()])
    np.testing.assert_array_equal(made[0].numpy(), expected)
    assert made[1] is others[1] and not ledger.observed
    np.testing.assert_array_equal(made[2].numpy(), small.numpy())


@pytest.mark.parametrize("look", [
    lambda t: t.numpy(), lambda t: t.item() if t.size == 1 else t[0], lambda t: np.asarray(t), lambda t: repr(t),
    lambda t: t.torch(), lambda t: np.from_dlpack(t), lambda t: unity.tensor(t),
])  # fmt: skip
def test_every_look_is_noticed(look):
    ledger, (first, second) = started(tensors(0))
    look(first)
    assert set(ledger.observed) == {0}
    look(derive("scaled", second, 2.0))
    assert set(ledger.observed) == {0, 2}
    same, other = tensors(0), tensors(1)
    assert again(ledger, [1], same) == [same[1]]
    assert again(ledger, [1], other) is None
    assert again(ledger, [1], [same[0], other[1]]) is None


def test_shape_and_place_are_no_look():
    ledger, (first, _) = started(tensors(0))
    assert (first.shape, first.ndim, first.size, first.dtype, str(first.data_type)) == (
        (8, 8),
        2,
        64,
        "float32",
        "float32",
    )
    assert first.data_ptr == ledger.sources[0].data_ptr and peek(first).flags.c_contiguous
    assert not ledger.observed


def test_small_constants_may_be_peeked_at():
    ledger, (first, _) = started([unity.tensor(np.ones((1, 8), "float32")), tensors(0)[1]])
    assert peek(first).nbytes and not ledger.observed
    derive("scaled", first, 2.0).numpy()
    assert set(ledger.observed) == {2}
    first.numpy()  # in the name of the build, but not in that of other weights for what was built
    assert set(ledger.observed) == {0, 2}


def test_what_cannot_be_written_down_is_never_remembered():
    ledger, (first, _) = started(tensors(0))
    made = tracked(peek(first) + 1, "scaled", first, object())
    assert not ledger.complete
    np.testing.assert_array_equal(peek(made), ledger.sources[0].numpy() + 1)
    ledger, (first, _) = started(tensors(0))
    _, plain = ledger.settle([unity.tensor(np.zeros(1 << 20, "float32"))])
    assert not ledger.complete and plain[0].size == 1 << 20


def test_constants_of_other_modules_have_no_rows():
    plain = derive("scaled", tensors(0)[0], 2.0)
    assert type(plain) is unity.Tensor


def test_a_discarded_constant_is_never_read_as_zeros():
    _, (first, _) = started(tensors(0))
    gone = tensors(0)[0]
    for tensor in (first, gone):
        discard(tensor)
        with pytest.raises(FFIError, match="E714"):
            derive("scaled", tensor, 2.0)
