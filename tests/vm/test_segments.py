"""Long functions of the native driver in segments: no jump crosses a cut, and the result, errors included, stays the same."""

import random

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.support.errors import VMError
from unity.vm.executable import bytecode as bc
from unity.vm.native import body
from unity.vm.native.driver import driver_ir
from unity.vm.native.segments import segment_starts

BRANCHES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        a = R.add(x, x)
        if c:
            b = R.multiply(a, x)
            d = R.add(b, a)
        else:
            b = R.subtract(a, x)
            d = R.multiply(b, R.exp(a))
        t = (d, R.reshape(d, R.shape([n, 1])), R.unique(x))
        e = R.call_packed("test.segments", t[0], sinfo_args=R.Tensor(("n",), "float32"))
        f = R.add(e, t[0])
        return (f, t[1], R.shape([n + 1]))
"""


def chain(count: int) -> str:
    """A chain of calls that no pass joins."""
    lines = [
        f'x{k + 1} = R.call_packed("test.segments", x{k}, sinfo_args=R.Tensor((4,), "float32"))' for k in range(count)
    ]
    body_text = "\n        ".join(lines)
    return f'@R.function(pure=False)\ndef main(x0: R.Tensor((4,), "float32")):\n        {body_text}\n        return x{count}\n'


@pytest.fixture
def added(monkeypatch):
    """The registered function of the programs; builds are made anew."""
    monkeypatch.setenv("UNITY_CACHE", "off")
    unity.register_func("test.segments", lambda x: unity.tensor(x.numpy() + 1), override=True)


def test_no_jump_crosses_a_cut():
    rng = random.Random(0)
    call = bc.Call(0, (), -1)
    for _ in range(200):
        code = [call] * 60
        for _ in range(rng.randrange(8)):
            at, to = rng.sample(range(60), 2)
            code[at] = rng.choice([bc.Goto(to), bc.If(bc.Imm(True), to)])
        for cut in segment_starts(code, 5):
            assert isinstance(code[cut - 1], bc.Call)
            for at, instruction in enumerate(code):
                if not isinstance(instruction, bc.Call):
                    assert (at < cut) == (instruction.target < cut)
    assert segment_starts([call] * 60, 5) == set(range(5, 60, 5))
    assert segment_starts([call] * 9, 5) == set()


def test_branches_tuples_and_symbols(added, monkeypatch):
    x = np.array([3, 1, 2, 5], "float32")
    whole = unity.VirtualMachine(unity.compile(parse(BRANCHES)))["main"]
    monkeypatch.setattr(body, "segment_starts", lambda code: segment_starts(code, 1))
    made = unity.compile(parse(BRANCHES))
    assert driver_ir(made.program)[0].count('@"segment.') > 8  # each is defined and called
    cut = unity.VirtualMachine(made)["main"]
    for flag in (np.array(True), np.array(False)):
        for a, b in zip(whole(x, flag)[:2], cut(x, flag)[:2]):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert cut(x, flag)[2] == whole(x, flag)[2] == (5,)


def test_an_error_in_a_segment_leaves_the_function(added, monkeypatch):
    monkeypatch.setattr(body, "segment_starts", lambda code: segment_starts(code, 3))
    calls = []

    def once(x):
        calls.append(0)
        if len(calls) == 20:
            raise ValueError("twenty")
        return unity.tensor(x.numpy() + 1) if len(calls) < 30 else unity.tensor(np.zeros((4, 4), "float32"))

    unity.register_func("test.segments", once, override=True)
    main = unity.VirtualMachine(unity.compile(parse(chain(40))))["main"]
    with pytest.raises(ValueError, match="twenty"):
        main(np.zeros(4, "float32"))
    assert len(calls) == 20
    with pytest.raises(VMError):
        main(np.zeros(4, "float32"))
    assert len(calls) == 30


def test_no_function_of_the_driver_grows_with_the_program(added):
    longest = []
    for count in (300, 900):
        made = unity.compile(parse(chain(count)))
        found = unity.VirtualMachine(made)["main"](np.zeros(4, "float32"))
        np.testing.assert_array_equal(found.numpy(), np.full(4, count, "float32"))
        longest.append(max([part.count("\n") for part in driver_ir(made.program)[0].split("\ndefine ")]))
    assert longest[1] < 1.2 * longest[0]
