"""Long texts: time in proportion to length, and the cycle collector as it was before."""

import contextlib
import gc

import pytest
from growth import assert_grows_at_most

from unity.script import parse
from unity.support.errors import ScriptError

LINES = """        l{0} = R.add(x, x)
        m{0} = R.multiply(l{0}, R.const(2.0, "float32"))
        k{0} = R.nn.relu(m{0})
"""


def text(count):
    body = "".join([LINES.format(k) for k in range(count)])
    head = '@R.function\ndef f(x: R.Tensor((16, 8), "float32")):\n    with R.dataflow():\n'
    return head + body + "        R.output(k0)\n    return k0\n"


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("source", [text(1), "@R.function\ndef f(x):\n"])
def test_the_collector_is_as_before(running, source):
    (gc.enable if running else gc.disable)()
    try:
        with contextlib.suppress(ScriptError):
            parse(source)
        assert gc.isenabled() is running
    finally:
        gc.enable()


def test_time_grows_with_length_only():
    short, long = text(150), text(1500)
    parse(short)
    assert_grows_at_most(20, lambda: parse(short), lambda: parse(long))  # ten times the text
