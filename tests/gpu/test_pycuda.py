"""The real pycuda beside compiled programs: its arrays, streams and kernels, on a device or over the emulated driver."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from unity.ffi.cuda.driver import device_count

PROGRAMS = ("arrays", "streams", "kernels", "overrun")
LIBRARY = Path(sysconfig.get_path("platlib"), "libcuda_emulated.so")


@pytest.mark.gpu
@pytest.mark.skipif(importlib.util.find_spec("pycuda") is None, reason="pycuda is not installed: make gpu-tools")
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_pycuda(name: str) -> None:
    where = "device" if device_count() else "emulated"
    if where == "emulated" and not LIBRARY.exists():
        pytest.skip("no device, and no libcuda of the emulation: make gpu-tools")
    program = Path(__file__).with_name("pycuda_programs.py")
    done = subprocess.run([sys.executable, str(program), name, where], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and f"done {name}" in done.stdout, done.stdout + done.stderr
