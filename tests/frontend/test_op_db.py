"""torch's own operator samples (``op_db``) against torch eager.

By default one sample of each variant of some fifty operators. ``OP_DB=all`` runs every sample of every operator in float32, several
minutes; ``OP_DB=all:int64`` in another dtype; ``OP_DB=add,sort`` the named operators.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch's test samples need it")
from op_db_runner import Outcome, comparable_samples, run_operator, run_samples  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
CHOSEN, _, KIND = os.environ.get("OP_DB", "").partition(":")
DTYPE = getattr(torch, KIND or "float32")
ENTRIES = [info for info in op_db if DTYPE in info.supported_dtypes("cpu")]
FAST = """
add div remainder pow where lerp atan2 xlogy erfinv lgamma round
sum argmax var amax cumsum logcumsumexp median linalg.vector_norm
matmul einsum softmax nn.functional.layer_norm nn.functional.scaled_dot_product_attention nn.functional.embedding_bag
nn.functional.cross_entropy nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.max_pool2d
nn.functional.interpolate nn.functional.grid_sample nn.functional.pad
reshape cat roll repeat_interleave as_strided gather scatter_reduce index_put sort topk searchsorted unique
linalg.solve linalg.cholesky
"""
SAMPLES = 1


def title(info: Any) -> str:
    """Name of an entry with its variant."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def check(outcome: Outcome) -> None:
    assert not outcome.different and not outcome.errors, "\n".join([*outcome.different, *outcome.errors])
    assert not outcome.fallbacks, f"run in torch: {outcome.fallbacks}"


if CHOSEN:
    WANTED = [info for info in ENTRIES if CHOSEN == "all" or info.name in CHOSEN.split(",")]

    @pytest.mark.parametrize("info", WANTED, ids=[title(i) for i in WANTED])
    def test_operator(info: Any) -> None:
        check(run_operator(info, DTYPE))

else:

    @pytest.mark.parametrize("part", range(2))
    def test_samples_of_common_operators(part: int) -> None:
        names = FAST.split()
        entries = [info for info in ENTRIES if info.name in names[part::2]]
        assert {info.name for info in entries} == set(names[part::2])
        samples, outcome = [], Outcome()
        for info in entries:
            found = comparable_samples(info, DTYPE, SAMPLES, False, outcome)
            samples += found
        run_samples(samples, False, outcome)
        check(outcome)
        assert outcome.same == len(samples) > 20
