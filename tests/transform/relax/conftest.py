import numpy as np
import pytest

from unity.ir import assert_structural_equal
from unity.ir.interpret import run
from unity.op import OPERATORS
from unity.script import parse


def as_list(value):
    return [np.asarray(v) for v in value] if isinstance(value, (tuple, list)) else [np.asarray(value)]


@pytest.fixture
def check_pass():
    """check(pass, before, after, *inputs): equal to the expected module, same meaning, prints and parses back."""

    def check(step, before, after, *inputs, **tolerance):
        mod, expected = parse(before), parse(after)
        result = step(mod)
        assert_structural_equal(result, expected)
        assert_structural_equal(parse(result.script()), result)
        if before == after:
            assert result is mod
        if inputs:
            for x, y in zip(as_list(run(mod, "main", *inputs)), as_list(run(result, "main", *inputs)), strict=True):
                np.testing.assert_allclose(x, y, **(tolerance or {"rtol": 1e-5, "atol": 1e-6}))
        return result

    return check


assert OPERATORS  # importing the room fills the operator table
