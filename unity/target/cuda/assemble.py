"""PTX to machine code by NVIDIA's assembler: ``ptxas`` from the path, the usual folder of a toolkit, or its wheel.

No GPU is needed. Without an assembler, the driver translates PTX when a program is loaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...ffi.cache.cache_key import Key
from ...ffi.cache.object_cache import cached
from ...support.errors import CodegenError, InternalError

_FOLDERS = ("nvidia/cuda_nvcc/bin", "nvidia/cu13/bin", "triton/backends/nvidia/bin")
"""Folders of the assembler in wheels, below a folder of packages."""
_TOOLKITS = ("/usr/local/cuda/bin", "/opt/cuda/bin")
_SECONDS = 300
_REPORT = re.compile(
    r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'.*?(?P<stack>\d+) bytes stack frame, "
    r"(?P<out>\d+) bytes spill stores, (?P<back>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.S,
)


@dataclass(slots=True, frozen=True)
class KernelResources:
    """The resources of a kernel: ``registers`` of a thread, ``shared_bytes`` of a block, and bytes in slow memory of a thread: its
    ``stack_bytes``, and ``spill_bytes`` of registers that did not fit."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


@dataclass(slots=True, frozen=True)
class Assembled:
    """Machine code for one architecture, the resources of each kernel by its symbol, and what the assembler says makes it slow."""

    cubin: bytes
    kernels: dict[str, KernelResources]
    remarks: tuple[str, ...] = ()


@cache
def find_assembler() -> str:
    """The path of ``ptxas``; "" where there is none."""
    roots = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")]
    folders = [Path(root) / "bin" for root in roots if root] + [Path(folder) for folder in _TOOLKITS]
    folders += [Path(root) / folder for root in sys.path if root for folder in _FOLDERS]
    found = shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join([str(folder) for folder in folders]))
    return found or ""


def require_assembler() -> str:
    """The path of ``ptxas``. Raises CodegenError E534 where there is none."""
    found = find_assembler()
    if not found:
        raise CodegenError("E534", "there is no assembler for CUDA devices here",
                           help="pip install nvidia-cuda-nvcc-cu12, or put ptxas on the path")  # fmt: skip
    return found


def assemble(ptx: str, arch: str) -> Assembled:
    """Machine code of PTX for an architecture such as "sm_90a". Raises CodegenError E534 where there is no assembler, InternalError
    E905 where it refuses the text."""
    tool = require_assembler()
    key = Key("cubin", ptx=ptx, arch=arch, tools=_version(tool))
    data = cached(key, lambda: _assembled(tool, ptx, arch), lambda value: value, bytes)
    size = int.from_bytes(data[:8], "little")
    report = data[8 : 8 + size].decode()
    remarks = re.findall(r"Potential Performance Loss: ([^\n]*)", report)
    return Assembled(data[8 + size :], resources(report), tuple(remarks))


def _assembled(tool: str, ptx: str, arch: str) -> bytes:
    """The length of the assembler's report, the report, and the machine code."""
    with tempfile.TemporaryDirectory(prefix="unity-ptxas-") as folder:
        source, made = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        command = [tool, "-v", f"-arch={arch}", str(source), "-o", str(made)]
        done = _run(command)
        if done.returncode != 0:
            raise InternalError("E905", f"the assembler refuses generated code: {done.stderr.strip()[-2000:]}")
        report = (done.stderr + done.stdout).encode()
        return len(report).to_bytes(8, "little") + report + made.read_bytes()


def resources(report: str) -> dict[str, KernelResources]:
    """Resources of kernels by symbol, from the output of ``ptxas -v``."""
    found = {}
    for part in re.split(r"(?=Compiling entry function)", report):
        match = _REPORT.search(part)
        if match is not None:
            shared = re.search(r"(\d+) bytes smem", match["rest"])
            spilled = int(match["out"]) + int(match["back"])
            found[match["name"]] = KernelResources(
                int(match["registers"]), int(shared[1]) if shared else 0, int(match["stack"]), spilled
            )
    return found


def assembler_version() -> str:
    """The release of the assembler that is here, as "12.9.86". Raises CodegenError E534 where there is none."""
    found = re.search(r"V([\d.]+)", _version(require_assembler()))
    return found[1] if found else "unknown"


@cache
def _version(tool: str) -> str:
    return _run([tool, "--version"]).stdout


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the assembler. Raises CodegenError E534 where it does not run, or not to its end."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CodegenError(
            "E534", f"the assembler does not run: {error}", help="take another ptxas first on the path"
        ) from error
