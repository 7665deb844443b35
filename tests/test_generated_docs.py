"""Generated pages and stubs are current."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_generated_files_are_current():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
