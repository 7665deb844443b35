"""Where the tests with the marker ``gpu`` run: on the device of this machine, or on an emulated one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import unity
from unity.ffi.cuda.context import context
from unity.testing import emulated_gpu
from unity.testing.gpu_emulator import EmulatedGPU


def runs(arch: str, own: str) -> bool:
    """True if a device of the architecture ``own`` runs PTX for ``arch``."""
    wanted, there = [int("".join([c for c in name if c.isdigit()])) for name in (arch, own)]
    return wanted == there if arch.endswith("a") else wanted <= there


@contextmanager
def device_or_emulated(arch: str = "sm_80", launched: bool = True, **options: Any) -> Iterator[EmulatedGPU | None]:
    """None on the device of this machine, where it has one that runs code for an architecture; else an emulated one, ``options``
    being its own. Everything the block launches is done at its end, and nothing was found wrong in it; with ``launched`` there was
    something. A device that has lost its context ends a worker of xdist, which begins another one: no later test would run."""
    if unity.cuda(0).exist and runs(arch, context(0).arch):
        try:
            yield None
            context(0).synchronize()
        except unity.UnityError as error:
            if error.code == "E737" and "PYTEST_XDIST_WORKER" in os.environ:
                print(error, file=sys.stderr, flush=True)
                os._exit(70)
            raise
        return
    with emulated_gpu(arch, **options) as gpu:
        yield gpu
        assert (gpu.launches or not launched) and not gpu.findings, gpu.findings[:3]
