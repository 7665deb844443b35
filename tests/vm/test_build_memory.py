"""What a build freed goes back to the system; packed weights are there once."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, gc
import numpy as np
import unity
from unity.script import parse

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

TEXT = '''
@R.function
def main(x: R.Tensor((1, 768), "float32")):
    with R.dataflow():
        {lines}
        R.output(y40)
    return y40
'''
lines = ["y0 = x"] + [f"y{i + 1} = R.matmul(y{i}, R.multiply(W{i}, R.const(2.0, 'float32')))" for i in range(40)]
def build(size):
    scope = {f"W{i}": unity.Tensor(np.ones((size, size), "float32")) for i in range(40)}
    text = TEXT.replace("768", str(size)).format(lines="\\n        ".join(lines))
    return unity.compile(parse(text, scope=scope)), scope
build(256)  # everything is imported
gc.collect()
before = resident()
made, scope = build(768)
print(resident() - before, sum(c.numpy().nbytes for c in made.program.constants) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_build_holds_given_and_packed_weights_and_no_more():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    grown, constants = [float(word) for word in done.stdout.split()]
    assert constants == pytest.approx(90, rel=0.05)  # forty matrices of 2.25 MB, packed
    assert grown < 90 + 90 + 24  # those given, those packed, machine code and the module; the folded ones are gone
