"""Run benchmarks/bench_gpu.py with the package of this folder; its options. Needs numpy and llvmlite."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN = HERE / f"python{sys.version_info.major}.{sys.version_info.minor}"
PATHS = [str(HERE / "package"), *([str(OWN)] if OWN.exists() else [])]
os.environ["PYTHONPATH"] = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")])
sys.path[:0] = PATHS

from benchmarks.bench_gpu import main  # noqa: E402

main()
