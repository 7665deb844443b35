"""Torch models built for a device with open sizes, on this machine's or the emulated one, against torch at sizes that are not the example's.
``UNITY_GPU_SWEEP=1`` runs every model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parent.parent / "frontend"))

from torch_twins import BY_HAND, EXAMPLE, RUNS, Twin, settled  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
SAMPLE = ("mlp", "cnn", "excited", "lstm", "encoder")
MODELS = BY_HAND if os.environ.get("UNITY_GPU_SWEEP") == "1" else {name: BY_HAND[name] for name in SAMPLE}


def leaves(value: object) -> list[np.ndarray]:
    """The arrays of a result."""
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in leaves(part)]
    return [value.detach().numpy() if isinstance(value, torch.Tensor) else value.numpy()]


@pytest.mark.parametrize("twin", MODELS.values(), ids=MODELS)
def test_open_sizes(twin: Twin) -> None:
    torch.manual_seed(0)
    model = settled(twin.make(), twin.inputs(6, EXAMPLE[1]))
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", min=2, max=30)
    example = twin.inputs(*EXAMPLE)
    axes = {k: {0: batch, **({twin.length[k]: length} if k in twin.length else {})} for k in example}
    with device_or_emulated(traffic=False), torch.no_grad():
        compiled = unity.compile(model, example_inputs=(), example_kwargs=example, dynamic_shapes=axes, target="cuda")
        for size in RUNS:
            call = twin.inputs(*size)
            found = leaves(compiled.vm["main"](*[value.numpy() for value in call.values()]))
            for made, expected in zip(found, leaves(model(**call)), strict=True):
                np.testing.assert_allclose(made, expected, rtol=2e-4, atol=2e-5)
