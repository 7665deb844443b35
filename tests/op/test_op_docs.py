import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_operator_page_is_current():
    done = subprocess.run(
        [sys.executable, "tools/make_op_docs.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
