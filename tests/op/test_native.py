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


def test_memory_of_no_elements():
    """Buffers of size 0 in loops that never run stay as they are."""
    u, s, vh = VirtualMachine(unity.compile(build("linalg.svd", [np.zeros((0, 3), "float32")], {}, False)[0]))["main"](
        np.zeros((0, 3), "float32")
    )
    assert u.shape == (0, 0) and s.shape == (0,)
    np.testing.assert_array_equal(vh.numpy(), np.eye(3))
