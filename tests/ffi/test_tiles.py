"""AMX is a feature of this machine only where the system lets the process use tiles."""

from __future__ import annotations

import pytest

from unity.ffi.targets import processor

FOUND = "+avx512f,+amx-tile,-amx-fp16,+amx-bf16,+amx-int8"


@pytest.mark.parametrize("allowed", [True, False])
def test_features_of_the_host(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    monkeypatch.setattr(processor, "_llvm_says", lambda: {"features": FOUND})
    monkeypatch.setattr(processor, "allow_tiles", lambda: allowed)
    without = "+avx512f,-amx-tile,-amx-fp16,-amx-bf16,-amx-int8"
    assert processor.host_features.__wrapped__() == (FOUND if allowed else without)
