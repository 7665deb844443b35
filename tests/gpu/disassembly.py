"""Machine code of CUDA devices as NVIDIA's disassembler shows it: the instructions of a kernel's main loop."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

GROUPED = ("HGMMA", "IGMMA")
PRODUCTS = ("FFMA", "HMMA", "IMMA", *GROUPED)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<name>[A-Z][A-Z0-9]*)(?P<rest>[^;]*);")
_LABEL = re.compile(r"^(?P<name>\.L_x_\w+):")


@cache
def find_disassembler() -> str:
    """The path of ``nvdisasm``, from the path or a wheel; "" where there is none."""
    wheels = [str(Path(root) / "nvidia/cu13/bin") for root in sys.path if root]
    return shutil.which("nvdisasm") or shutil.which("nvdisasm", path=":".join(wheels)) or ""


def disassembled(cubin: bytes) -> str:
    """The instructions, one a line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [find_disassembler(), "-c", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main_loop(cubin: bytes) -> Counter[str]:
    """Instructions by name of the loop with the most products of those that contain no loop; those of warpgroups come first."""
    text = disassembled(cubin)
    names: list[str] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for line in text.splitlines():
        label, instruction = _LABEL.match(line.strip()), _INSTRUCTION.search(line)
        if label is not None:
            labels[label["name"]] = len(names)
        elif instruction is not None:
            names.append(instruction["name"])
            target = re.search(r"\.L_x_\w+", instruction["rest"])
            if instruction["name"] == "BRA" and target is not None and target[0] in labels:
                loops.append((labels[target[0]], len(names)))
    inner = [(a, b) for a, b in loops if not any([a <= c and d <= b and (a, b) != (c, d) for c, d in loops])]
    counted = [Counter(names[a:b]) for a, b in inner]
    return max(
        counted,
        key=lambda count: [sum([count[name] for name in kind]) for kind in (GROUPED, PRODUCTS)],
        default=Counter(),
    )
