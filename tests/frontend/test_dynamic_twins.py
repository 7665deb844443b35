"""Architectures with a dynamic batch (and length) against torch eager, at two sizes that are not the example's.

By default a fixed sample, written by hand. ``TWINS=all`` also runs every architecture of torchvision, timm and transformers that is
installed, at a small configuration, for hours; ``TWINS=timm`` one library; ``TWINS=timm/resnet18,stem`` the named ones.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")

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
