"""``unity.testing``: TVM's ``tvm.testing.assert_allclose``, and an emulated CUDA device."""

from typing import Any

import numpy as np

from .gpu_emulator import emulated_gpu


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """``actual`` is ``desired`` in shape, and in elements to ``atol + rtol * abs(desired)``; NaN is NaN. Raises AssertionError."""
    given, wanted = np.asarray(actual), np.asarray(desired)
    np.testing.assert_equal(given.shape, wanted.shape)
    np.testing.assert_allclose(given, wanted, rtol=rtol, atol=atol, verbose=True)


__all__ = ["assert_allclose", "emulated_gpu"]
