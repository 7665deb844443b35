"""Architectures with a dynamic batch (and length) against torch eager, at two sizes that are not the example's.

By default a fixed sample, written by hand. ``TWINS=all`` also runs every architecture of torchvision, timm and transformers that is
installed, at a small configuration, for hours; ``TWINS=timm`` one library; ``TWINS=timm/resnet18,stem`` the named ones.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")

import torch
from torch_twins import BY_HAND, TorchRefuses, Twin, chosen

import unity

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLE = ("cnn", "stem", "dense", "fire", "excited", "mobile", "shuffled", "windows", "permuted", "lstm")
"""Those not compiled with open sizes by another test, small enough for every run."""
WANTED = chosen(os.environ["TWINS"]) if os.environ.get("TWINS") else {name: BY_HAND[name] for name in SAMPLE}


@pytest.mark.parametrize("twin", WANTED.values(), ids=WANTED)
def test_other_sizes(twin: Twin) -> None:
    try:
        twin.check()
    except TorchRefuses as error:
        if twin in BY_HAND.values():
            raise
        pytest.skip(str(error))
    except unity.UnityError as error:
        if error.code != "E016" or twin in BY_HAND.values():
            raise
        pytest.skip(str(error))


class Traced(torch.nn.Module):
    """Computes something else while it is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_exporting() else x


class Drawn(torch.nn.Module):
    """Draws random numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


def test_other_numbers_are_the_exported_programs_or_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(Traced, lambda batch, _: {"x": torch.ones(batch, 3)}, {})
    with pytest.raises(TorchRefuses, match="its exported program has other numbers"):
        twin.check()
    monkeypatch.setattr(unity, "compile", lambda *_, **__: lambda x: x + 2)
    with pytest.raises(AssertionError):
        twin.check()
    with pytest.raises(TorchRefuses, match="draws random numbers"):
        Twin(Drawn, twin.inputs, {}).check()
