"""Printing loads the script room by itself; importing the package does not."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
import unity
assert not [n for n in sys.modules if n.startswith("unity.") and not n.startswith(("unity.support", "unity.version"))]
from unity.ir import BlockBuilder, Var
from unity.ir.build import const
from unity.ir.relation import tensor_type

x = Var("x", tensor_type((const(3, "int64"),), "float32"))
builder = BlockBuilder()
with builder.function("main", [x]):
    builder.emit_func_output(x)
mod = builder.get()
assert "unity.script" not in sys.modules
{ask}
"""


def printed(ask):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ask=ask)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_text_of_a_module_is_script():
    text = printed("print(str(mod)); print(repr(x))")
    assert 'def main(x: R.Tensor((3,), "float32"))' in text and text.endswith("x\n")


def test_script_of_a_module_needs_no_import():
    assert "def main" in printed("print(mod.script())")
