"""The operator that CONTRIBUTING.md adds on the first day, added to a copy of the package: one row, one line of names."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import numpy as np, torch, unity
from unity.op import R
torch.library.define("mylib::hardswish2", "(Tensor x) -> Tensor")
torch.library.impl("mylib::hardswish2", "CompositeExplicitAutograd")(lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1))
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.mylib.hardswish2(x)
x = torch.linspace(-4, 4, 9)
compiled = unity.compile(Model().eval(), example_inputs=(x,), strict=True)
torch.testing.assert_close(compiled(x), Model()(x))
module = unity.script.parse('@R.function\\ndef main(x: R.Tensor((9,), "float32")):\\n    return R.nn.hardswish2(x)\\n')
assert "R.nn.hardswish2(x)" in module.script()
small = unity.transform.to_mixed_precision(unity.IRModule.from_expr(module))
"""


def test_the_operator_of_the_first_day(tmp_path):
    pytest.importorskip("torch")
    page = (ROOT / "CONTRIBUTING.md").read_text()
    row, line = re.search(r"```py\n(.*?)```", page, re.S)[1], re.search(r"```text\n(.*?)```", page, re.S)[1]
    for folder in ("unity", "tools", "docs", "tests/op"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with (tmp_path / "unity/op/nn/activations.py").open("a") as file:
        file.write("\n\n" + row)
    names = tmp_path / "tests/op/operator_names.txt"
    names.write_text("".join([n + "\n" for n in sorted([*names.read_text().splitlines(), line.strip()], key=first)]))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    tests = " ".join([f"tests/op/test_{n}.py" for n in ("operator_rows", "against_numpy", "native", "gradients")])
    chosen = [
        sys.executable,
        *f"-m pytest -q -rp -p no:cacheprovider {tests} -k".split(),
        "hardswish2 or operator_rows",
    ]
    for command in (chosen, [sys.executable, "-c", PROGRAM], [sys.executable, "tools/make_op_docs.py"]):
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        if command is chosen:
            assert len(re.findall(r"^PASSED .*hardswish2", done.stdout, re.M)) >= 7
    assert "`R.nn.hardswish2(data)`" in (tmp_path / "docs/operators.md").read_text()


def first(line):
    return line.split()[0]
