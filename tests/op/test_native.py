"""Two cases of every operator through the whole compiler: machine code against numpy."""

import numpy as np
import pytest
from op_cases import CASES
from test_against_numpy import as_numpy, build, tolerance

import unity
from unity.ir.op import OPS
from unity.vm.virtual_machine import VirtualMachine

CHOSEN = [c for k, c in enumerate(CASES) if sum(d[0] == c[0] for d in CASES[:k]) < 2]


@pytest.mark.parametrize("case", CHOSEN, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(CHOSEN)])
def test_machine_code_means_what_numpy_says(case):
    name, inputs, attrs = case
    mod, arrays = build(name, inputs, attrs, False)
    got = as_numpy(VirtualMachine(unity.compile(mod))["main"](*arrays))
    expected = OPS[f"R.{name}"].ref(*inputs, **attrs)
    for g, e in zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]:
        e = np.asarray(e)
        assert g.shape == e.shape
        if g.dtype.kind in "iub":
            np.testing.assert_array_equal(g, e)
        else:
            finite = np.abs(e.astype("float64"))
            wide = max(1.0, float(np.max(finite[np.isfinite(finite)], initial=0)))
            np.testing.assert_allclose(g.astype("float64"), e.astype("float64"), **tolerance(g.dtype, wide))
