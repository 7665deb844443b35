"""Torch models of dynamic sizes are tuned for those of their example inputs, and serve all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import unity

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):
    """Rows of a product are batch times three: a size that no shape gives alone."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(9, 13)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.dense(x.reshape(-1, 9))).reshape(-1, 39)


def test_a_torch_model_of_dynamic_batch(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    model = Model().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}}
    compiled = unity.compile(model, example_inputs=(torch.randn(4, 3, 9),), dynamic_shapes=shapes, tune=2)
    said = capsys.readouterr().err
    assert "all tasks" in said and "not tuned" not in said
    for n in (2, 3, 4, 33):
        x = torch.randn(n, 3, 9)
        torch.testing.assert_close(compiled(x), model(x))
